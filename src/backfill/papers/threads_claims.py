"""The claims of the paper on the thread matrix, judged by the case that contradicts each most."""

import math

import numpy as np

from backfill.analysis.interval import Estimate
from backfill.api import simulate
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Workload
from backfill.papers.cases import Case, judged
from backfill.papers.claims import Claim, verdict_of
from backfill.papers.sweep import Sweep
from backfill.papers.threads_runs import (
    DIFFERENT,
    FCFS,
    FIRST_FIT,
    HEAD,
    IDLE,
    MAKESPAN,
    MATRIX,
    ONE_COLUMN,
    RATE,
    RESPONSE,
    SMALL,
    USED,
)

SIZES = (1292, 2018, 3113)  # jobs of the three experiments
MOST = SIZES[-1]
PRINTED = {FCFS: 4313.0, FIRST_FIT: 4197.0, MATRIX: 3861.0}  # overall response times of the last one; no unit is given
NEAR = 0.03  # tolerated distance of a ratio from the printed one
LOADS = (0.70, 0.75)  # for arrivals over time
AT_ONCE, ARRIVING = "all at once", "at load 0.5"  # jobs up to as wide as the machine; FCFS can handle little more
FIGURES = (5, 3, 6, 2, 1, 4, 2, 3)  # threads of J1 to J8 in Figures 1 to 3
ORDER = "1.1 2.1 3.1 4.1 5.1 6.1 1.2 2.2 3.2 4.2 6.2 1.3 2.3 3.3 6.3 1.4 3.4 6.4 1.5 3.5 3.6 7.1 8.1 7.2 8.2 8.3"


def change(sweep: Sweep, x: object, policy: str, metric: str, against: str = FCFS) -> Estimate:
    """Return the relative difference of a metric from that under another policy."""
    return sweep.ratio(x, policy, against, metric).plus(-1)


def _case(
    where: str, sweep: Sweep, x: object, policy: str, metric: str, bounds: tuple[float, float], against: str = FCFS
) -> Case:
    changed = change(sweep, x, policy, metric, against)
    return Case(where, changed, None, *bounds)


BELOW, ABOVE = (-math.inf, 0.0), (0.0, math.inf)


def of_figures(sweep: Sweep) -> list[Claim]:
    """Judge claims F3.1 and F3.2: overall response times, Figures 5 to 8."""
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
            "the shares within 3 points; the spread of thread times was chosen for it",
            near,
        ).fitted(),
        judged(
            "F3.2a",
            "3113 jobs: 4313 under FCFS",
            "within 5%; the times of the threads were chosen for it",
            [Case(f"{MOST} jobs", base, None, 0.95 * printed, 1.05 * printed)],
            False,
        ).fitted(),
    ]


def of_responses(sweep: Sweep) -> list[Claim]:
    """Judge claims F3.2b and F3.3: the jobs that respond later or earlier."""

    def cases(metric: str, bounds: tuple[float, float], against: str = FCFS) -> list[Case]:
        return [_case(f"{size} jobs", sweep, size, MATRIX, metric, bounds, against) for size in SIZES]

    return [
        judged("F3.2b", "mean response of jobs: matrix below FCFS", "below it", cases(RESPONSE, BELOW)),
        judged(
            "F3.2c",
            "mean response of jobs: matrix below backfilling",
            "below it, all jobs submitted at once",
            cases(RESPONSE, BELOW, FIRST_FIT),
        ),
        judged(
            "F3.3a",
            "the first jobs may respond later than under FCFS",
            "the first 5% of them, later",
            cases(HEAD, ABOVE),
        ),
    ]


def of_arrivals(sweep: Sweep) -> list[Claim]:
    """Judge claim F3.2c for arrivals over time, and the possible meaning of the printed numbers: A26 is open."""
    cases = [_case(f"at load {load:.2f}", sweep, load, MATRIX, RESPONSE, BELOW, FIRST_FIT) for load in LOADS]
    near = [
        _case(f"{label} at load {LOADS[-1]:.2f}", sweep, LOADS[-1], policy, RESPONSE, (share - NEAR, share + NEAR))
        for label, policy in (("backfilling", FIRST_FIT), ("thread matrix", MATRIX))
        for share in [PRINTED[policy] / PRINTED[FCFS] - 1]
    ]
    other = [change(sweep, LOADS[0], policy, RESPONSE).times(100) for policy in (FIRST_FIT, MATRIX)]
    return [
        judged("F3.2d", "mean response of jobs: matrix below backfilling",
               f"below it, jobs arrive over time at loads {LOADS[0]:.2f} and {LOADS[-1]:.2f}", cases),
        judged("F3.2e", "2.7% and 10.5% less than FCFS, read as mean response of jobs that arrive over time",
               f"within 3 points at load {LOADS[-1]:.2f}, which was chosen for it", near)
        .fitted()
        .noted(f"at load {LOADS[0]:.2f}: backfilling {other[0]}%, thread matrix {other[1]}%; so it is open (A26) "
               "whether the paper printed the time of the whole run or a mean"),
    ]  # fmt: skip


def of_wide(sweep: Sweep) -> list[Claim]:
    """Judge claim F3.3 with jobs up to as wide as the machine."""
    every = "; ".join(f"all jobs, {x}: {change(sweep, x, MATRIX, RESPONSE).times(100)}%" for x in (AT_ONCE, ARRIVING))
    small = "small jobs directly behind a big one respond earlier than under FCFS"
    expected = "earlier: jobs behind the largest 1% with at most half of the mean number of threads"
    here = _with_small(sweep)
    more = [p - q for p, q in zip(_by_seed(here, AT_ONCE, SMALL), _by_seed(here, AT_ONCE, RESPONSE), strict=True)]
    return [
        judged("F3.3a, wide", "the first jobs may respond later than under FCFS",
               "the first 5% of them, later, jobs up to as wide as the machine",
               [_case(AT_ONCE, sweep, AT_ONCE, MATRIX, HEAD, ABOVE)]),
        judged("F3.3b", small, expected, [_case(AT_ONCE, here, AT_ONCE, MATRIX, SMALL, BELOW)]).noted(every),
        judged("F3.3b, arrivals", small, expected, [_case(ARRIVING, here, ARRIVING, MATRIX, SMALL, BELOW)]),
        judged("F3.3c", "ours, not the paper's: small jobs behind a big one gain more than all jobs do",
               "their change minus that of all jobs, below 0",
               [Case(f"in percentage points, {AT_ONCE}", Estimate.of(more), None, *BELOW)]),
    ]  # fmt: skip


def _with_small(sweep: Sweep) -> Sweep:
    """Return the seeds in which a small job follows a big one."""
    return Sweep({x: [row for row in rows if not math.isnan(row[FCFS][SMALL])] for x, rows in sweep.found.items()})


def _by_seed(sweep: Sweep, x: object, metric: str) -> list[float]:
    """Return the change of a metric by the matrix against FCFS, one per seed."""
    both = zip(sweep.values(x, MATRIX, metric), sweep.values(x, FCFS, metric), strict=True)
    return [p / q - 1 for p, q in both]


def of_use(sweep: Sweep) -> list[Claim]:
    """Judge claim F3.5: abstract, sections IV and V."""

    def above(metric: str) -> list[Case]:
        return [
            _case(f"against {label}, {size} jobs", sweep, size, MATRIX, metric, ABOVE, against)
            for size in SIZES
            for label, against in (("FCFS", FCFS), ("backfilling", FIRST_FIT))
        ]

    expected = "above that of FCFS and of backfilling, all jobs submitted at once"
    return [
        judged("F3.5a", "the matrix increases the utilization", expected, above(USED)),
        judged(
            "F3.5b", "the matrix increases the throughput", f"jobs per hour of the whole run {expected}", above(RATE)
        ),
    ]


def of_laws(sweep: Sweep) -> list[Claim]:
    """Judge claim F3.4, and the figures that show the matrix: properties that must hold exactly."""
    idle = max(value for size in SIZES for value in sweep.values(size, MATRIX, IDLE))
    other = max(value for size in SIZES for value in sweep.values(size, ONE_COLUMN, DIFFERENT))
    runs = f"in {sum(len(sweep.found[size]) for size in SIZES)} runs"
    left = order()
    return [
        Claim("F3.4a", "no processor idles while a thread waits", "0 processor hours", f"{idle:g} {runs}",
              verdict_of([idle == 0])),
        Claim("F3.4b", "n = 1 is first come first served by threads", "0 other starts", f"{other:g} {runs}",
              verdict_of([other == 0])),
        Claim(
            "Figures 1-3",
            f"the threads of eight jobs leave the matrix in the order {ORDER}",
            "exactly",
            "this order" if left == ORDER else left,
            verdict_of([left == ORDER]),
        ),
    ]  # fmt: skip


def order() -> str:
    """Return the threads of the eight jobs of the figures, in order of their starts on one processor."""
    names = [f"{job}.{thread}" for job, size in enumerate(FIGURES, 1) for thread in range(1, size + 1)]
    second = np.full(len(names), SECOND)
    jobs = Jobs(
        job=np.array(names), submit=0 * second, runtime=second, walltime=second,
        project=Labels.of([name.partition(".")[0] for name in names]),
    )  # fmt: skip
    schedule = simulate(Workload(jobs=jobs, name="figures"), Platform.pool(1), MATRIX).schedule
    return " ".join(names[row] for row in np.argsort(schedule.start))
