"""Baraglia et al., CoreGRID 2007: the computational farm, its three figures, its two tables and its claims.

One task is one farm with its stream of jobs, under all policies that are compared: common random numbers.
docs/decisions/0009-farm-readings.md lists the readings of what the paper leaves open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backfill import __version__
from backfill.api import run_spec
from backfill.model.workload import Workload
from backfill.papers import farm_claims
from backfill.papers.asked import Asked, Plan
from backfill.papers.farm_claims import BF_MOD, BF_UNMOD, INTERARRIVALS, LABELS, POLICIES, PRIORITY, RATIOS, band
from backfill.papers.sweep import Numbers, Sweep, kept
from backfill.papers.write import Reproduction
from backfill.report.plots import Figure
from backfill.spec import RunSpec
from backfill.workloads.farm import farm

TITLE = (
    "Baraglia, Capannini, Pasquali, Puppin, Ricci, Techiouba: Backfilling strategies for scheduling streams of jobs on "
    "computational farms, CoreGRID 2007"
)
REPLICATIONS = 30  # the paper has 20
NAMES = POLICIES
LOGS = ()  # none needed
TABLE_INTERARRIVALS = (6, 12)
WEIGHTS = ("w_aging", "w_deadline", "w_licences", "w_wait")
KEPT = ("out_deadline", "system_usage", "system_usage_to_end", "system_usage_printed", "mean_slowdown", "licence_usage")


@dataclass(frozen=True, slots=True)
class FarmTask:
    """The task of running one farm under several policies. It can be sent to any process."""

    arguments: Mapping[str, Any]  # of the farm model
    specs: Mapping[str, RunSpec]  # by policy
    check: bool = False  # whether to count the broken promises of bf-unmod

    @classmethod
    def of(
        cls,
        seed: int,
        arguments: Mapping[str, Any],
        policies: Sequence[str] = POLICIES,
        params: Mapping[str, float] | None = None,
        check: bool = False,
    ) -> "FarmTask":
        """Build the task for the farm of a seed. params: of the policies with priorities."""
        specs = {name: RunSpec.of(name, params if name in PRIORITY else None, seed=seed) for name in policies}
        return cls({"seed": seed, **arguments}, specs, check)


def run(cell: FarmTask) -> dict[str, Numbers]:
    """Return the metrics of each policy on one farm."""
    log = farm(**cell.arguments)
    return {policy: _numbers(log, policy, spec, cell.check) for policy, spec in cell.specs.items()}


def _numbers(log: Workload, policy: str, spec: RunSpec, check: bool) -> Numbers:
    result = run_spec(log, None, spec)
    numbers = kept(result, {name: name for name in KEPT})
    if check and policy == BF_UNMOD:
        numbers["violations"] = float(len(result.verify()))  # BF_UNMOD binds itself, so late heads are among them
    return numbers


def reproduce(request: Asked) -> Reproduction:
    """Run all experiments: figures and claims; with `sensitivity` also for other weights and margins."""
    plan = Plan(request, run)

    def add(settings: Mapping[Any, Mapping[str, Any]], **more: Any) -> dict[Any, range]:
        return plan.add(_cells(request, settings, **more))

    main = add({ia: {"interarrival": ia} for ia in INTERARRIVALS}, check=True)
    tables = {
        ia: add({r: {"interarrival": ia, "ratio_low": r[0], "ratio_high": r[1]} for r in RATIOS}, policies=POLICIES[1:])
        for ia in TABLE_INTERARRIVALS
    }
    percent = weighted = None
    if request.sensitivity:
        percent = add({ia: {"interarrival": ia, "margin": "percent"} for ia in INTERARRIVALS})
        weighted = {
            (name, factor): add(
                {ia: {"interarrival": ia} for ia in INTERARRIVALS}, policies=PRIORITY, params={name: factor}
            )
            for name in WEIGHTS
            for factor in (0.1, 10.0)
        }
    results = plan.carry_out()

    def done(places: Mapping[Any, range]) -> Sweep:
        return Sweep(results(places))

    sweep, by_ratio = done(main), {ia: done(each) for ia, each in tables.items()}
    claims = [
        *farm_claims.claims_of(sweep),
        farm_claims.licence_usage_where_scarce(by_ratio),
        farm_claims.deadlines_where_scarce(by_ratio),
        farm_claims.nobody_starves_unless(sweep),
    ]
    figures = [*_figures(sweep), *_tables(by_ratio)]
    setting = [
        "100 machines of 1 to 8 cpus, 20 licences, 1,000 jobs; "
        f"{request.replications} farms, the same for all policies.",
        "System usage is the cpus held, divided by the cpus requested by the jobs in the system (at most all cpus), "
        "from the first submit to the last. Weights and factors are the defaults of bf-mod, fixed before the runs.",
    ]
    setting += request.caveat(REPLICATIONS)
    if percent is not None and weighted is not None:
        second, other = done(percent), {each: done(which) for each, which in weighted.items()}
        figures += [*_figures(second, " (margins in percent)", "-percent"), *_sensitivity(sweep, other)]
        claims += [replace(claim, id=f"{claim.id}, margins in percent") for claim in farm_claims.claims_of(second)]
        claims.append(farm_claims.robust(sweep, other))
    ordered = sorted(request.judged(claims), key=lambda claim: claim.id)
    return Reproduction(TITLE, setting, ordered, figures, {"version": f"backfill {__version__}"})


def _cells(request: Asked, settings: Mapping[Any, Mapping[str, Any]], **more: Any) -> dict[Any, list[FarmTask]]:
    """Return a sweep: x -> the tasks of its farms."""
    return {x: [FarmTask.of(seed, arguments, **more) for seed in request.seeds] for x, arguments in settings.items()}


def _figures(sweep: Sweep, reading: str = "", suffix: str = "") -> list[Figure]:
    at = [str(ia) for ia in INTERARRIVALS]
    x = "mean inter-arrival time"
    drawn = (
        ("figure-1a", "Figure 1a: Out Deadline", "jobs that miss their deadline, %", "out_deadline", True),
        ("figure-1b", "Figure 1b: System Usage", "system usage, %", "system_usage", True),
        ("figure-2a", "Figure 2a: Slow Down", "mean slowdown", "mean_slowdown", False),
    )
    return [
        Figure(name + suffix, title + reading, x, y, at,
               {LABELS[p]: [sweep.mean(ia, p, metric) for ia in INTERARRIVALS] for p in POLICIES}, percent)
        for name, title, y, metric, percent in drawn
    ]  # fmt: skip


def _tables(by_ratio: Mapping[int, Sweep]) -> list[Figure]:
    at = [band(ratio) for ratio in RATIOS]
    return [
        Figure(f"figure-2b-{number}-{ia}", f"Figure 2b, table {number}: {title}, inter-arrival {ia}",
               "License Ratio", y, at,
               {LABELS[p]: [sweep.mean(r, p, metric) for r in RATIOS] for p in POLICIES[1:]}, True, 1, table=True)
        for number, title, y, metric in (
            (1, "Licence usage", "licence usage, %", "licence_usage"),
            (2, "Out Deadline", "jobs that miss their deadline, %", "out_deadline"),
        )
        for ia, sweep in by_ratio.items()
    ]  # fmt: skip


def _sensitivity(sweep: Sweep, other: Mapping[tuple[str, float], Sweep]) -> list[Figure]:
    at = [str(ia) for ia in INTERARRIVALS]
    return [
        Figure(f"sensitivity-{name.replace('_', '-')}", f"Out Deadline of BF_MOD, {name} x 0.1, 1, 10",
               "mean inter-arrival time", "jobs that miss their deadline, %", at,
               {f"x {factor:g}": [each.mean(ia, BF_MOD, "out_deadline") for ia in INTERARRIVALS]
                for factor, each in ((0.1, other[name, 0.1]), (1.0, sweep), (10.0, other[name, 10.0]))}, True)
        for name in WEIGHTS
    ]  # fmt: skip
