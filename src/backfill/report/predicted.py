"""The section of a page on predictions: their errors and those of the walltimes, by user."""

from collections.abc import Mapping, Sequence
from typing import Any

from backfill.report.values import share_text, texts

HEADS = ("jobs", "error of predictions", "error of walltimes", "jobs that ran longer than predicted")


def predicted(policy: str, users: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the table of a policy: a row for each user, those with the most jobs first."""
    errors = [
        texts("prediction_error_s", [user[name] for user in users])
        for name in ("prediction_error_s", "walltime_error_s")
    ]
    rows = [
        (user["user"], [f"{user['jobs']:,}", error, asked, share_text(user["underpredicted_share"])])
        for user, error, asked in zip(users, *errors, strict=True)
    ]
    better = sum(user["prediction_error_s"] < user["walltime_error_s"] for user in users)
    return {"policy": policy, "heads": HEADS, "rows": rows, "better": better}
