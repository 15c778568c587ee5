"""Workloads out of tables of pandas and polars."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from backfill.model.errors import UsageError
from backfill.model.workload import Workload
from backfill.traces.files import Source
from backfill.traces.table import read_table


def from_pandas(
    frame: Any, columns: Mapping[str, str] | None = None, *, resources: Sequence[str] = (), timezone: str | None = None
) -> Workload:
    """The jobs of a pandas DataFrame, whose columns are those of a workload CSV (docs/reference/files.md).

    columns: what the frame calls them, as `{"runtime": "Elapsed"}`. resources: further columns that are resources.
    Instants may be timestamps, spans timedeltas, and either a number of seconds; timezone: of timestamps without one.
    Raises WorkloadError with row and column, and UsageError for what is no DataFrame.

    >>> import backfill as bf, pandas as pd
    >>> bf.from_pandas(pd.DataFrame({"job": [1], "submit": [0], "Elapsed": [60]}), {"runtime": "Elapsed"})
    <Workload DataFrame: 1 job>
    """
    if not hasattr(frame, "to_csv"):
        raise UsageError(f"frame is {type(frame).__name__}; expected a pandas DataFrame")
    spans = frame.select_dtypes("timedelta")
    plain = frame.assign(**{str(name): spans[name].dt.total_seconds() for name in spans})
    return _read(plain.to_csv(index=False).encode(), columns, resources, timezone)


def from_polars(
    frame: Any, columns: Mapping[str, str] | None = None, *, resources: Sequence[str] = (), timezone: str | None = None
) -> Workload:
    """The jobs of a polars DataFrame; the arguments are those of `from_pandas`.

    >>> import backfill as bf, polars as pl
    >>> bf.from_polars(pl.DataFrame({"job": [1], "submit": [0], "runtime": [60]}))
    <Workload DataFrame: 1 job>
    """
    if not hasattr(frame, "write_csv"):
        raise UsageError(f"frame is {type(frame).__name__}; expected a polars DataFrame")
    import polars as pl
    from polars import selectors

    plain = frame.with_columns(selectors.duration().dt.total_microseconds() / 1_000_000)
    dates = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime) and kind.time_zone]
    plain = plain.with_columns(pl.col(dates).dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00"))
    return _read(plain.write_csv().encode(), columns, resources, timezone)


def _read(text: bytes, columns: Mapping[str, str] | None, resources: Sequence[str], timezone: str | None) -> Workload:
    source = replace(Source.of(text), file="DataFrame")
    return read_table(source, resources, columns=tuple((columns or {}).items()), zone=timezone)
