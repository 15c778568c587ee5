"""The parameters of `slurm` by the rules of slurm.conf, and what it knows of a site: tiers, shares, factors of jobs.

Source: the manual page slurm.conf, and the defaults in the sources of Slurm 22.05.8 and 26.05.3.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from backfill.core.place.placement import DISTINCT
from backfill.core.policy import Facts, Param
from backfill.model.errors import UsageError
from backfill.model.partitions import RUNNING_JOBS, account
from backfill.model.platform import Platform
from backfill.model.slurm_site import PARENT, RESOURCES, Association, SlurmSite, tres_weights
from backfill.model.units import MIB, SECOND, SLURM, parse_span
from backfill.model.workload import Floats, Ints, Jobs, Labels
from backfill.policies.slurm.allowances import allowances
from backfill.policies.slurm.repeats import room_for_plans

SITE = -2.0  # the value of the site; without one, Slurm's default
UNSET, SCHEDULER, CONFIG = "", "scheduler", "config"  # where a site states a parameter


def _key(high: float, unit: str, usual: float, meaning: str, whole: bool) -> Param:
    return Param(SITE, SITE, high, unit, meaning if usual == SITE else f"{meaning} (usually {usual:g})", whole)


_COUNT = 1e6
# name -> unit, low, high, default, where a site states it, meaning; -1 switches a loop off
KEYS: dict[str, tuple[str, float, float, float, str, str]] = {
    "bf_interval": ("s", -1, 10_800, 30, SCHEDULER, "time between two backfill cycles; -1: none"),
    "bf_max_time": ("s", 1, 3600, SITE, SCHEDULER, "longest cycle, by default bf_interval"),
    "bf_window": ("min", 1, 43_200, 1440, SCHEDULER, "how far the plan reaches"),
    "bf_resolution": ("s", 1, 3600, 60, SCHEDULER, "step of time in the plan"),
    "bf_max_job_test": ("jobs", 1, _COUNT, 500, SCHEDULER, "most jobs tested in a cycle"),
    "bf_max_job_part": ("jobs", 0, _COUNT, 0, SCHEDULER, "most jobs of a partition looked at in a cycle; 0: any"),
    "bf_max_job_user": ("jobs", 0, _COUNT, 0, SCHEDULER, "most jobs of a user looked at in a cycle; 0: any"),
    "bf_max_job_user_part": ("jobs", 0, _COUNT, 0, SCHEDULER, "the same for each user in each partition; 0: any"),
    "bf_max_job_assoc": ("jobs", 0, _COUNT, 0, SCHEDULER, "the same for each association, instead of users; 0: any"),
    "bf_max_job_start": ("jobs", 0, 10_000, 0, SCHEDULER, "most starts in a cycle; 0: any"),
    "bf_node_space_size": ("records", 2, 2 * _COUNT, SITE, SCHEDULER, "size of the plan, by default bf_max_job_test"),
    "bf_max_job_array_resv": ("jobs", 0, 1000, 20, SCHEDULER, "most tasks of an array with a place in the plan"),
    "bf_min_age_reserve": ("s", 0, 2_592_000, 0, SCHEDULER, "wait from which a job reserves"),
    "bf_min_prio_reserve": ("points", 0, 2.0**32, 0, SCHEDULER, "priority from which a job reserves"),
    "bf_one_resv_per_job": ("", 0, 1, 0, SCHEDULER, "1: a job has a place in the plan in one of its partitions only"),
    "bf_job_part_count_reserve": ("jobs", 0, 100_000, 0, SCHEDULER, "most reservations in a partition; 0: any"),
    "bf_window_linear": ("s", 0, 3600, 0, SCHEDULER, "growth of the groups of ends; 0: they double"),
    "bf_yield_interval": ("us", 1, 10_000_000, 2_000_000, SCHEDULER, "work between two sleeps of a cycle"),
    "bf_yield_sleep": ("us", 1, 10_000_000, 500_000, SCHEDULER, "length of such a sleep"),
    "bf_continue": ("", 0, 1, 0, SCHEDULER, "1: a cycle goes on after a sleep in which something changed"),
    "bf_running_job_reserve": ("", 0, 1, 0, SCHEDULER, "1: nodes of running whole-node jobs are left out of the plan "
                               "until these reach their limits"),
    "bf_licenses": ("", 0, 1, 0, SCHEDULER, "1: licences are planned too; implies bf_running_job_reserve"),
    "assoc_limit_stop": ("", 0, 1, 0, SCHEDULER, "1: a job that a limit stops blocks its partition"),
    "pack_serial_at_end": ("", 0, 1, 0, SCHEDULER, "1: jobs of one cpu run on the last node that has one"),
    "default_queue_depth": ("jobs", 0, _COUNT, 100, SCHEDULER, "jobs after which a pass of the main loop stops"),
    "partition_job_depth": ("jobs", 0, _COUNT, 0, SCHEDULER, "the same for each partition; 0: any"),
    "sched_interval": ("s", -1, 43_200, 60, SCHEDULER, "time between two full passes; -1: the main loop never runs"),
    "sched_max_job_start": ("jobs", 0, _COUNT, 0, SCHEDULER, "most starts in a pass of the main loop; 0: any"),
    "batch_sched_delay": ("s", 0, 3600, 3, SCHEDULER, "least time between two passes after submits"),
    "OverTimeLimit": ("min", 0, 65_533, 0, CONFIG, "time that jobs may run past their limit"),
    "KillWait": ("s", 0, 65_533, 30, CONFIG, "time between SIGTERM and SIGKILL"),
    "PriorityWeightAge": ("points", 0, 2.0**32, 0, CONFIG, "weight of the age factor"),
    "PriorityWeightAssoc": ("points", 0, 2.0**32, 0, CONFIG, "weight of the association factor"),
    "PriorityWeightFairshare": ("points", 0, 2.0**32, 0, CONFIG, "weight of the fair-share factor"),
    "PriorityWeightJobSize": ("points", 0, 2.0**32, 0, CONFIG, "weight of the job-size factor"),
    "PriorityWeightPartition": ("points", 0, 2.0**32, 0, CONFIG, "weight of the partition factor"),
    "PriorityWeightQOS": ("points", 0, 2.0**32, 0, CONFIG, "weight of the QOS factor"),
    "PriorityMaxAge": ("min", 1, 1e9, 10_080, CONFIG, "age at which the age factor is 1"),
    "PriorityDecayHalfLife": ("min", 0, 1e9, 10_080, CONFIG, "half life of usage; 0: it does not decay"),
    "PriorityCalcPeriod": ("min", 1, 1e6, 5, CONFIG, "time between two calculations of all priorities"),
    "FairShareDampeningFactor": ("times", 1, 65_533, 1, CONFIG, "divides usage, without Fair Tree"),
}  # fmt: skip
PARAMS = {
    **{name: _key(high, unit, usual, meaning, name != "PriorityMaxAge")
       for name, (unit, _, high, usual, _, meaning) in KEYS.items()},
    "version": Param(SITE, SITE, 99, "", "version of Slurm such as 24.11; -2: that of the site, else 22.05"),
    "epilog": Param(SITE, SITE, 1, "", "1: each end runs the main loop at once, as with an Epilog; -2: the site's",
                    whole=True),
    "tick_phase": Param(0, 0, 1, "s", "part of a second at which the background loop wakes"),
    "bf_phase": Param(0, 0, 10_800, "s", "time of the first backfill cycle after the first submit"),
    "bf_test_cost": Param(0, 0, 1e6, "ms", "work of one backfill test; sdiag: mean cycle / depth mean (try depth)"),
    "estimates": Param(0, 0, 1, "", "1: each cycle plans all jobs, so that starts are estimated as squeue --start does",
                       whole=True),
}  # fmt: skip
SPANS = ("PriorityMaxAge", "PriorityDecayHalfLife", "PriorityCalcPeriod")  # in minutes here, D-HH:MM:SS in slurm.conf
PER_JOB = ("partition", "association", "min_nodes", "max_nodes", "whole", "pair_first")
PER_JOB_F = ("of_association", "of_size", "of_held_size", "of_partition", "of_qos", "of_tres", "nice", "charge")
MEMORY: dict[str, int | str] = {
    **dict.fromkeys(
        ("begun", "request", "at_once", "stale", "dirty", "busy", "last_background", "cycle_end", "cycle_length",
         "next_cycle", "accounted", "reached", "started", "multifactor", "stored", "fair_tree", "weighted",
         "capacities", "safe", "accrue_always", "reset_at"), 1
    ),
    "empty": "jobs",  # whether each fits on its whole partition if that is empty, see main.py
    "since": "jobs",  # since when each has been eligible
    "accrued": "jobs",  # see minutes.py
    "looked": "jobs",  # whether nodes have been looked for, for each
    "lowered": "jobs",  # the limit of each job that the backfill loop started by its least limit; 0: its own
    "tried": "jobs",  # with lists of partitions: the one in which a loop tries each job now
    "planned": "jobs",  # earliest start that a cycle told, in any partition of its list; 0: none
    **dict.fromkeys(PER_JOB, "facts"),
    **dict.fromkeys(("tier", "max_time", "partition_nodes", "weight", "on_amounts", "above", "over", "shares",
                     "partition_sets",  # the same nodes as `partition_nodes` as bits, 64 in a word
                     "least_loaded",  # of each partition
                     "least_limit",  # --time-min of each job; 0: none
                     "name_first", "name_node",  # the nodes that each job names
                     "array", "array_most",  # of each job, -1 for none; running tasks that each allows, 0: any
                     "minute_kinds", "minute_limit", "minute_amount", "minute_asked", "qos", "other_qos", "no_decay",
                     "spared_first", "spared_item", "spared_amount", "spared_use",
                     "resets", "scope_first", "scope", "scope_most",
                     "list_first", "list_part",  # the partitions of each list, in Slurm's order
                     "child_first", "child", "record", "reason", "telling", "closed",
                     "kept",  # see repeats.py
                     "is_user"), "facts"),
}  # fmt: skip
MEMORY_F: dict[str, int | str] = {
    **dict.fromkeys(("points", "key"), "jobs"),
    "bare": "jobs",  # priority without the factors that depend on the partition, not yet a whole number
    # of jobs with a list, in each of its partitions: these factors, each with its weight, and the charge
    **dict.fromkeys(
        (
            *PER_JOB_F,
            "reserves_from",
            "usage",
            "share",
            "pair_points",
            "pair_charge",
            "minute_factor",
            "minute_use",
            "minute_held",
        ),
        "facts",
    ),
}


def facts(params: Mapping[str, float], platform: Platform, jobs: Jobs | None, asked: Ints | None) -> Facts:
    """Return the parameters, those of the site or Slurm's defaults for all that were not given, and the site's tables.

    platform: as a run counts it, with accounts of limits behind its licences. asked: what each job requested.
    """
    site = platform.slurm
    found = _resolved(params, site)
    numbers = np.array([found[name] for name in PARAMS], np.float64)
    if jobs is None:  # a live queue, which is asked when jobs start
        return Facts(numbers, {"telling": np.ones(1, np.int64)})
    kept = {"kept": room_for_plans(len(platform.nodes))}
    if site is None or asked is None:
        return Facts(numbers, kept)
    return Facts(numbers, {**kept, **_of_site(site, platform), **_of_jobs(site, platform, jobs, asked, found)})


def _resolved(params: Mapping[str, float], site: SlurmSite | None) -> dict[str, float]:
    for name in KEYS:
        if params[name] != SITE and not _is_valid(name, params[name]):
            expected = f"{_expected(name)}, or {SITE:g} for that of the site"
            raise UsageError(f"policy slurm: {name} is {params[name]:g}; expected {expected}")
    found = dict(params)
    if found["version"] == SITE:
        found["version"] = 22.05 if site is None else site.number
    if found["epilog"] == SITE:
        found["epilog"] = 0.0 if site is None else float(site.value("Epilog") != "")
    for name, (_, _, _, default, where, _) in KEYS.items():
        if found[name] == SITE and site is not None:
            stated = _stated(site, name, where)
            if stated is not None and _is_valid(name, stated):  # otherwise Slurm uses its default, silently
                found[name] = stated
        if found[name] == SITE:
            found[name] = 100 if name == "bf_max_job_test" and found["version"] < 21.08 else default
    if site is not None and "builtin" in site.value("SchedulerType") and params["bf_interval"] == SITE:
        found["bf_interval"] = -1.0
    if found["bf_max_time"] == SITE:
        found["bf_max_time"] = max(found["bf_interval"], 1.0)
    if found["bf_node_space_size"] == SITE:
        found["bf_node_space_size"] = found["bf_max_job_test"]
    return found


def _is_valid(name: str, value: float) -> bool:
    """Return whether Slurm accepts a value: within the bounds, or -1 if that switches a loop off."""
    _, low, high, _, _, _ = KEYS[name]
    return value == low or max(low, 1.0 if low == -1.0 else low) <= value <= high


def _expected(name: str) -> str:
    _, low, high, _, _, _ = KEYS[name]
    return f"1 to {high:g}, -1 for never" if low == -1.0 else f"{low:g} to {high:g}"


def _stated(site: SlurmSite, name: str, where: str) -> float | None:
    """Return the number that a site states for a parameter; None if it states none, or none that is a number."""
    text = site.scheduler.get(name, "") if where == SCHEDULER else site.value(name)
    if name in SPANS and text:
        return parse_span(text, SLURM) / (60 * SECOND)
    digits = text.split()[0] if text else ""
    try:
        return float(digits)
    except ValueError:
        return None


def _of_site(site: SlurmSite, platform: Platform) -> dict[str, Any]:
    lists = _lists(site, platform)
    nodes = np.zeros((len(site.partitions) + 1 + len(lists), len(platform.nodes)), np.int64)
    for i, partition in enumerate(platform.partitions):
        nodes[_row(site, i), partition.nodes] = 1
    nodes[len(site.partitions)] = 1  # of jobs in no partition
    tiers = [*(each.tier for each in site.partitions), 1]
    longest = [*(each.max_time for each in site.partitions), 0]
    modes = site.flags("SelectTypeParameters")
    lln = ["CR_LLN" in modes or each.least_loaded for each in site.partitions]
    people = site.associations
    over = [_over(people, i) for i in range(len(people))]
    below: list[list[int]] = [[] for _ in people]
    for i, each in enumerate(people):
        if i > 0 and (each.user != "" or each.shares != PARENT):
            below[over[i]].append(i)
    tables: dict[str, Any] = {
        "multifactor": [site.value("PriorityType", _usual_type(site)).endswith("multifactor")],
        "stored": [site.stored],
        "fair_tree": ["NO_FAIR_TREE" not in site.flags("PriorityFlags")],
        "tier": [*tiers, *(max(tiers[i] for i in each) for each in lists)],
        "least_loaded": [*lln, "CR_LLN" in modes, *(lln[each[0]] for each in lists)],
        "max_time": [*longest, *(0 for _ in lists)],
        "list_first": np.cumsum([0, *map(len, lists)]),
        "list_part": [i for each in lists for i in each],
        "partition_nodes": nodes.reshape(-1),
        "partition_sets": _sets(nodes),
        "weight": site.weights or np.ones(len(platform.nodes), np.int64),
        "weighted": [len({*site.weights}) > 1],
        "on_amounts": [not name.partition(": ")[2].startswith(RUNNING_JOBS) for name in platform.licences],
        "above": [each.parent for each in people],
        "over": over,
        "child_first": np.cumsum([0, *map(len, below)]),
        "child": [i for children in below for i in children],
        "shares": [each.shares for each in people],
        "is_user": [each.user != "" for each in people],
        "usage": [each.usage for each in people],
        "share": np.zeros(len(people)),
    }
    return _typed(tables)


def _sets(nodes: Ints) -> Ints:
    """Return rows of zeros and ones as bits, 64 in a word, one row after the other."""
    bits = np.pad(nodes.astype(np.uint8), ((0, 0), (0, -nodes.shape[1] % 64)))
    found: Ints = np.packbits(bits, axis=1, bitorder="little").view("<i8").astype(np.int64).reshape(-1)
    return found


def _typed(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(table, np.float64 if name in MEMORY_F else np.int64) for name, table in tables.items()}


def _row(site: SlurmSite, partition: int) -> int:
    """Return the row of a partition of the platform in the tables: behind those of the site is one for jobs in none."""
    return partition + (partition >= len(site.partitions))


def _lists(site: SlurmSite, platform: Platform) -> list[list[int]]:
    """Return the lists of partitions that jobs asked for, each by tier and then as stated."""
    place = {each.name: i for i, each in enumerate(site.partitions)}
    lists = [[place[name] for name in each.name.split(",")] for each in platform.partitions[len(site.partitions) :]]
    return [sorted(each, key=lambda i: -site.partitions[i].tier) for each in lists]


def _usual_type(site: SlurmSite) -> str:
    return "priority/multifactor" if site.number >= 23.11 else "priority/basic"


def _over(people: Sequence[Association], i: int) -> int:
    """Return the nearest association above that has shares of its own; root has itself."""
    over = people[i].parent
    while over > 0 and people[over].shares == PARENT:
        over = people[over].parent
    return max(over, 0)


def _of_jobs(
    site: SlurmSite, platform: Platform, jobs: Jobs, requested: Ints, keys: Mapping[str, float]
) -> dict[str, Any]:
    """Return what is known of each job: partition, association, the constant parts of its priority, its charge."""
    lists, none = _lists(site, platform), len(site.partitions)
    codes = np.where(jobs.partition.codes >= none, jobs.partition.codes + 1, jobs.partition.codes).astype(np.int64)
    rows = np.where(codes >= 0, codes, none)
    place = {each.name: i for i, each in enumerate(site.partitions)}
    first = [place[each.name.partition(",")[0]] for each in platform.partitions[none:]]  # as stated
    partition = np.array([*range(none + 1), *first], np.int64)[rows]
    association = _associations(site, jobs)
    asked = np.array([site.nodes.get(str(name), (0, 0)) for name in jobs.job.tolist()], np.int64).reshape(-1, 2)
    nodes = np.where(jobs.spread == DISTINCT, jobs.tasks, np.maximum(asked[:, 0], 1))
    cpus = requested[:, 0]
    qos = _by_label(jobs.qos, {each.name: i for i, each in enumerate(site.qos)})
    flags = site.flags("PriorityFlags")
    factors = [each.job_factor for each in site.partitions]
    ranks = [each.priority for each in site.qos]
    people = [each.priority for each in site.associations]
    exclusive = {each.name: 1 for each in platform.partitions if each.place == "exclusive"}
    whole = jobs.tasks * jobs.demand[:, 0]  # of whole nodes, where a job holds these
    wanted = _amounts(platform, requested, nodes)
    held = _amounts(platform, jobs.tasks[:, None] * jobs.demand, jobs.tasks)
    factor = np.array([*(each.usage_factor for each in site.qos), 1.0])[qos]
    charges = _charges(site, held, partition)
    owned = allowances(site, platform, jobs, association, qos, {**held, "node": wanted["node"], "billing": charges})
    weight = {name: keys[f"PriorityWeight{name}"] for name in ("Assoc", "JobSize", "Partition", "QOS")}
    return {
        "partition": rows,
        "association": association,
        "min_nodes": np.minimum(asked[:, 0], jobs.tasks),
        "max_nodes": asked[:, 1],
        "whole": jobs.exclusive | (_by_label(jobs.partition, exclusive) > 0),
        **_names(site, platform, jobs),
        **_arrays(site, jobs),
        **_typed({"least_limit": _least_limits(site, jobs), "reserves_from": _reserves_from(site, jobs)}),
        **_spared(site, platform, jobs),
        "of_association": weight["Assoc"] * _relative(people, association, "NO_NORMAL_ASSOC" in flags),
        "of_size": weight["JobSize"] * _sizes(site, platform, jobs, nodes, cpus, partition, flags),
        "of_held_size": weight["JobSize"] * _sizes(site, platform, jobs, nodes, whole, partition, flags),
        "of_partition": weight["Partition"]
        * _relative(factors, np.where(codes >= 0, partition, -1), "NO_NORMAL_PART" in flags),
        "of_qos": weight["QOS"] * _relative(ranks, qos, "NO_NORMAL_QOS" in flags),
        "of_tres": _of_tres(site, platform, wanted, partition, flags),
        "nice": -jobs.admin_priority,
        "charge": charges * factor,
        **_typed(owned),
        **_in_pairs(
            rows - none - 1,
            lists,
            lambda part: (
                weight["Partition"] * _relative(factors, part, "NO_NORMAL_PART" in flags)
                + _of_tres(site, platform, wanted, part, flags)
            ),
            lambda part: _charges(site, held, part) * factor,
        ),
    }


def _names(site: SlurmSite, platform: Platform, jobs: Jobs) -> dict[str, Any]:
    """Return the nodes that each job names, and where those of each begin."""
    place = {name: node for node, name in enumerate(platform.nodes)}
    found = [sorted(place[node] for node in site.named.get(str(name), ())) for name in jobs.job.tolist()]
    first = np.cumsum([0, *map(len, found)])
    return {"name_first": first, "name_node": np.array([node for nodes in found for node in nodes], np.int64)}


def _least_limits(site: SlurmSite, jobs: Jobs) -> list[int]:
    """Return --time-min of each job in microseconds, 0 for none; empty if none has one."""
    return [site.least_limits.get(str(name), 0) for name in jobs.job.tolist()] if site.least_limits else []


def _reserves_from(site: SlurmSite, jobs: Jobs) -> list[int]:
    """Return the priority from which each job holds back others, 0 if no QOS says one; empty if none says any."""
    if not site.enforces_limits or not any(each.reserves_from for each in site.qos):
        return []
    pairs = [(jobs.partition[row], jobs.qos[row]) for row in range(len(jobs))]
    stated = {pair: [site.qos[i].reserves_from for i in site.qos_of(*pair)] for pair in {*pairs}}
    return [next(filter(None, stated[pair]), 0) for pair in pairs]


def _arrays(site: SlurmSite, jobs: Jobs) -> dict[str, Any]:
    """Return the number of the array of each job, named `17_3` as a task of 17, and how many tasks of each may run."""
    names = [array if task else "" for array, _, task in (str(name).partition("_") for name in jobs.job.tolist())]
    known = {name: i for i, name in enumerate(dict.fromkeys(filter(None, names)))}
    most = [site.throttles.get(name, 0) for name in known]
    return {
        "array": np.array([known.get(name, -1) for name in names] if known else [], np.int64),
        "array_most": np.array(most if any(most) else [], np.int64),
    }


def _spared(site: SlurmSite, platform: Platform, jobs: Jobs) -> dict[str, Any]:
    """Return the accounts of limits that count each job and do not stop it, and how much of each it takes."""
    place, found = {name: i for i, name in enumerate(platform.licences)}, list[tuple[int, int, int]]()
    for limit in site.spared if site.enforces_limits else ():
        codes, whose = limit.counts(jobs)
        for kind in limit.amounts:
            amount = np.ones(len(jobs), np.int64)
            if kind != RUNNING_JOBS:
                amount = jobs.tasks * jobs.demand[:, platform.resources.index(kind)]
            for row in np.flatnonzero((codes >= 0) & (amount > 0)).tolist():
                if (at := place.get(account(limit, kind, whose[codes[row]]))) is not None:
                    found.append((row, at, int(amount[row])))
    found.sort()
    rows = np.array([row for row, _, _ in found], np.int64)
    return {
        "spared_first": np.searchsorted(rows, np.arange(len(jobs) + 1)),
        "spared_item": np.array([at for _, at, _ in found], np.int64),
        "spared_amount": np.array([amount for *_, amount in found], np.int64),
        "spared_use": np.zeros(len(platform.licences) if found else 0, np.int64),
    }


def _in_pairs(
    which: Ints, lists: list[list[int]], points: Callable[[Ints], Floats], charges: Callable[[Ints], Floats]
) -> dict[str, Any]:
    """Return where the pairs of each job and a partition of its list begin, and the points and the charge of each.

    which: the list of each job, below 0 for none. points, charges: those of all jobs in partitions, one for each.
    """
    counts = np.array([*map(len, lists), 0], np.int64)[np.maximum(which, -1)]
    first = np.cumsum(counts) - counts
    found = {"pair_points": np.zeros(int(counts.sum())), "pair_charge": np.zeros(int(counts.sum()))}
    for x in range(max(map(len, lists), default=0)):
        mine = np.flatnonzero(counts > x)
        there = np.zeros(len(which), np.int64)
        there[mine] = [lists[i][x] for i in which[mine].tolist()]
        for name, of in (("pair_points", points), ("pair_charge", charges)):
            found[name][first[mine] + x] = of(there)[mine]
    return {"pair_first": first, **found}


def _by_label(labels: Labels, place: Mapping[str, int]) -> Ints:
    found: Ints = np.array([*(place.get(name, -1) for name in labels.names), -1], np.int64)[labels.codes]
    return found


def _associations(site: SlurmSite, jobs: Jobs) -> Ints:
    """Return the association of each job by account (its group), user and partition; -1 if it has none."""
    found = np.full(len(jobs), -1, np.int64)
    seen: dict[tuple[int, int, int], int] = {}
    codes = zip(jobs.group.codes.tolist(), jobs.user.codes.tolist(), jobs.partition.codes.tolist(), strict=True)
    for row, key in enumerate(codes):
        if key not in seen:
            seen[key] = site.association(jobs.group[row], jobs.user[row], jobs.partition[row])
        found[row] = seen[key]
    return found


def _relative(values: list[int], of: Ints, bare: bool) -> Floats:
    """Return the value of each job, by default as a share of the greatest; 0 for index -1."""
    most = 1.0 if bare else float(max([1, *values]))
    found: Floats = np.array([*values, 0], np.float64)[of] / most
    return found


def _sizes(
    site: SlurmSite, platform: Platform, jobs: Jobs, nodes: Ints, cpus: Ints, partition: Ints, flags: set[str]
) -> Floats:
    """Return the job-size factor of each job."""
    all_nodes, all_cpus = len(platform.nodes), platform.cpus
    small = site.value("PriorityFavorSmall").lower() in ("yes", "1")
    if "SMALL_RELATIVE_TO_TIME" in flags:
        longest = np.array(
            [*(each.max_time or 365 * 86_400 * SECOND for each in site.partitions), 365 * 86_400 * SECOND]
        )
        minutes = np.maximum(np.minimum(jobs.walltime, longest[partition]) // (60 * SECOND), 1)
        part: Floats = np.maximum(nodes * all_cpus / all_nodes, cpus) / minutes / all_cpus
        part = 1.0 - part if small else part
    elif small:
        part = ((all_nodes - nodes) / all_nodes + (all_cpus - cpus) / all_cpus) / 2
    else:
        part = (nodes / all_nodes + cpus / all_cpus) / 2
    found: Floats = np.clip(part, 0.0, 1.0)
    return found


def _amounts(platform: Platform, each: Ints, nodes: Ints) -> dict[str, Floats]:
    """Return amounts of each job (jobs, resources) by Slurm's names of resources; memory in bytes."""
    names = {resource: name for name, resource in RESOURCES.items()}
    amounts = {
        names.get(resource, resource): each[:, k].astype(np.float64)
        for k, resource in enumerate(platform.resources[: each.shape[1]])
    }
    return {**amounts, "node": nodes.astype(np.float64)}


def _of_tres(
    site: SlurmSite, platform: Platform, amounts: Mapping[str, Floats], partition: Ints, flags: set[str]
) -> Floats:
    """Return the sum over resources of weight x request / amount in the partition."""
    total = np.zeros(len(partition))
    for name, weight in tres_weights(site.value("PriorityWeightTRES"), 1.0).items():
        if name not in amounts:
            continue
        if "NO_NORMAL_TRES" in flags:
            total += weight * (amounts[name] // MIB if name == "mem" else amounts[name])
            continue
        k = RESOURCES.get(name, name)
        there = [len(each.nodes) if name == "node" else platform.capacity[each.nodes, platform.resources.index(k)].sum()
                 for each in platform.partitions[: len(site.partitions)]]  # fmt: skip
        total += weight * amounts[name] / np.maximum(np.array([*there, 2.0**62], np.float64), 1.0)[partition]
    return total


def _charges(site: SlurmSite, amounts: Mapping[str, Floats], partition: Ints) -> Floats:
    """Return the billing of each job, per second: by the weights of its partition, else its cpus."""
    charges = amounts["cpu"].copy()
    largest = site.flags("PriorityFlags") & {"MAX_TRES"}
    for i, each in enumerate(site.partitions):
        if not each.billing:
            continue
        mine = partition == i
        parts = [weight * amounts[name][mine] for name, weight in each.billing.items() if name in amounts]
        charges[mine] = (np.max(parts, axis=0) if largest else np.sum(parts, axis=0)) if parts else 0.0
    return charges
