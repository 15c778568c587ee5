"""The errors of predicted run times, beside those of the users' walltimes."""

from typing import Any

import numpy as np

from backfill.model.schedule import Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Workload

SHOWN = 50  # users with the most jobs


def prediction_metrics(
    workload: Workload, schedule: Schedule, rows: Ints, predicted: Ints
) -> dict[str, float | int | None]:
    """Return metrics of predictions at the submit, over the jobs of these rows that ran.

    prediction_error_s, walltime_error_s: the mean distance of the prediction and of the walltime from the run time.
    prediction_accuracy, walltime_accuracy: the mean of the smaller over the larger. underpredicted_share: the
    share of jobs that ran longer than predicted.
    """
    rows = rows[schedule.ran[rows]]
    names = ("prediction_error_s", "walltime_error_s", "prediction_accuracy", "walltime_accuracy")
    if not len(rows):
        return dict.fromkeys((*names, "underpredicted_share"))
    ran = np.maximum(schedule.end[rows] - schedule.start[rows], 1) / SECOND
    guesses = [np.maximum(values[rows], 1) / SECOND for values in (predicted, workload.jobs.walltime)]
    errors = [float(np.abs(guess - ran).mean()) for guess in guesses]
    accuracies = [float((np.minimum(guess, ran) / np.maximum(guess, ran)).mean()) for guess in guesses]
    metrics: dict[str, float | int | None] = dict(zip(names, (*errors, *accuracies), strict=True))
    return metrics | {"underpredicted_share": float((guesses[0] < ran).mean())}


def errors_by_user(workload: Workload, schedule: Schedule, predicted: Ints) -> list[dict[str, Any]]:
    """Return the same metrics per user, those with the most jobs first; at most SHOWN."""
    codes, names = workload.jobs.user.codes, workload.jobs.user.names
    counts = np.bincount(codes[schedule.ran & (codes >= 0)], minlength=len(names))
    users = [user for user in np.argsort(-counts, kind="stable")[:SHOWN].tolist() if counts[user]]
    return [
        {"user": names[user], "jobs": int(counts[user])}
        | prediction_metrics(workload, schedule, np.flatnonzero(codes == user), predicted)
        for user in users
    ]
