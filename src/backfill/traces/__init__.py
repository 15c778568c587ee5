"""Readers and writers of workload files: SWF, CSV and Parquet."""
