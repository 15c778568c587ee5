"""The limits of QOS and associations on running jobs and their resources, as limits of a platform.

Source: sacctmgr, "Specifications for QOS"; acct_policy_set_qos_order in acct_policy.c of Slurm 22.05.8.
"""

from collections.abc import Iterator, Mapping, Sequence

from backfill.model.partitions import Limit
from backfill.model.slurm_site import OVER_PART_QOS, Association, SitePartition
from backfill.traces.accounting.slurm import tres_of

Rows = Sequence[Mapping[str, str]]
_PER = (("user", "each user", "maxjobspu", "maxtrespu"), ("group", "each account", "maxjobspa", "maxtrespa"),
        ("all", "all", "grpjobs", "grptres"))  # fmt: skip
_JOBS = ""  # the kind of a limit on a number of jobs; others are resources


def most(text: str) -> int | None:
    """Return a number as sacctmgr prints it; None for no limit."""
    return int(text) if text else None


def _amounts(jobs: str, tres: str) -> tuple[int | None, dict[str, int]]:
    """Return a limit on the number of running jobs, and one on their resources."""
    amounts = tres_of(tres)
    given = {"cpus": amounts.cpus, "memory": amounts.memory, "gpus": amounts.gpus}
    return most(jobs), {name: amount for name, amount in given.items() if amount}


def qos_limits(
    rows: Rows, partitions: Sequence[SitePartition], lists: Sequence[str]
) -> Iterator[tuple[Limit, list[Limit]]]:
    """Yield the limits of each QOS on its jobs, and of that of a partition on the jobs there; with each the jobs that
    it counts and does not stop, as limits of its name.

    Of two limits of one kind that of the partition's QOS stops a job, or that of the job's if this has the flag
    OverPartQOS. lists: of partitions for which jobs asked; no partition's QOS counts these.
    """
    own = {row["name"]: row for row in rows}
    there = {each.name: each.qos for each in partitions if each.qos in own}
    strong = {name for name, row in own.items() if OVER_PART_QOS in row["flags"].upper()}
    for name, row in own.items():
        places = tuple(part for part, qos in there.items() if qos == name)
        for per, what, jobs, tres in _PER:
            scopes: dict[tuple[str, ...], dict[str, int]] = {}
            of_part: dict[tuple[str, ...], dict[str, int]] = {}
            for kind, amount in _kinds(row, jobs, tres).items():
                first = [p for p, q in there.items() if name not in strong and kind in _kinds(own[q], jobs, tres)]
                scopes.setdefault(tuple(dict.fromkeys((*places, *first))), {})[kind] = amount
                over = tuple(q for q in own if q in strong and q != name and kind in _kinds(own[q], jobs, tres))
                of_part.setdefault(over, {})[kind] = amount
            for without, amounts in scopes.items():
                rest = (*(each.name for each in partitions if each.name not in without), *lists)
                outside = f" outside of {' and '.join(without)}" if without else ""
                full = f"QOS {name}{outside}, {what}"
                elsewhere = tuple(part for part in without if part not in places)
                spared = [_limit(full, per, amounts, elsewhere, (name,))] if elsewhere else []
                spared += [_limit(full, per, amounts, places, ())] if places else []
                if rest:
                    yield _limit(full, per, amounts, rest if without else (), (name,)), spared
            for over, amounts in of_part.items() if places else ():
                others = f" but for QOS {' and '.join(over)}" if over else ""
                full = f"QOS {name} of {' and '.join(places)}{others}, {what}"
                qos = tuple(q for q in own if q not in over) if over else ()
                rest = (*(each.name for each in partitions if each.name not in places), *lists)
                spared = [_limit(full, per, amounts, places, over)] if over else []
                spared += [_limit(full, per, amounts, rest, (name,))] if rest else []
                yield _limit(full, per, amounts, places, qos), spared


def _kinds(row: Mapping[str, str], jobs: str, tres: str) -> dict[str, int]:
    """Return the limits in two columns by their kinds."""
    count, running = _amounts(row[jobs], row[tres])
    return ({} if count is None else {_JOBS: count}) | running


def _limit(name: str, per: str, amounts: Mapping[str, int], parts: tuple[str, ...], qos: tuple[str, ...]) -> Limit:
    running = {kind: most for kind, most in amounts.items() if kind != _JOBS}
    return Limit(name=name, per=per, partitions=parts, qos=qos, running_jobs=amounts.get(_JOBS), running=running)


def assoc_limits(rows: Rows, people: tuple[Association, ...]) -> Iterator[Limit]:
    """Yield the limits of associations: those of a group count all below it, MaxJobs each user by itself."""
    own = {(row["account"], row["user"]): row for row in rows}
    for i, each in enumerate(people):
        row = own.get((each.account, each.user))
        if row is None:
            continue
        count, running = _amounts(row["grpjobs"], row["grptres"])
        users = (each.user,) if each.user else ()
        if count is not None or running:
            accounts = tuple(dict.fromkeys(other.account for j, other in enumerate(people) if _is_below(people, j, i)))
            yield Limit(name=each.title, groups=accounts, running_jobs=count, running=running, users=users)
        if each.user:
            inherited, above = row["maxjobs"], each.parent
            while not inherited and above >= 0:
                inherited = own.get((people[above].account, ""), {}).get("maxjobs", "")
                above = people[above].parent
            if inherited:
                name = f"{each.title}, MaxJobs"
                yield Limit(name=name, groups=(each.account,), users=(each.user,), running_jobs=int(inherited))


def _is_below(people: tuple[Association, ...], one: int, other: int) -> bool:
    while one >= 0 and one != other:
        one = people[one].parent
    return one == other
