"""Selective reservations: who has waited long enough gets a reservation, as under conservative backfilling.

Source: Srinivasan et al., ICPP 2002.
"""

from dataclasses import replace

from backfill.model.units import SECOND

from .conservative import compress, kept, rebuilt, start_what_is_due, timers
from .depth import start_beside
from .orders import ranked
from .profile import Profile
from .words import Decision, Job, Policy, Time, View

Category = tuple[bool, bool] | None


def selective(rule: str = "adaptive", threshold: float = 2, order: str = "fcfs") -> Policy:
    def decide(view: View) -> Decision:
        note_slowdowns(view, rule)
        view = replace(view, queue=ranked(view.queue, order, view))
        profile = Profile.of_running(view)
        promises, moved_up = rebuilt(view, profile) if view.changed else (kept(view, profile), set())
        if view.ended or view.changed:
            moved_up |= compress(view, profile, promises)
        for job in view.queue:
            least = threshold if rule == "fixed" else mean_slowdown(view, category(job, rule))
            due = job.row not in promises and expansion(job, view.now) >= least
            if due and (earliest := profile.earliest(job, view.now)):
                promises[job.row] = profile.book(job, earliest)
        starts = start_what_is_due(view, profile, promises, moved_up)
        starts += start_beside(view, profile, promises, starts, list(view.queue))
        return Decision(starts, promises, timers(view, promises))

    return decide


def note_slowdowns(view: View, rule: str) -> None:
    """Every end is followed by a pass at its instant."""
    ended = view.memory.setdefault("ended", {})
    for r in view.over:
        slowdown = max((view.now - r.job.submit) / max(view.now - r.start, 10 * SECOND), 1.0)
        ended.setdefault(category(r.job, rule), []).append(int(slowdown * 1000))


def category(job: Job, rule: str) -> Category:
    return (job.estimate > 3600 * SECOND, job.procs > 8) if rule == "differential" else None


def mean_slowdown(view: View, of: Category) -> float:
    """In whole thousandths for each job; 1 where no job has ended yet."""
    ended = view.memory["ended"].get(of, [])
    return sum(ended) / (1000 * len(ended)) if ended else 1


def expansion(job: Job, now: Time) -> float:
    walltime = max(job.estimate, SECOND // 10)
    return (now - job.submit + walltime) / walltime
