"""Dimitriadou and Karatza, CISIS 2010: gangs and local jobs on a grid of two sites, Figures 2 to 7, and the claims.

One task is the jobs of one seed, under all policies that are compared: common random numbers.
docs/decisions/0026-grid-readings.md lists the readings of what the paper leaves open.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backfill import __version__
from backfill.papers import grid_claims
from backfill.papers.asked import Asked, Plan
from backfill.papers.grid_claims import (
    APPROACHES,
    HIGH,
    LOCAL,
    LOW,
    SITE,
    SIZES,
    SPAN,
    STARVED,
    STARVING,
    TOLERANCES,
    policy,
)
from backfill.papers.grid_runs import (
    ARRIVALS,
    BLOCK,
    COMPLETED,
    COMPLETIONS,
    RT,
    SLD,
    WARMUP,
    WRT,
    WSLD,
    GridTask,
    block,
    run,
)
from backfill.papers.grid_steady import LONGER, TESTED, Steady
from backfill.papers.sweep import Numbers, Sweep
from backfill.papers.write import Reproduction
from backfill.report.plots import Figure
from backfill.workloads.grid import POWERS

TITLE = (
    "Dimitriadou, Karatza: Job scheduling in a distributed system using backfilling with inaccurate runtime "
    "computations, CISIS 2010"
)
REPLICATIONS = 30
NAMES = APPROACHES
LOGS = ()  # none needed
GANGS = 0.5  # per second
SINGLE = (0.5, 0.7)  # local jobs per second at sites of one processor
READINGS: dict[
    str, tuple[tuple[str, ...], dict[str, Any]]
] = {  # alternative readings: gang-site and gang-span, and their non-default options
    "cross=idle": ((SITE, f"{SPAN}:cross=idle"), {}),
    "T = 0.5, delay=bounded": (tuple(f"{each}:tolerance=0.5,delay=bounded" for each in APPROACHES), {}),
    "coallocation_overhead=0.25": (APPROACHES, {"coallocation_overhead": 0.25}),
    "per_task=1": (APPROACHES, {"per_task": 1}),
    "estimates within:0.5": (APPROACHES, {"estimates": "within:0.5"}),
}
X = "local jobs per second at each site"
DRAWN = (
    ("figure-4", "Figure 4: response of gangs", "WRT, s", WRT, True),
    ("figure-5", "Figure 5: slowdown of gangs", "WSLD", WSLD, True),
    ("figure-6", "Figure 6: response of local jobs", "RT, s", RT, False),
    ("figure-7", "Figure 7: slowdown of local jobs", "SLD", SLD, False),
)


def reproduce(request: Asked) -> Reproduction:
    """Run all experiments: figures and claims; with `sensitivity` also F2.2, F2.4a and F2.5a in other readings."""
    plan = Plan(request, run)
    by_sizes = {
        sizes: plan.add({
            local: [
                GridTask.of(_policies(local, sizes), seed=seed, blocks=local == LOCAL[-1], local=local, gangs=GANGS,
                            sizes=sizes)
                for seed in request.seeds
            ]
            for local in LOCAL
        })
        for sizes in SIZES
    }  # fmt: skip
    alone = plan.add(
        {local: [GridTask.of([SITE], seed=s, local=local, gangs=0) for s in request.seeds] for local in LOCAL}
    )
    single = plan.add({
        load: [GridTask.of([SITE], seed=s, local=load, gangs=0, processors=1) for s in request.seeds] for load in SINGLE
    })  # fmt: skip
    longer = {
        sizes: plan.add({
            local: [
                GridTask.of(_in_longer_runs(sizes), seed=s, longer=LONGER, local=local, gangs=GANGS, sizes=sizes)
                for s in request.seeds
            ]
            for local in TESTED
        })
        for sizes in SIZES
    }  # fmt: skip
    second = {
        reading: plan.add({
            local: [GridTask.of(both, seed=s, local=local, gangs=GANGS, sizes=POWERS, **more) for s in request.seeds]
            for local in HIGH
        })
        for reading, (both, more) in (READINGS if request.sensitivity else {}).items()
    }  # fmt: skip
    done = plan.carry_out()
    sweeps = {sizes: Sweep(done(places)) for sizes, places in by_sizes.items()}
    steady = Steady(sweeps, {sizes: Sweep(done(places)) for sizes, places in longer.items()}, SIZES, APPROACHES)
    claims = grid_claims.claims_of(sweeps, Sweep(done(alone)), Sweep(done(single)), steady)
    for reading, places in second.items():
        claims += grid_claims.in_another_reading(reading, _as_defaults(done(places), READINGS[reading][0]))
    figures = [
        *(_completion(number, sizes, sweep) for number, (sizes, sweep) in enumerate(sweeps.items(), 2)),
        *(_both(sweeps, steady, *each) for each in DRAWN),
        _left_over(steady),
        *_by_tolerance(sweeps[POWERS], steady),
        *(_starvation(approach, sweeps[POWERS]) for approach in APPROACHES),
        _warm_up(sweeps),
    ]
    setting = [
        *_sentences(request),
        grid_claims.warm_up_is_over(sweeps),
        f"Steady state: {steady.sentence()}. It was tried at {grid_claims.shown(TESTED)} local jobs per second, with "
        f"runs {LONGER} times as long: where gangs come faster than they are served, as many more are left over.",
        *request.caveat(REPLICATIONS),
    ]
    version = {"version": f"backfill {__version__}"}
    return Reproduction(TITLE, setting, request.judged(claims), figures, version)


def _as_defaults(by_place: Mapping[float, list[dict[str, Numbers]]], both: tuple[str, ...]) -> Sweep:
    """Return the results of two policies, under the names of the approaches."""
    rows = {
        x: [{name: each[text] for name, text in zip(APPROACHES, both, strict=True)} for each in some]
        for x, some in by_place.items()
    }
    return Sweep(rows)


def _policies(local: float, sizes: str) -> list[str]:
    """Return the policies that some figure or claim needs at this load."""
    tolerances: tuple[float, ...] = TOLERANCES
    if sizes == POWERS and local in STARVED:
        tolerances += STARVING
    elif sizes != POWERS and local not in (LOW, HIGH[1]):
        tolerances = TOLERANCES[:1]
    return [policy(approach, tolerance) for tolerance in tolerances for approach in APPROACHES]


def _completion(number: int, sizes: str, sweep: Sweep) -> Figure:
    return Figure(
        f"figure-{number}", f"Figure {number}: completion of gangs, sizes {SIZES[sizes]}", X,
        "gangs that ended by the last arrival, %", _texts(LOCAL),
        {each: [sweep.mean(local, each, COMPLETED) for local in LOCAL] for each in APPROACHES}, percent=True,
    )  # fmt: skip


def _in_longer_runs(sizes: str) -> list[str]:
    """Return the policies whose gangs have a mean in some figure."""
    return [*APPROACHES, *([policy(SPAN, tolerance) for tolerance in TOLERANCES[1:]] if sizes == POWERS else [])]


def _both(sweeps: Mapping[str, Sweep], steady: Steady, name: str, title: str, y: str, metric: str, log: bool) -> Figure:
    """Return figures of both approaches and size distributions; without means of gangs if there is no steady state."""
    lines = {
        f"{each}, {SIZES[sizes]}": [
            None if metric in (WRT, WSLD) and not steady(sizes, local, each) else sweep.mean(local, each, metric)
            for local in LOCAL
        ]
        for sizes, sweep in sweeps.items()
        for each in APPROACHES
    }
    return Figure(name, title, X, y, _texts(LOCAL), lines, log=log)


def _left_over(steady: Steady) -> Figure:
    """Return the figure that shows a queue without a steady state: the gangs left over, in usual and in longer runs."""
    lines = {
        f"{each}, {SIZES[sizes]}, {arrivals:,}": [steady.left(sizes, local, each)[i] for local in TESTED]
        for sizes in SIZES
        for each in APPROACHES
        for i, arrivals in enumerate((ARRIVALS, LONGER * ARRIVALS))
    }
    return Figure(
        "left-over",
        "Steady or not: gangs left over, by the arrivals of a run",
        X,
        "gangs that have not ended at the last arrival",
        _texts(TESTED),
        lines,
        of="policy, sizes, arrivals",
    )


def _by_tolerance(sweep: Sweep, steady: Steady) -> list[Figure]:
    """Return figures of RT, WRT and completion over the load, a line for each T, of gang-span with powers of two."""
    drawn = (("rt", "local jobs", "RT, s", RT, False, False), ("wrt", "gangs", "WRT, s", WRT, False, True),
             ("completion", "completion of gangs", "gangs that ended by the last arrival, %", COMPLETED, True,
              False))  # fmt: skip
    return [
        Figure(
            f"tolerance-{name}", f"Inaccurate run times, {label}: gang-span, sizes {SIZES[POWERS]}",
            X, y, _texts(LOCAL),
            {f"T = {t:g}": [
                None if metric == WRT and not steady(POWERS, local, policy(SPAN, t))
                else sweep.mean(local, policy(SPAN, t), metric) for local in LOCAL
            ] for t in TOLERANCES},
            percent=percent, of="tolerance", log=log,
        )
        for name, label, y, metric, percent, log in drawn
    ]  # fmt: skip


def _starvation(approach: str, sweep: Sweep) -> Figure:
    """Return the figure of completion over T, up to two mean service times."""
    every = (*TOLERANCES, *STARVING)
    return Figure(
        f"starvation-{approach}", f"A large tolerance starves gangs: {approach}, sizes {SIZES[POWERS]}",
        "T, in mean service times", "gangs that ended by the last arrival, %", _texts(every),
        {
            f"{local:g} local jobs/s": [sweep.mean(local, policy(approach, t), COMPLETED) for t in every]
            for local in STARVED
        },
        percent=True, of="load",
    )  # fmt: skip


def _warm_up(sweeps: Mapping[str, Sweep]) -> Figure:
    """Return the figure of the mean response of local jobs in each block of completions, at the highest load."""
    blocks = range((WARMUP + COMPLETIONS) // BLOCK)
    return Figure(
        "warm-up", f"Warm-up: the first {WARMUP:,} completions are left out", f"{BLOCK:,} completions from",
        f"RT at {LOCAL[-1]}, s", [str(number * BLOCK) for number in blocks],
        {
            f"{each}, {'powers' if sizes == POWERS else 'uniform'}": [
                sweep.mean(LOCAL[-1], each, block(number)) for number in blocks
            ]
            for sizes, sweep in sweeps.items()
            for each in APPROACHES
        },
    )  # fmt: skip


def _texts(values: Iterable[float]) -> list[str]:
    return [f"{value:g}" for value in values]


def _sentences(request: Asked) -> Sequence[str]:
    """Return sentences on the runs."""
    return [
        f"Two sites of 16 processors; service times of mean 1 s, {GANGS:g} gangs per second; {request.replications} "
        "replications, the same jobs for all policies. Intervals by Student's t; ratios are those of means over the "
        "same seeds (delta method).",
        f"Each run has {ARRIVALS:,} arrivals. Means are over {COMPLETIONS:,} completions after the first {WARMUP:,}; "
        "the figure of the warm-up shows those too. Completion is the share of all gangs that ended by the last "
        "arrival.",
        "The paper's rates and tolerances are lost, so these are ours. Service times are exponential, so 1 / service "
        "time has no finite mean: SLD and WSLD grow with the number of jobs, and only values of equally long runs "
        "are comparable.",
    ]
