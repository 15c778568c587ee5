"""A schedule as a table of polars or pandas: one row per job, times in seconds."""

from typing import Any

from backfill.model.errors import MissingExtra, UsageError
from backfill.model.schedule import NO_TIME, REASONS, STATES, Schedule
from backfill.model.units import SECOND

_TIMES = ("submit", "start", "end")
_TEXTS = ("job", "state", "reason", "node")


def to_polars(schedule: Schedule) -> Any:
    """A polars DataFrame; times that are not there are null. Raises MissingExtra."""
    try:
        import polars as pl
    except ImportError:
        raise MissingExtra("a table of the schedule", "data") from None
    types = {**dict.fromkeys(_TIMES, pl.Float64), **dict.fromkeys(_TEXTS, pl.String)}
    return pl.DataFrame(_columns(schedule), schema_overrides=types)


def to_pandas(schedule: Schedule) -> Any:
    """A pandas DataFrame; times that are not there are NaN. Raises UsageError without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("to_pandas needs pandas; install it with: pip install pandas") from None
    return pd.DataFrame(_columns(schedule)).astype(dict.fromkeys(_TIMES, "float64"))


def _columns(schedule: Schedule) -> dict[str, list[Any]]:
    why = (*REASONS, "")
    columns: dict[str, list[Any]] = {"job": [str(job) for job in schedule.job.tolist()]}
    for name in _TIMES:
        columns[name] = [None if t == NO_TIME else t / SECOND for t in getattr(schedule, name).tolist()]
    columns["state"] = [STATES[state] for state in schedule.state.tolist()]
    columns["reason"] = [
        why[code] or cause for code, cause in zip(schedule.reason.tolist(), schedule.rejected_for, strict=True)
    ]
    columns["node"] = [schedule.node_text(row) for row in range(len(schedule))]
    return columns
