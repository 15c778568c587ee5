"""The claims of the paper on the thread matrix, judged by the case that speaks most against each."""

import math

import numpy as np

from backfill.analysis.interval import Estimate
from backfill.api import simulate
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Workload
from backfill.papers.cases import Case, judged
from backfill.papers.claims import Claim
from backfill.papers.sweep import Sweep
from backfill.papers.threads_runs import (
    BEHIND,
    DIFFERENT,
    FCFS,
    FIRST_FIT,
    HEAD,
    IDLE,
    MAKESPAN,
    MATRIX,
    ONE_COLUMN,
    RESPONSE,
)

SIZES = (1292, 2018, 3113)  # jobs of the three experiments
MOST = SIZES[-1]
PRINTED = {FCFS: 4313.0, FIRST_FIT: 4197.0, MATRIX: 3861.0}  # overall response times of the last one; no unit is given
NEAR = 0.03  # how far a ratio may be from the printed one
FIGURES = (5, 3, 6, 2, 1, 4, 2, 3)  # threads of J1 to J8 in Figures 1 to 3
ORDER = "1.1 2.1 3.1 4.1 5.1 6.1 1.2 2.2 3.2 4.2 6.2 1.3 2.3 3.3 6.3 1.4 3.4 6.4 1.5 3.5 3.6 7.1 8.1 7.2 8.2 8.3"


def change(sweep: Sweep, x: object, policy: str, metric: str, against: str = FCFS) -> Estimate:
    """By which share a metric differs from that under another policy."""
    return sweep.ratio(x, policy, against, metric).plus(-1)


def _case(
    where: str, sweep: Sweep, size: int, policy: str, metric: str, bounds: tuple[float, float], against: str = FCFS
) -> Case:
    changed = change(sweep, size, policy, metric, against)
    return Case(where, changed, changed, *bounds)


BELOW, ABOVE = (-math.inf, 0.0), (0.0, math.inf)


def of_figures(sweep: Sweep) -> list[Claim]:
    """F3.1 and F3.2: overall response times, Figures 5 to 8."""
    order = [
        case
        for size in SIZES
        for case in (
            _case(f"backfilling against FCFS, {size} jobs", sweep, size, FIRST_FIT, MAKESPAN, BELOW),
            _case(f"matrix against backfilling, {size} jobs", sweep, size, MATRIX, MAKESPAN, BELOW, FIRST_FIT),
        )
    ]
    near = [
        _case(label, sweep, MOST, policy, MAKESPAN, (printed - 1 - NEAR, printed - 1 + NEAR))
        for label, policy in (("backfilling", FIRST_FIT), ("thread matrix", MATRIX))
        for printed in [PRINTED[policy] / PRINTED[FCFS]]
    ]
    base = sweep.mean(MOST, FCFS, MAKESPAN)
    printed = PRINTED[FCFS]
    return [
        judged(
            "F3.1",
            "Figures 5-8, overall response time: thread matrix below backfilling, and that below FCFS",
            "for 1292, 2018 and 3113 jobs",
            order,
        ),
        judged(
            "F3.2",
            "3113 jobs: 4313 under FCFS, 4197 under backfilling, 3861 with the matrix, which is 2.7% and 10.5% less",
            "the shares within 3 points",
            near,
        ),
        judged(
            "F3.2a",
            "3113 jobs: 4313 under FCFS",
            "within 5%; the times of the threads were chosen for it",
            [Case(f"{MOST} jobs", base, base, 0.95 * printed, 1.05 * printed)],
            False,
        ),
    ]


def of_responses(sweep: Sweep) -> list[Claim]:
    """F3.2b and F3.3: who waits longer, and who does not."""

    def cases(metric: str, bounds: tuple[float, float], against: str = FCFS) -> list[Case]:
        return [_case(f"{size} jobs", sweep, size, MATRIX, metric, bounds, against) for size in SIZES]

    return [
        judged("F3.2b", "mean response of jobs: matrix below FCFS", "below it", cases(RESPONSE, BELOW)),
        judged(
            "F3.2c", "mean response of jobs: matrix below backfilling", "below it", cases(RESPONSE, BELOW, FIRST_FIT)
        ),
        judged(
            "F3.3a",
            "the first jobs may respond later than under FCFS",
            "the first 5% of them, later",
            cases(HEAD, ABOVE),
        ),
        judged(
            "F3.3b",
            "jobs behind a big one respond earlier than under FCFS",
            "those directly behind the largest 1%, earlier",
            cases(BEHIND, BELOW),
        ),
    ]


def of_laws(sweep: Sweep) -> list[Claim]:
    """F3.4, and the figures that show the matrix: what must hold exactly."""
    idle = max(value for size in SIZES for value in sweep.values(size, MATRIX, IDLE))
    other = max(value for size in SIZES for value in sweep.values(size, ONE_COLUMN, DIFFERENT))
    runs = f"in {sum(len(sweep.found[size]) for size in SIZES)} runs"
    left = order()
    return [
        Claim("F3.4a", "no processor idles while a thread waits", "0 processor hours", f"{idle:g} {runs}", idle == 0),
        Claim(
            "F3.4b", "n = 1 is first come first served by threads", "0 other starts", f"{other:g} {runs}", other == 0
        ),
        Claim(
            "Figures 1-3",
            f"the threads of eight jobs leave the matrix in the order {ORDER}",
            "exactly",
            "this order" if left == ORDER else left,
            left == ORDER,
        ),
    ]


def order() -> str:
    """The threads of the eight jobs of the figures in the order in which they start on one processor."""
    names = [f"{job}.{thread}" for job, size in enumerate(FIGURES, 1) for thread in range(1, size + 1)]
    second = np.full(len(names), SECOND)
    jobs = Jobs(
        job=np.array(names), submit=0 * second, runtime=second, walltime=second,
        project=Labels.of([name.partition(".")[0] for name in names]),
    )  # fmt: skip
    schedule = simulate(Workload(jobs=jobs, name="figures"), Platform.pool(1), MATRIX).schedule
    return " ".join(names[row] for row in np.argsort(schedule.start))
