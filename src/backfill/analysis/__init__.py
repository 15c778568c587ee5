"""Metrics and the independent schedule checker."""
