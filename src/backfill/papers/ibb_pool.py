"""The experiment of the IBB paper on a real HTCondor: 54 jobs on four nodes, beside the same jobs simulated.

The planner of a queue decides (worlds.live.Planner); docs/decisions/0053-ibb-on-a-real-pool.md lists the readings.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from backfill import __version__
from backfill.analysis.interval import Estimate
from backfill.gang_run import Gangs, Ran, WallClock, check_idle, ended, platform_of, probe, run
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Workload
from backfill.papers import ibb_claims, nas
from backfill.papers.claims import Claim
from backfill.papers.ibb import TITLE
from backfill.papers.ibb_claims import BEST_FIT, EASY, FCFS, IBB, IBB_CYCLE, LABELS
from backfill.papers.ibb_logs import RESPONSE, SLOWDOWN, WAIT
from backfill.papers.ibb_pool_runs import (
    AT_ONCE,
    BUSY,
    DEAD,
    LARGEST_WAIT,
    LAUNCH,
    MAKESPAN,
    UNEVEN,
    WIDE,
    WIDE_WAIT,
    numbers,
    policy_of,
    simulated,
)
from backfill.papers.sweep import Numbers, Sweep
from backfill.papers.write import Reproduction
from backfill.report.plots import Figure

POLICIES = (FCFS, BEST_FIT, IBB, EASY)
REPLICATIONS = 3
SCALE = 0.04  # of the run times, which gives a mean of 5 s
NEGOTIATION_S = 60.0  # the cycle of HTCondor at full scale
REAL, SIMULATED = "measured", "simulated"
METRICS = {  # metric -> its name and unit
    WAIT: ("mean wait", "s"), WIDE_WAIT: (f"mean wait of jobs of {WIDE} processes", "s"),
    LARGEST_WAIT: (f"mean wait of the {len(nas.LARGEST)} largest jobs", "s"), RESPONSE: ("mean response", "s"),
    SLOWDOWN: ("mean slowdown", ""), UNEVEN: ("coefficient of variation of the slowdown", ""),
    MAKESPAN: ("makespan", "s"), BUSY: ("share of the cpus that is busy", ""),
    AT_ONCE: ("jobs that run at once", ""), DEAD: ("dead time of a job", "s"),
    LAUNCH: ("of which between decision and start", "s"),
}  # fmt: skip
Job = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PoolAsked:
    """The experiment to run. cycle_s: between two passes of the additional reading of IBB; 0 omits it."""

    policies: Sequence[str] = POLICIES
    replications: int = REPLICATIONS
    seed: int = 0
    scale: float = SCALE
    cycle_s: float = NEGOTIATION_S * SCALE

    @property
    def names(self) -> list[str]:
        """The policies, followed by the additional reading of IBB."""
        more = {IBB: [IBB_CYCLE]} if self.cycle_s else {}
        return [name for policy in self.policies for name in (policy, *more.get(policy, ()))]

    @property
    def seeds(self) -> range:
        """The seeds, one per replication."""
        return range(self.seed, self.seed + self.replications)


@dataclass(frozen=True, eq=False, slots=True)
class OnPool:
    """The results of the experiment. runs: each run with its jobs, for JSON."""

    reproduction: Reproduction
    table: Mapping[str, Mapping[str, Sequence[Estimate]]]  # metric -> measured or simulated -> one per policy
    names: Sequence[str]
    runs: Sequence[Mapping[str, Any]]


@dataclass
class _Found:
    """The collected numbers of the runs of all seeds: world -> one dict of policies per seed."""

    by_world: dict[str, list[dict[str, Numbers]]] = field(default_factory=lambda: {REAL: [], SIMULATED: []})
    runs: list[Mapping[str, Any]] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def add(self, log: Workload, name: str, seed: int, ran: Ran, again: Ran) -> None:
        """Add a run and its simulation."""
        for world, each in ((REAL, ran), (SIMULATED, again)):
            measured = numbers(log, each)
            self.by_world[world][-1][name] = measured
            kept = {metric: measured[metric] for metric in METRICS}
            self.runs.append({"seed": seed, "policy": name, "world": world, **kept, "jobs": _rows(log, each)})
        self.loads.append(os.getloadavg()[0])


def reproduce(
    asked: PoolAsked,
    pool: Gangs,
    clock: Callable[[], Any] = WallClock,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> OnPool:
    """Run all policies, seed by seed, and judge the claims. Raises BackfillError, and then ends the running jobs.

    progress: called with the number of jobs ended, and of all.
    """
    with ended(pool):
        platform = checked(pool)
        version, dead = pool.version(), probe(pool, platform, clock())
        collected = _Found()
        done, of = 0, len(nas.SHAPES) * len(asked.names) * asked.replications
        for seed in asked.seeds:
            log = nas.on_nodes(seed, platform, asked.scale)
            for world in collected.by_world.values():
                world.append({})
            for name in asked.names:
                cycle = round(asked.cycle_s * SECOND) if name == IBB_CYCLE else 0
                tell = partial(_tell, progress, done, of)
                ran = run(pool, log, policy_of(name), dead, cycle, clock(), tell)
                done += len(nas.SHAPES)
                collected.add(log, name, seed, ran, simulated(log, name, dead, ran, cycle))
    sweeps = {world: Sweep({54: each}) for world, each in collected.by_world.items()}
    table = {
        metric: {world: [sweep.mean(54, name, metric) for name in asked.names] for world, sweep in sweeps.items()}
        for metric in METRICS
    }
    setting = [*_sentences(asked, platform, dead), *_not_judged(asked)]
    provenance = {
        "version": f"backfill {__version__}",
        "HTCondor": version,
        "load of this machine": f"{min(collected.loads):.1f} to {max(collected.loads):.1f}, {os.cpu_count()} cpus",
    }
    reproduction = Reproduction(TITLE, setting, _claims(asked, sweeps), _figures(asked, table), provenance)
    return OnPool(reproduction, table, asked.names, collected.runs)


def _tell(progress: Callable[[int, int], None], before: int, of: int, over: int) -> None:
    progress(before + over, of)


def checked(pool: Gangs) -> Platform:
    """Return the platform of a pool if it is idle and like that of the paper. Raises UsageError, Down."""
    platform = platform_of(pool)
    cpus, memory = (platform.capacity[:, platform.resources.index(name)] for name in ("cpus", "memory"))
    if len(cpus) != nas.NODES or {*cpus.tolist()} != {nas.CORES} or len({*memory.tolist()}) != 1:
        nodes = f"{len(cpus)} with {', '.join(str(n) for n in sorted({*cpus.tolist()}))} cpus"
        raise UsageError(
            f"the pool has other nodes than the experiment needs: {nodes}; expected {nas.NODES} with {nas.CORES} cpus "
            "and equal memory"
        )
    check_idle(pool)
    if (there_mb := int(memory[0]) // 2**20) < nas.NODE_MB:
        raise UsageError(f"the pool has too little memory: {there_mb} MiB on a node; expected {nas.NODE_MB} or more")
    return platform


def _rows(log: Workload, ran: Ran) -> list[Job]:
    times = zip(log.jobs.job.tolist(), log.jobs.submit.tolist(), log.jobs.runtime.tolist(), strict=True)
    steps = zip(*(each.tolist() for each in (ran.decided, ran.running, ran.ended, ran.noticed)), strict=True)
    names = ("decided_s", "running_s", "ended_s", "noticed_s")
    return [
        {"job": job, "submit_s": submit / SECOND, "runtime_s": runtime / SECOND}
        | {name: t / SECOND for name, t in zip(names, each, strict=True)}
        for (job, submit, runtime), each in zip(times, steps, strict=True)
    ]


def _claims(asked: PoolAsked, sweeps: Mapping[str, Sweep]) -> list[Claim]:
    """Return the four claims, for both readings of IBB, measured and simulated."""
    claims = []
    for ibb in (IBB, IBB_CYCLE):
        if not {FCFS, BEST_FIT, ibb} <= {*asked.names}:
            continue
        for world, sweep in sweeps.items():
            few = ibb_claims.of_54_jobs(sweep, ibb)
            alone = replace(ibb_claims.of_54_jobs(sweep, ibb, (WAIT,))[0], id="F1.5a, wait alone")
            more = ", one pass per cycle" if ibb == IBB_CYCLE else ""
            claims += [replace(claim, id=f"{claim.id}{more}, {world}") for claim in (few[0], alone, *few[1:])]
    return claims


def _figures(asked: PoolAsked, table: Mapping[str, Mapping[str, Sequence[Estimate]]]) -> list[Figure]:
    at = [LABELS[name] for name in asked.names]
    return [
        Figure(f"pool-{metric.replace('_', '-')}", f"54 jobs on four nodes: {METRICS[metric][0]}", "policy",
               ", ".join(filter(None, METRICS[metric])), at, lines, of="world", points=True, table=True)
        for metric, lines in table.items()
    ]  # fmt: skip


def _sentences(asked: PoolAsked, platform: Platform, dead: int) -> list[str]:
    memory = int(platform.capacity[0, platform.resources.index("memory")]) / 2**30
    sentences = [
        f"54 jobs, submitted a second apart, on a real HTCondor of {nas.NODES} nodes with {nas.CORES} cpus and "
        f"{memory:g} GiB of memory each. They sleep for {asked.scale:g} of the run times of decision 11, a second at "
        "least, and need the same share of a node's memory. A gang is a pinned job on each of its nodes, submitted "
        "when the planner of a queue starts it; a pass follows each submit and each end that was seen.",
        f"{len(asked.seeds)} orders of submission, from seed {asked.seed}; intervals by Student's t over them.",
        "Simulated: the same jobs on the same nodes, where each run holds them longer by the mean dead time that was "
        "measured under the same policy and seed: from the decision to the start of the last part, and from the end "
        f"until it was seen. Policies expect {dead / SECOND:.2f} s of it, measured before with gangs over all nodes.",
    ]
    if IBB_CYCLE in asked.names:
        sentences.append(
            f"One pass per cycle: IBB decides only at multiples of {asked.cycle_s:g} s, as if the negotiator asked it."
        )
    return sentences


def _not_judged(asked: PoolAsked) -> list[str]:
    lacking = [LABELS[name] for name in (FCFS, BEST_FIT, IBB) if name not in asked.names]
    return [f"The claims are not judged: they need {' and '.join(lacking)} too."] if lacking else []
