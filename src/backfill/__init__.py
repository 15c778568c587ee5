"""backfill: a batch-job scheduler built around backfilling."""
