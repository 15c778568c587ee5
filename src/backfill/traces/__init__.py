"""Reads and writes workloads as text: SWF, CSV, Parquet."""
