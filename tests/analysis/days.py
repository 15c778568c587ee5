"""A synthetic log of two policies whose true mean waits are known."""

import numpy as np

from backfill.analysis.metrics import Counted
from backfill.model.units import SECOND

DAY = 86_400 * SECOND


def counted(submit, wait, run) -> Counted:
    submit = np.asarray(submit, np.int64)
    start = submit + np.asarray(wait, np.int64)
    return Counted(np.arange(len(submit)), submit, submit, start, start + np.asarray(run, np.int64))


def log(seed: int, weeks: int = 30, a_day: int = 12):
    """A log whose mean waits are known: 1000 s under b, 400 s less under a; and what each policy made of it.

    What a day adds to the waits of its jobs depends on the day before, and not to the same extent under both policies.
    """
    random = np.random.default_rng(seed)
    days = 7 * weeks
    shocks = random.standard_exponential(days) - 1
    day = np.zeros(days)
    for i in range(1, days):
        day[i] = 0.3 * day[i - 1] + shocks[i]
    jobs = random.poisson(a_day, days)
    of_day = np.repeat(np.arange(days), jobs)
    submit = of_day * DAY + np.sort(random.integers(0, DAY, len(of_day)))
    own = random.standard_exponential(len(of_day)) - 1
    b = 1000 + 200 * day[of_day] + 300 * own
    a = 600 + 90 * day[of_day] + 200 * own
    run = np.full(len(of_day), 100 * SECOND)
    return [counted(np.sort(submit), np.rint(w * SECOND), run) for w in (b, a)]
