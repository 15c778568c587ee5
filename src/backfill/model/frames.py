"""Make tables for polars and pandas from columns of texts and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from backfill.model.errors import MissingExtra, UsageError
from backfill.model.units import SECOND

Columns = Mapping[str, Sequence[Any]]  # texts, and numbers or None


def to_polars(columns: Columns, texts: Sequence[str]) -> Any:
    """Return a polars DataFrame; missing numbers are null. Raises MissingExtra."""
    try:
        import polars as pl
    except ImportError:
        raise MissingExtra("a table for polars", "data") from None
    return pl.DataFrame(columns, schema_overrides={n: pl.String if n in texts else pl.Float64 for n in columns})


def to_pandas(columns: Columns, texts: Sequence[str]) -> Any:
    """Return a pandas DataFrame; missing numbers are NaN. Raises UsageError without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("to_pandas needs pandas; install it with: pip install pandas") from None
    return pd.DataFrame(columns).astype({name: "float64" for name in columns if name not in texts})


def seconds(times: Sequence[int], none: int) -> list[float | None]:
    """Return microseconds as seconds; the value `none` becomes None."""
    return [None if t == none else t / SECOND for t in times]
