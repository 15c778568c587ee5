"""Limits on what runs at once, as copies of licences that nobody else wants: an account for each that one counts."""

from dataclasses import dataclass, replace

from .placement import licence_slot
from .words import Job, Platform, Room, View


@dataclass(frozen=True)
class Limit:
    """What the jobs of a partition (None: all) may hold together, of each user apart or of all."""

    per_user: bool
    partition: int | None = None
    running_jobs: int | None = None
    queued_jobs: int | None = None
    cpus: int | None = None

    def account(self, job: Job) -> int | str | None:
        """Return the account in which the job counts; None if it does not count."""
        if self.partition not in (None, job.partition):
            return None
        return job.user if self.per_user else "all"


def with_accounts(jobs: list[Job], platform: Platform) -> tuple[list[Job], Platform]:
    """Each account is a licence behind the real ones, of which its jobs hold one copy each, or one per cpu."""
    copies, licences = list(platform.copies), {job.row: list(job.licences) for job in jobs}
    for limit in platform.limits:
        for most, amount in ((limit.running_jobs, lambda job: 1), (limit.cpus, lambda job: job.procs)):
            accounts = {} if most is None else dict.fromkeys(limit.account(job) for job in jobs)
            accounts.pop(None, None)
            for whose in accounts:
                for job in jobs:
                    if limit.account(job) == whose:
                        licences[job.row] += [len(copies)] * amount(job)
                copies.append(most)
    return (
        [replace(job, licences=tuple(licences[job.row])) for job in jobs],
        replace(platform, copies=tuple(copies), accounts=len(copies) - len(platform.copies)),
    )


def held_back(platform: Platform, job: Job, room: Room) -> bool:
    """A limit keeps the job from starting with so much free."""
    first = len(platform.copies) - platform.accounts
    return any(room[licence_slot(platform, x)] < job.licences.count(x) for x in {*job.licences} if x >= first)


def in_turn(view: View, in_order: list[Job]) -> list[Job]:
    """The queue with the job that got the last reservation, if it waits, ahead of those that stood aside for it."""
    holder, aside = view.memory.get("holder"), view.memory.get("aside", {})
    place = next((i for i, job in enumerate(in_order) if job.row == holder), 0)
    yields = [job for job in in_order[:place] if aside.get(job.row) == holder]
    return [*(job for job in in_order[: place + 1] if job not in yields), *yields, *in_order[place + 1 :]]


def keep_turn(view: View, in_order: list[Job], head: Job, room: Room) -> None:
    """The head has a reservation: jobs before it that a limit holds back stand aside until it starts."""
    if view.platform.accounts:
        view.memory["holder"] = head.row
        for job in in_order[: in_order.index(head)]:
            if held_back(view.platform, job, room):
                view.memory.setdefault("aside", {})[job.row] = head.row


def holds_turn(view: View, job: Job) -> bool:
    """The job got the last reservation, and keeps it even if a limit holds it back now."""
    return view.memory.get("holder") == job.row


def is_full(limit: Limit, job: Job, queued: list[Job]) -> bool:
    """As many jobs of its account wait or run as the limit allows."""
    if limit.queued_jobs is None or limit.account(job) is None:
        return False
    return sum(limit.account(other) == limit.account(job) for other in queued) >= limit.queued_jobs
