"""Lin, Thai, Wang and Lai, JNCA 52, 2015: projects with promised departures, Figures 6 and 8 to 12, and the claims.

One task is the projects of one seed, under all policies that are compared: common random numbers.
docs/decisions/0020-two-tier-readings.md lists the readings of what the paper leaves open.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from backfill import __version__
from backfill.papers import case_study, twotier_claims, twotier_figures
from backfill.papers.asked import Asked, Plan
from backfill.papers.sweep import Cell, Numbers, Sweep
from backfill.papers.twotier_claims import (
    BUSIEST,
    CALMEST,
    FACTORS,
    INTERARRIVALS,
    LIMITS,
    PB_FACTORS,
    PROJECTS,
    SEEDS,
    SF,
    TSB,
    feedback,
    with_priority,
    with_slack,
)
from backfill.papers.twotier_runs import run
from backfill.papers.write import Reproduction
from backfill.report.plots import Drawing

TITLE = (
    "Lin, Thai, Wang, Lai: Two-tier project and job scheduling for SaaS cloud service providers, "
    "Journal of Network and Computer Applications 52, 2015"
)
REPLICATIONS = 30  # the paper has 5
AT_HIGH_LOAD = 10  # at most, of the sweep over SF at an inter-arrival time of 10, and of alternative readings
LOGS = ()  # none needed
QUICK_PROJECTS = 250
HIGH = 0.2  # share of the projects with a high priority
NAMES = ("2tsb", "2tfb", "2tfb-sf", "2tpb")
READINGS = {  # which jobs make way, and where to
    "per_time (default)": "",
    "one": "victims=one",
    "any": "victims=any",
    "per_time, later_only": "rebook=later_only",
    "any, later_only": "victims=any,rebook=later_only",
    "per_time, compress": "compress=true",
    "any, compress": "victims=any,compress=true",
    "unstarted projects": "movable=unstarted",
    "slack of the job": "slack=job",
}
OF_PRIORITY = READINGS | {"high priority stays": "high=fixed"}  # of 2TPB
AFFORDABLE = {label: text for label, text in READINGS.items() if text and "compress" not in text}  # at high load
Swept = tuple[Iterable[str], Iterable[int]]  # policies, seeds


def reproduce(request: Asked) -> Reproduction:
    """Run all experiments: figures and claims; with `sensitivity` also the claims F4.1 to F4.5 in other readings."""
    plan, projects = Plan(request, run), QUICK_PROJECTS if request.quick else PROJECTS
    few = request.seeds[:AT_HIGH_LOAD]

    def add(swept: Mapping[int, Swept]) -> dict[int, range]:
        return plan.add({
            ia: [Cell.of(chosen, projects=projects, interarrival=ia, high=HIGH, seed=seed) for seed in seeds]
            for ia, (chosen, seeds) in swept.items()
        })  # fmt: skip

    second = add({ia: (_in_other_readings(), few) for ia in INTERARRIVALS} if request.sensitivity else {})
    by_slack = add({BUSIEST: (_over_slack(), few), CALMEST: (_over_slack(), request.seeds)})
    main = add({ia: (_main(), request.seeds) for ia in INTERARRIVALS})
    by_reading = add({CALMEST: (_over_readings(), request.seeds)})
    done = plan.carry_out()
    sweep = Sweep(done(main))
    slack, readings, others = (_beside(sweep, done(each)) for each in (by_slack, by_reading, second))
    claims = [
        *twotier_claims.calibration(sweep, projects),
        *twotier_claims.of_moves(sweep),
        *twotier_claims.of_slack(slack),
        *twotier_claims.of_priority(sweep),
        *twotier_claims.of_limits(sweep),
        twotier_claims.of_use(sweep),
        twotier_claims.of_laws(Sweep(done(each)) for each in (main, by_slack, by_reading, second)),
        *case_study.claims(),
    ]
    if others.found:
        for label, text in AFFORDABLE.items():
            claims += [replace(each, id=f"{each.id}, {label}") for each in twotier_claims.of_moves(others, text)]
    figures: list[Drawing] = [
        case_study.figure(),
        *twotier_figures.of_moves(sweep),
        *twotier_figures.of_slack(slack),
        *twotier_figures.of_priority(sweep),
        twotier_figures.of_use(sweep),
        *twotier_figures.of_readings(readings, READINGS, OF_PRIORITY),
    ]
    if others.found:
        at_high_load = {label: text for label, text in READINGS.items() if label in AFFORDABLE or not text}
        figures.append(twotier_figures.with_slack_read(others, at_high_load, BUSIEST))
    version = {"version": f"backfill {__version__}"}
    return Reproduction(TITLE, _sentences(request, projects), request.judged(claims), figures, version)


def _main() -> list[str]:
    """Return the policies of Figures 8, 9, 11 and 12, without duplicates."""
    by_priority = [*(with_priority(sf) for sf in PB_FACTORS), *(with_priority(pl=pl) for pl in LIMITS)]
    return [*dict.fromkeys((TSB, feedback(), with_slack(), *by_priority))]


def _over_slack() -> list[str]:
    return [with_slack(sf) for sf in FACTORS if sf != SF]


def _over_readings() -> list[str]:
    return [
        *(with_slack(reading=text) for text in READINGS.values()),
        *(with_priority(1, reading=text) for text in OF_PRIORITY.values()),
    ]


def _in_other_readings() -> list[str]:
    return [policy for text in AFFORDABLE.values() for policy in (feedback(text), with_slack(reading=text))]


def _beside(sweep: Sweep, more: Mapping[int, list[Mapping[str, Numbers]]]) -> Sweep:
    """Return the sweep extended by results of other policies on the same projects, possibly of the first seeds only."""
    return Sweep({
        ia: [{**one, **other} for one, other in zip(sweep.found[ia], rows, strict=False)] for ia, rows in more.items()
    })  # fmt: skip


def _sentences(request: Asked, projects: int) -> list[str]:
    """Return sentences on the runs."""
    few = len(request.seeds[:AT_HIGH_LOAD])
    beside = f"; each value is shown beside that of our first {SEEDS} seeds" if few > SEEDS else ""
    sentences = [
        f"{projects:,} projects of about 5 jobs each on one node with five resource types; "
        f"{request.replications} seeds, {few} in Figure 10 at a mean inter-arrival time of {BUSIEST} s, "
        f"and the same projects for all policies. The paper has {SEEDS} seeds{beside}. "
        f"Intervals by Student's t; changes are ratios of means over the same seeds "
        f'(delta method). In the claims "at {BUSIEST}" means that a project comes every {BUSIEST} s, on average.',
        "The paper does not say which jobs make way, or where they go. All claims are judged with the defaults of the "
        f"policies; tables of other readings, at an inter-arrival time of {CALMEST} s, stand beside what the paper "
        "prints.",
        f"A printed number holds if it may be the mean of {SEEDS} seeds, that is, if it lies in the 95% prediction "
        f"interval of such a mean. The paper prints numbers for inter-arrival times of {BUSIEST} and {CALMEST} s only, "
        "and none in Figure 10.",
    ]
    if request.quick:
        sentences.append(f"Quick look: {projects} projects instead of {PROJECTS:,}; no claim is judged.")
    return [*sentences, *request.caveat(REPLICATIONS)]
