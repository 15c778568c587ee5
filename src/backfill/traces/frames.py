"""Build workloads from DataFrames and arrays, for `Workload.from_pandas`, `from_polars` and `from_arrays`."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import available_timezones

import numpy as np

from backfill.model.errors import UsageError
from backfill.model.workload import Workload
from backfill.traces.columns import write_rows
from backfill.traces.files import Source
from backfill.traces.table import read_table

Names = Mapping[str, str] | None  # column -> its name in the table


def from_pandas(frame: Any, columns: Names, resources: Sequence[str], timezone: str | None) -> Workload:
    """Return the jobs of a pandas DataFrame."""
    if not hasattr(frame, "to_csv"):
        raise UsageError(f"frame is {type(frame).__name__}; expected a pandas DataFrame")
    spans = frame.select_dtypes("timedelta")
    plain = frame.assign(**{str(name): spans[name].dt.total_seconds() for name in spans})
    zones = {str(kind.tz) for kind in frame.dtypes if getattr(kind, "tz", None) is not None}
    return _read(plain.to_csv(index=False), "DataFrame", columns, resources, timezone or _zone(zones))


def from_polars(frame: Any, columns: Names, resources: Sequence[str], timezone: str | None) -> Workload:
    """Return the jobs of a polars DataFrame."""
    if not hasattr(frame, "write_csv"):
        raise UsageError(f"frame is {type(frame).__name__}; expected a polars DataFrame")
    import polars as pl
    from polars import selectors

    plain = frame.with_columns(selectors.duration().dt.total_microseconds() / 1_000_000)
    dates = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime) and kind.time_zone]
    plain = plain.with_columns(pl.col(dates).dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00"))
    zones = {frame.schema[name].time_zone for name in dates}
    plain = plain.with_columns(selectors.float().fill_nan(None))  # a missing value, as in pandas
    return _read(plain.write_csv(), "DataFrame", columns, resources, timezone or _zone(zones))


def from_arrays(arrays: Any, columns: Names, resources: Sequence[str], timezone: str | None) -> Workload:
    """Return the jobs of a dict of arrays or lists by column."""
    if not isinstance(arrays, Mapping):
        raise UsageError(f"arrays is {type(arrays).__name__}; expected a dict of arrays by column")
    cells = {str(name): _cells(values) for name, values in arrays.items()}
    lengths = {name: len(values) for name, values in cells.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UsageError(f"arrays have unequal lengths ({shown}); expected one value per job in each")
    out = io.StringIO()
    write_rows(out, cells, zip(*cells.values(), strict=True))
    return _read(out.getvalue(), "arrays", columns, resources, timezone)


def _zone(zones: set[str]) -> str | None:
    """Return the zone for displaying dates: that of all timestamps, if they share one and it has a name."""
    return zone if len(zones) == 1 and (zone := next(iter(zones))) in available_timezones() else None


def _cells(values: Any) -> list[Any]:
    """Return one value per job as in a CSV; None if missing, seconds for a timedelta."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise UsageError(f"an array has shape {array.shape}; expected one value per job")
    if array.dtype.kind in "mM":
        missing = np.isnat(array)
        array = array / np.timedelta64(1, "s") if array.dtype.kind == "m" else np.datetime_as_string(array)
        return [None if gone else value for gone, value in zip(missing.tolist(), array.tolist(), strict=True)]
    return [None if value is None or value != value else value for value in array.tolist()]  # NaN is unequal to itself


def _read(text: str, name: str, columns: Names, resources: Sequence[str], timezone: str | None) -> Workload:
    source = replace(Source.of(text.encode()), file=name)
    return read_table(source, resources, columns=tuple((columns or {}).items()), zone=timezone)
