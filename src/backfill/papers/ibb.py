"""Liu, Luan, Wang and Qian, NPC 2016: IBB on two recorded logs and on 54 jobs, its figures and its claims.

One task is one workload at one load, under all compared policies. docs/decisions/0011-ibb-readings.md lists the
readings of what the paper leaves open.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from backfill import __version__
from backfill.api import Result
from backfill.model.workload import Workload
from backfill.papers import ibb_claims, ibb_figures, nas
from backfill.papers.asked import Asked, Plan
from backfill.papers.claims import Claim
from backfill.papers.ibb_claims import (
    BB,
    BB_EMPTY,
    BEST_FIT,
    CONSERVATIVE,
    EASY,
    FCFS,
    IBB,
    IBB_EVEN,
    IBB_FIXED,
    LOWEST,
)
from backfill.papers.ibb_logs import (
    AS_BUILT,
    AS_PRINTED,
    CPUS,
    LANL,
    LOADS,
    META,
    WALLTIMES,
    LogSweep,
    LogTask,
    workload,
)
from backfill.papers.ibb_models import Drawn, lublin_with_memory, of_jobs, several
from backfill.papers.logs import how_to_get, missing
from backfill.papers.sweep import Numbers, Sweep
from backfill.papers.write import Reproduction
from backfill.report.plots import Figure

TITLE = (
    "Liu, Luan, Wang, Qian: IBB: Improved K-resource aware backfill balanced scheduling for HTCondor, NPC 2016, "
    "LNCS 9966"
)
REPLICATIONS = 30  # of generated workloads
LOGS = (LANL, META)
QUICK_WEEKS = 8  # of each log
BEGINS = 10  # of the second log in the mix, a minute apart: tests the effect of single arrivals
POLICIES = (BB, FCFS, EASY, LOWEST, BB_EMPTY, IBB, IBB_EVEN)  # on logs; the first is the baseline
FEW = (BB, EASY, IBB)  # with the alternative readings of walltimes
CROWDED = (BB, FCFS, EASY, LOWEST, BB_EMPTY, IBB)  # for a queue that never empties: the others take minutes there
CALM = 1.0  # conservative plans and runs every waiting job up to this load
SHOWN = (FCFS, EASY, LOWEST, IBB, BB, BB_EMPTY, IBB_EVEN, CONSERVATIVE)  # IBB dashed: it often hides BFF
NAMES = tuple(dict.fromkeys(text.partition(":")[0] for text in (*SHOWN, BEST_FIT)))
ON_NODES = (FCFS, BEST_FIT, EASY, IBB, BB)
ON_RESOURCES = (EASY, BB, BB_EMPTY)
ON_LUBLIN = (EASY, LOWEST, BB, IBB, BB_EMPTY, IBB_EVEN)
COUNTS = range(2, 9)
MEMORIES = {"discrete": (0.3, 0.45, 0.6, 0.8, 1.0), "lognormal": (0.3, 0.6, 0.8, 1.0)}  # -> loads


class Setting(NamedTuple):
    """A sweep over relative loads."""

    logs: tuple[str, ...]
    walltime: str = WALLTIMES[0]
    memory: int = AS_PRINTED


PURE, SMALL = Setting((LANL,)), Setting((LANL,), memory=AS_BUILT)
MIXED, MIXED_SMALL = Setting((LANL, META)), Setting((LANL, META), memory=AS_BUILT)
WHAT = {PURE.logs: "LANL-CM5", MIXED.logs: "LANL-CM5 + MetaCentrum"}


def run(cell: LogTask | Drawn) -> Any:
    """Return the result of a task."""
    return cell.carry_out()


def reproduce(request: Asked) -> Reproduction:
    """Run all experiments whose logs are available; claims that need others are not judged."""
    plan, fixed = Plan(request, run), (IBB_FIXED,) if request.sensitivity else ()
    places = {setting: plan.add(_over_loads(request, setting, fixed)) for setting in _settings(request)}
    jobs = plan.add(_drawn(request, {54: nas.jobs}, ON_NODES, of_jobs))
    resources = plan.add(_drawn(request, {k: partial(several, k) for k in COUNTS}, ON_RESOURCES))
    demands = {
        (memory, load): partial(lublin_with_memory, memory, load) for memory in MEMORIES for load in MEMORIES[memory]
    }
    lublin = plan.add(_drawn(request, demands, ON_LUBLIN + fixed))
    shifted = plan.add(_shifted(request) if request.sensitivity and not missing(LOGS, request.logs) else {})
    done = plan.carry_out()
    sweeps = {setting: LogSweep({load: row for load, (row,) in done(each).items()}) for setting, each in places.items()}
    by_job, by_count, by_memory = (Sweep(done(each)) for each in (jobs, resources, lublin))
    by_begin = Sweep({load: [row.values for row in rows] for load, rows in done(shifted).items()})
    claims = [
        *_claims(sweeps),
        *ibb_claims.without(missing(LOGS, request.logs)),
        *ibb_claims.shorter_response(by_count),
        *ibb_claims.of_54_jobs(by_job),
        *ibb_claims.of_lublin(by_memory),
    ]
    if by_begin.found:
        claims.append(ibb_claims.of_shifted(by_begin))
    if request.sensitivity:
        claims += [
            *_second_readings(sweeps),
            *_read_as("refresh=false", ibb_claims.of_lublin(by_memory, IBB_FIXED)[:1]),
        ]
    figures = [
        *_figures(sweeps),
        *ibb_figures.of_54_jobs(by_job, ON_NODES),
        ibb_figures.of_resources(by_count, ON_RESOURCES),
        *ibb_figures.of_lublin(by_memory, ON_LUBLIN),
    ]
    ordered = sorted(request.judged(claims), key=lambda claim: claim.id)
    return Reproduction(TITLE, _sentences(request, sweeps), ordered, figures, {"version": f"backfill {__version__}"})


def _over_loads(request: Asked, setting: Setting, more: tuple[str, ...]) -> dict[float, list[LogTask]]:
    """Return a sweep over relative loads, the longest tasks first."""
    logs = tuple(request.logs[name] for name in setting.logs)
    main = setting.walltime == PURE.walltime and setting != MIXED_SMALL
    chosen = (POLICIES if main else CROWDED if setting == MIXED_SMALL else FEW) + more
    return {
        load: [
            LogTask.of(
                logs,
                load,
                (*chosen, CONSERVATIVE) if main and load <= CALM else chosen,
                setting.walltime,
                setting.memory,
                _weeks(request),
            )
        ]
        for load in reversed(LOADS)
    }


def _shifted(request: Asked) -> dict[float, list[LogTask]]:
    """Return the mixed workload over relative loads, with several begins of the second log."""
    logs = tuple(request.logs[name] for name in LOGS)
    return {
        load: [LogTask.of(logs, load, FEW, weeks=_weeks(request), later_s=60 * k) for k in range(BEGINS)]
        for load in reversed(LOADS)
    }


def _drawn(
    request: Asked,
    sources: Mapping[Any, Callable[[int], Workload]],
    chosen: tuple[str, ...],
    more: Callable[[Result], Numbers] | None = None,
) -> dict[Any, list[Drawn]]:
    """Return a sweep over generated workloads, one task per replication."""
    return {x: [Drawn.of(source, seed, chosen, more) for seed in request.seeds] for x, source in sources.items()}


def _weeks(request: Asked) -> int | None:
    """Return the weeks of each log that are used; None: all."""
    return QUICK_WEEKS if request.quick else None


def _settings(request: Asked) -> list[Setting]:
    """Return the sweeps whose logs are available."""
    wanted = [*(Setting(logs, walltime) for logs in (MIXED.logs, PURE.logs) for walltime in WALLTIMES), SMALL]
    wanted.insert(0, MIXED_SMALL)  # its tasks are the longest
    return [setting for setting in wanted if not missing(setting.logs, request.logs)]


def _claims(sweeps: Mapping[Setting, LogSweep]) -> list[Claim]:
    claims: list[Claim] = []
    if PURE in sweeps:
        claims += ibb_claims.of_pure(sweeps[PURE])
        claims += _read_as(f"{AS_BUILT} GB in total", ibb_claims.of_pure(sweeps[SMALL]))
    if MIXED in sweeps:
        claims += ibb_claims.of_mixed(sweeps[MIXED], sweeps[PURE])
        claims += _read_as(f"{AS_BUILT} GB in total", ibb_claims.of_mixed(sweeps[MIXED_SMALL], sweeps[SMALL]))
    return claims


def _second_readings(sweeps: Mapping[Setting, LogSweep]) -> list[Claim]:
    """Return the claims about logs with other walltimes, and with a fixed right side of the test."""
    claims: list[Claim] = []
    for walltime, ibb, reading in (
        *((walltime, IBB, f"walltimes {walltime}") for walltime in WALLTIMES[1:]),
        (WALLTIMES[0], IBB_FIXED, "refresh=false"),
    ):
        pure, mixed = (sweeps.get(Setting(logs, walltime)) for logs in (PURE.logs, MIXED.logs))
        if pure is not None:
            claims += _read_as(reading, ibb_claims.of_pure(pure, ibb))
            claims += _read_as(reading, ibb_claims.of_mixed(mixed, pure, ibb)) if mixed is not None else ()
    return claims


def _read_as(reading: str, claims: Iterable[Claim]) -> list[Claim]:
    return [replace(claim, id=f"{claim.id}, {reading}") for claim in claims]


def _figures(found: Mapping[Setting, LogSweep]) -> list[Figure]:
    figures: list[Figure] = []
    for number, setting, suffix, more in (
        (1, PURE, "", ""),
        (1, SMALL, "-small", ", 32 GB in total"),
        (2, MIXED, "", ""),
        (2, MIXED_SMALL, "-small", ", 32 GB in total"),
    ):
        if setting in found:
            label = WHAT[setting.logs] + more
            ran = {policy for row in found[setting].found.values() for policy in row.values}
            figures += ibb_figures.of_sweep(found[setting], [p for p in SHOWN if p in ran], number, suffix, label)
    for number, logs in enumerate(WHAT, 1):
        if Setting(logs) in found:
            sweeps = {walltime: found[Setting(logs, walltime)] for walltime in WALLTIMES}
            figures += ibb_figures.of_readings(sweeps, number, WHAT[logs])
    return figures


def _sentences(request: Asked, sweeps: Mapping[Setting, LogSweep]) -> list[str]:
    """Return sentences on the runs."""
    sentences = [
        f"Logs: {CPUS:,} cpus as one pool, with 1 GB of memory for each, and also with {AS_BUILT} GB in total; "
        "walltime = the longer of requested and run time, and no job is killed. Relative loads from "
        f"{LOADS[0]:g} to {LOADS[-1]:g}; intervals of differences by a bootstrap of eight long blocks. There is none "
        "where the queue stays non-empty for most of the log.",
        f"Generated workloads: {request.replications} of each, the same for all policies; intervals by Student's t.",
    ]
    if MIXED in sweeps:
        notes = workload(tuple(request.logs[name] for name in MIXED.logs), weeks=_weeks(request)).notes
        sentences.append(f"Mixed: {notes[0]}. MetaCentrum has no requested times, so the run time is used.")
    if rejected := sum(row.values[BB]["rejected_jobs"] for sweep in sweeps.values() for row in sweep.found.values()):
        sentences.append(
            f"In all runs of BB together {rejected:.0f} jobs were rejected: they ask for more than the machine has."
        )
    if lacking := missing(LOGS, request.logs):
        sentences.append(f"Not judged are claims that need a log which was not there: {how_to_get(lacking)}.")
    if request.quick and request.logs:
        sentences.append(f"Quick look: the first {QUICK_WEEKS} weeks of each log; no claim is judged.")
    return [*sentences, *request.caveat(REPLICATIONS)]
