"""Text to Workload and back: SWF, CSV, Parquet."""
