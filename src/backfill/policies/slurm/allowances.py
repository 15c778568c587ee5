"""What the limits on minutes and on jobs that grow old need of a site: their numbers, and the amounts that jobs count
for. See minutes.py.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from backfill.model.platform import Platform
from backfill.model.slurm_site import Accrual, SlurmSite
from backfill.model.units import MIB, SECOND
from backfill.model.workload import Floats, Ints, Jobs

NEVER = -(2**62)
KINDS = ("cpu", "mem", "node", "gres/gpu", "billing")  # resources whose minutes are counted
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD = 3660  # days after the last submit for which resets of usage are known


def allowances(
    site: SlurmSite, platform: Platform, jobs: Jobs, association: Ints, qos: Ints, amounts: Mapping[str, Floats]
) -> dict[str, Any]:
    """Return the tables of minutes.py.

    association, qos: of each job, -1 for none. amounts: of each job by the resource; memory in bytes.
    """
    people = len(site.associations)
    owners = site.minutes
    given = {kind for each in owners for limits in (each.group, each.running, each.job) for kind in limits}
    kinds = [kind for kind in KINDS if kind in given and kind in amounts] if site.enforces_limits else []
    factor = np.array([*(each.usage_factor for each in site.qos), 1.0])[qos]
    careful = np.array([*("USAGEFACTORSAFE" in each.flags for each in site.qos), False])[qos]
    minutes = -(-jobs.walltime // (60 * SECOND))
    limits = [[[limit.get(kind, -1) for kind in kinds] for limit in (each.group, each.running, each.job)]
              for each in owners]  # fmt: skip
    used = [[each.usage if kind in _billed(site) else 0.0 for kind in kinds] for each in site.associations]
    counted = [np.round(amounts[kind] / (MIB if kind == "mem" else 1)) for kind in kinds]
    return {
        "minute_kinds": [KINDS.index(kind) for kind in kinds],
        "minute_limit": np.array(limits, np.int64).reshape(-1),
        "minute_amount": np.array(counted, np.float64).T.reshape(-1),
        "minute_asked": np.where(careful, np.floor(minutes * factor), minutes),
        "minute_factor": factor,
        "minute_use": np.array([*used, *([0.0] * len(kinds) for _ in site.qos)], np.float64).reshape(-1),
        "minute_held": np.zeros(len(owners) * len(kinds)),
        **_counting(site, jobs, people),
        "no_decay": [*(0 for _ in site.associations), *("NODECAY" in each.flags for each in site.qos)],
        "safe": [site.enforces_safely],
        "accrue_always": ["ACCRUE_ALWAYS" in site.flags("PriorityFlags")],
        "resets": _resets(site, jobs),
        **_scopes(site, jobs, association, qos),
    }


def _counting(site: SlurmSite, jobs: Jobs, people: int) -> dict[str, Any]:
    """Return the owner that is the QOS of each job or of its partition, and the other of the two; -1 for none."""
    seen: dict[tuple[int, int], list[int]] = {}
    found = np.full((2, len(jobs)), -1, np.int64)
    for row, key in enumerate(zip(jobs.partition.codes.tolist(), jobs.qos.codes.tolist(), strict=True)):
        if key not in seen:
            seen[key] = [people + i for i in site.qos_of(jobs.partition[row], jobs.qos[row])]
        found[: len(seen[key]), row] = seen[key]
    return {"qos": found[0], "other_qos": found[1]}


def _billed(site: SlurmSite) -> tuple[str, ...]:
    """Return the resources whose use `sshare` tells: cpus too, if these are what is billed."""
    return ("billing",) if any(each.billing for each in site.partitions) else ("billing", "cpu")


def _resets(site: SlurmSite, jobs: Jobs) -> Ints:
    """Return the instants at which usage becomes 0: midnights by PriorityUsageResetPeriod; the first entry is none."""
    period, clock = site.value("PriorityUsageResetPeriod").upper(), site.clock
    begin = None if clock is None or not len(jobs) else clock.date(int(jobs.submit.min()))
    end = None if clock is None or not len(jobs) else clock.date(int(jobs.submit.max()))
    found = [NEVER]
    if clock is not None and begin is not None and end is not None and period in _BEGINS:
        for ahead in range(1, (end.date() - begin.date()).days + _AHEAD):
            day = begin.date() + timedelta(days=ahead)
            if _BEGINS[period](day):
                midnight = datetime(day.year, day.month, day.day, tzinfo=begin.tzinfo)
                found.append(((midnight - _EPOCH) // timedelta(seconds=1) - clock.epoch) * SECOND)
    return np.array(found, np.int64)


_BEGINS = {
    "DAILY": lambda day: True,
    "WEEKLY": lambda day: day.isoweekday() == 7,
    "MONTHLY": lambda day: day.day == 1,
    "QUARTERLY": lambda day: day.day == 1 and day.month % 3 == 1,
    "YEARLY": lambda day: day.day == 1 and day.month == 1,
}


def _scopes(site: SlurmSite, jobs: Jobs, association: Ints, qos: Ints) -> dict[str, Any]:
    """Return the limits on jobs that grow old: how many each allows, and which of them count each job.

    The first one of a job decides: of its QOS, of that for its account and for its user, then upwards in the tree.
    """
    count = len(jobs)
    if not site.enforces_limits or "ACCRUE_ALWAYS" in site.flags("PriorityFlags"):
        return {"scope_first": np.zeros(count + 1, np.int64), "scope": [], "scope_most": []}
    number: dict[tuple[Any, ...], int] = {}
    most: list[int] = []
    found = list[int]()
    first = [0]

    def add(key: tuple[Any, ...], allowed: int | None) -> None:
        if allowed is not None:
            if key not in number:
                number[key] = len(most)
                most.append(allowed)
            found.append(number[key])

    for row in range(count):
        who, which = int(association[row]), int(qos[row])
        if who >= 0:
            if which >= 0:
                each: Accrual = site.qos[which].accrual
                add((which,), each.group)
                add((which, "account", jobs.group[row]), each.account)
                add((which, "user", jobs.user[row]), each.user)
            for place, other in enumerate(site.upwards(who)):
                add(("association", other), site.associations[other].accrual.group)
                if place == 0:
                    add(("user", other), site.associations[other].accrual.user)
        first.append(len(found))
    return {"scope_first": first, "scope": found, "scope_most": most}
