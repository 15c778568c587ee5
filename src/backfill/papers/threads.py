"""The thread matrix with horizontal scanning: the three experiments of its paper, Figures 5 to 8, and the claims.

One task is the jobs of one seed, under all policies that are compared: common random numbers. The paper gives neither
processors, nor threads, nor run times: docs/decisions/0022-thread-matrix.md lists the choices, and `--sensitivity`
shows the results of others.
"""

from backfill import __version__
from backfill.analysis.interval import Estimate
from backfill.papers.asked import Asked, Plan
from backfill.papers.sweep import Cell, Sweep
from backfill.papers.threads_claims import (
    ARRIVING,
    AT_ONCE,
    LOADS,
    MOST,
    PRINTED,
    SIZES,
    change,
    of_arrivals,
    of_figures,
    of_laws,
    of_responses,
    of_use,
    of_wide,
)
from backfill.papers.threads_runs import (
    BY_THREADS,
    FCFS,
    FIRST_FIT,
    HEAD,
    MAKESPAN,
    MATRIX,
    ONE_COLUMN,
    OTHERS,
    PARTS,
    RATE,
    RESPONSE,
    USED,
    part,
    run,
)
from backfill.papers.write import Reproduction
from backfill.report.plots import Drawing, Figure

TITLE = "The thread matrix with horizontal scanning"
REPLICATIONS = 10
LOGS = ()  # none needed
NAMES = (
    "partition-variable", "partition-fixed", "partition-adaptive", "partition-dynamic", "round-robin", "thread-matrix",
    "fcfs",
)  # fmt: skip
MAIN = {"FCFS": FCFS, "backfilling": FIRST_FIT, "thread matrix": MATRIX}
SETTINGS: dict[str, dict[str, float]] = {  # alternative choices -> arguments of the model
    "as taken": {},
    "32 processors": {"cpus": 32},
    "64 processors": {"cpus": 64},
    "256 processors": {"cpus": 256},
    "up to 8 threads": {"most": 8},
    "up to 32 threads": {"most": 32},
    "8 threads, 64 processors": {"most": 8, "cpus": 64},
    "equal threads of a job": {"spread": 0},
    "threads +-20%": {"spread": 0.2},
    "threads +-50%": {"spread": 0.5},
    "jobs come over time, load 0.9": {"interarrival": 1.364},
    "half the threads come after another": {"linked": 0.5},
}
SETTINGS_JOBS, SETTINGS_SEEDS = 1292, 3  # of each
WIDE_JOBS = 1292
THREAD_S = 18.48  # mean thread time
CPUS, WIDTH = 128, 16  # the choice: processors, and the most threads of a job


def _between(load: float, most: int = WIDTH) -> float:
    """Return the mean time between two jobs of 1 to `most` threads that offer a load, in seconds."""
    return THREAD_S * (1 + most) / 2 / CPUS / load


WIDE: dict[str, dict[str, float]] = {  # jobs up to as wide as the machine
    AT_ONCE: {"most": CPUS},
    ARRIVING: {"most": CPUS, "interarrival": _between(0.5, CPUS)},
}


def reproduce(request: Asked) -> Reproduction:
    """Run all experiments: figures and claims; with `sensitivity` also other choices of missing parameters."""
    plan = Plan(request, run)
    beside = SIZES[:1] if request.quick else SIZES  # sizes for which other policies are run too
    main = plan.add({
        size: [Cell.of(_policies(size in beside), jobs=size, seed=seed) for seed in request.seeds] for size in SIZES
    })  # fmt: skip
    arriving = plan.add({
        load: [Cell.of(MAIN.values(), jobs=MOST, interarrival=_between(load), seed=s) for s in request.seeds]
        for load in LOADS
    })  # fmt: skip
    wide = plan.add({
        label: [Cell.of(MAIN.values(), **{"jobs": WIDE_JOBS, "seed": s, **more}) for s in request.seeds]
        for label, more in WIDE.items()
    })  # fmt: skip
    few = request.seeds[:SETTINGS_SEEDS]
    others = plan.add({
        label: [Cell.of(MAIN.values(), **{"jobs": SETTINGS_JOBS, "seed": seed, **arguments}) for seed in few]
        for label, arguments in (SETTINGS.items() if request.sensitivity else ())
    })  # fmt: skip
    done = plan.carry_out()
    sweep, settings, over_time = Sweep(done(main)), Sweep(done(others)), Sweep(done(arriving))
    figures: list[Drawing] = [
        *(_of_size(sweep, size, number) for number, size in enumerate(SIZES, 5)),
        _of_sizes(sweep),
        _of_use(sweep, "utilization", USED, "utilization, %", True),
        _of_use(sweep, "throughput", RATE, RATE, False),
        _over_time(over_time),
        _by_position(sweep),
        _of_policies(sweep, beside[-1]),
        *([_of_settings(settings)] if settings.found else []),
    ]
    claims = [
        *of_figures(sweep),
        *of_responses(sweep),
        *of_arrivals(over_time),
        *of_wide(Sweep(done(wide))),
        *of_use(sweep),
        *of_laws(sweep),
    ]
    version = {"version": f"backfill {__version__}"}
    return Reproduction(TITLE, _sentences(request, len(few)), request.judged(claims), figures, version)


def _policies(others: bool) -> list[str]:
    """Return the policies of the figures and of the laws. others: also those that the paper compares itself with."""
    return [*MAIN.values(), ONE_COLUMN, *(OTHERS.values() if others else [BY_THREADS])]


def _of_size(sweep: Sweep, size: int, number: int) -> Figure:
    """Draw Figures 5 to 7."""
    lines = {"here": [sweep.mean(size, policy, MAKESPAN) for policy in MAIN.values()]}
    if size == MOST:
        lines["paper"] = [Estimate.of([PRINTED[policy]]) for policy in MAIN.values()]
    title = f"Figure {number}: overall response time, {size} jobs"
    return Figure(f"figure-{number}", title, "policy", f"{MAKESPAN}, s", [*MAIN], lines, of="source", points=True)


def _of_sizes(sweep: Sweep) -> Figure:
    """Draw Figure 8."""
    lines = {label: [sweep.mean(size, policy, MAKESPAN) for size in SIZES] for label, policy in MAIN.items()}
    title = "Figure 8: overall response time of the three experiments"
    return Figure("figure-8", title, "jobs", f"{MAKESPAN}, s", [str(size) for size in SIZES], lines)


def _of_use(sweep: Sweep, name: str, metric: str, y: str, percent: bool) -> Figure:
    """Return the figure of the paper's statements in words: utilization and throughput increase."""
    lines = {label: [sweep.mean(size, policy, metric) for size in SIZES] for label, policy in MAIN.items()}
    title = f"{name.capitalize()} of the three experiments"
    return Figure(name, title, "jobs", y, [str(size) for size in SIZES], lines, percent=percent)


def _over_time(sweep: Sweep) -> Figure:
    """Return the figure of the mean response for arrivals over time, beside the paper's unexplained numbers."""
    labels = {label: policy for label, policy in MAIN.items() if policy != FCFS}
    lines = {label: [change(sweep, load, policy, RESPONSE) for load in LOADS] for label, policy in labels.items()}
    lines |= {
        f"{label}, paper": [Estimate.of([PRINTED[policy] / PRINTED[FCFS] - 1])] * len(LOADS)
        for label, policy in labels.items()
    }
    title = f"{MOST} jobs that arrive over time: mean response against FCFS"
    return Figure("arrivals", title, "load", "change against FCFS, %", [f"{load:.2f}" for load in LOADS], lines,
                  percent=True, points=True)  # fmt: skip


def _by_position(sweep: Sweep) -> Figure:
    """Return the figure of the paper's caveat: the first jobs may respond later."""
    at = [f"{100 * (i + 1) // PARTS}%" for i in range(PARTS)]
    lines = {label: [sweep.mean(MOST, policy, part(i)) for i in range(PARTS)] for label, policy in MAIN.items()}
    title = f"Response of jobs by their place in the queue, {MOST} jobs"
    return Figure("response-by-place", title, "place in the queue", f"{RESPONSE}, s", at, lines, apart=True)


def _of_policies(sweep: Sweep, size: int) -> Figure:
    """Return the figure of the other policies in the paper, and of baselines that free a processor with its thread."""
    labels = {"backfilling": FIRST_FIT, "thread matrix": MATRIX, **OTHERS}
    lines = {
        label: [change(sweep, size, policy, metric) for metric in (MAKESPAN, RESPONSE)]
        for label, policy in labels.items()
    }
    title = f"Other policies against FCFS, {size} jobs"
    return Figure("policies", title, "metric", "change against FCFS, %", [MAKESPAN, RESPONSE], lines, percent=True,
                  table=True, points=True)  # fmt: skip


def _of_settings(settings: Sweep) -> Figure:
    """Return the figure of the results with other choices of what the paper does not give."""
    lines = {
        f"{label}, {metric}": [change(settings, setting, policy, metric) for setting in settings.found]
        for metric in (MAKESPAN, RESPONSE)
        for label, policy in [*MAIN.items()][1:]
    }
    lines["thread matrix, first 5%"] = [change(settings, setting, MATRIX, HEAD) for setting in settings.found]
    title = f"Other choices, {SETTINGS_JOBS} jobs: change against FCFS"
    return Figure("sensitivity", title, "choice", "change against FCFS, %", [*map(str, settings.found)], lines,
                  percent=True, table=True, of="policy and metric", points=True)  # fmt: skip


def _sentences(request: Asked, few: int) -> list[str]:
    """Return sentences on the runs."""
    sentences = [
        "Three experiments of 1292, 2018 and 3113 jobs, all submitted at once; the same jobs for all policies, and "
        f"{request.replications} seeds. Intervals by Student's t; changes are ratios of means over the same seeds "
        "(delta method).",
        "The paper gives neither processors, nor thread counts, nor run times, nor a unit. Taken once, the same for "
        "all: 128 processors; 1 to 16 threads for each job; thread times of a job within 10% of a mean of 1.76 to "
        "35.2 s. The spread of 10% was chosen because with it both printed ratios come out, and the mean because "
        "with it FCFS takes about 4313 s. So F3.2 says that such a workload exists, not that the paper had it: these "
        "two numbers are fitted.",
        f"Besides, {MOST} jobs that arrive as a Poisson stream at loads of {LOADS[0]:.2f} and {LOADS[-1]:.2f}, and "
        f"{WIDE_JOBS} jobs of 1 to {CPUS} threads, as wide as the machine, all at once and at a load of 0.5. Load is "
        "the time of all threads over that of all processors. What the paper's 4313, 4197 and 3861 are is open: with "
        "arrivals the mean response has nearly the same ratios as the time of the whole run has without.",
        "Overall response time is the makespan. FCFS and backfilling start whole jobs, which hold all their processors "
        "to the end of the last thread; backfilling is first fit without a reservation.",
    ]
    if request.sensitivity:
        sentences.append(f"The last figure has other choices, with {SETTINGS_JOBS} jobs and {few} seeds each.")
    return [*sentences, *request.caveat(REPLICATIONS)]
