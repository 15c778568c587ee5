"""Two-tier scheduling: a project of jobs is promised its departure at its submit. 2TSB, 2TFB, 2TFB-SF, 2TPB.

Source: Lin, Thai, Wang and Lai, JNCA 52, 2015: Algorithms 1 to 3 with the operations of Table 5.

A pass keeps what was promised (as conservative backfilling does, without compression unless asked for), starts what is
due, then takes the jobs without a promise, project by project in the order of their first jobs. 2TSB books each job at
its earliest start. The others try each instant at which a gap begins, and there `check`: where the job takes away what
others have booked, the reservation with the greatest latest start has to move.
"""

from dataclasses import dataclass, replace
from math import inf

from .conservative import Promises, compress, kept, rebuilt, timers
from .lanes import FUTURE
from .limits import held_back
from .placement import held, least, licence_slot, minus, node_slots, place
from .profile import Profile, span
from .words import Decision, Job, Policy, Reservation, Start, Time, View

Spot = tuple[Time, range]  # an instant, and where a room keeps a node or a licence


def project_of(job: Job) -> str:
    """A job without a project is one of its own."""
    return job.project or f"the job of row {job.row} alone"


def two_tier(
    moves: bool = False,
    sf: float = 0,
    pl: float = inf,
    victims: str = "per_time",
    rebook: str = "from_now",
    compress: bool = False,
    high_at: float | None = None,
    slack: str = "project",
    movable: str = "all",
    high: str = "movable",
) -> Policy:
    """moves: else it is 2TSB. sf, pl: slack factor, and preemption limit. high_at: the priority of 2TPB."""
    rules = Rules(moves, sf, pl, victims, rebook, compress, high_at, slack, movable, high)
    return lambda view: Pass(view, rules).decide()


@dataclass(frozen=True)
class Rules:
    moves: bool
    sf: float
    pl: float
    victims: str
    rebook: str
    compress: bool
    high_at: float | None
    slack: str = "project"
    movable: str = "all"
    high: str = "movable"


class Pass:
    def __init__(self, view: View, rules: Rules):
        self.view, self.rules = view, rules
        self.latest: dict[int, float] = view.memory.setdefault("latest", {})
        self.jobs: dict[int, Job] = view.memory.setdefault("jobs", {})
        self.ended: dict[int, Time] = view.memory.setdefault("ended", {})
        self.note_ends()
        self.jobs.update({job.row: job for job in view.queue})
        self.limits = {r.job.row: r.limit for r in view.running}
        self.waiting = list(view.queue)
        self.free = view.free
        self.starts: list[Start] = []
        self.given: Promises = {}

    def whose(self, job: Job) -> str:
        """Jobs of one project do not make way for each other."""
        return project_of(job)

    def note_ends(self) -> None:
        """Every end is followed by a pass at its instant, so who runs no more has ended now."""
        there = {r.job.row for r in self.view.running} | {job.row for job in self.view.queue}
        for row in self.view.memory.get("ran", set()) - there:
            self.ended[row] = self.view.now
        for row in there:
            self.ended.pop(row, None)

    def decide(self) -> Decision:
        view = self.view
        self.profile = Profile.of_running(view)
        self.promises, moved_up = self.keep_promises()
        self.start_due(moved_up)
        new = [job for job in self.waiting if job.row not in self.promises]
        for project in dict.fromkeys(map(self.whose, new)):
            jobs = [job for job in new if self.whose(job) == project]
            self.promise(project, jobs)
            self.start_due({row for row in self.promises if row not in {job.row for job in jobs}})
        self.view.memory["ran"] = {r.job.row for r in view.running} | {start.job.row for start in self.starts}
        held = {job.row: self.promises[job.row] for job in self.waiting if job.row in self.promises}
        started = {start.job.row: Reservation(view.now, start.placement) for start in self.starts}
        return Decision(self.starts, held | started, timers(view, held), given=self.given)

    def keep_promises(self) -> tuple[Promises, set[int]]:
        view, moved_up = self.view, set()
        if view.changed:
            promises, moved_up = rebuilt(view, self.profile)
        else:
            promises = kept(view, self.profile)
        if self.rules.compress and (view.ended or view.changed):
            moved_up |= compress(view, self.profile, promises)
        if all(r.limit > view.now for r in view.running):  # nobody is overdue, so every start comes as it is booked
            promises = {row: replace(promise, late=False) for row, promise in promises.items()}
        return promises, moved_up

    def start_due(self, moved_up: set[int]) -> None:
        passed = []
        for job in list(self.waiting):
            promise = self.promises.get(job.row)
            if promise is None or promise.start > self.view.now:
                passed.append(job)
                continue
            if job.place != "power":
                self.profile.lift(job, promise)
                promise = self.profile.book(job, Reservation(self.view.now, self.profile.place_now(job)))
            if job.row in moved_up:
                reason = "moved-up"
            elif all(held_back(self.view.platform, other, self.free) for other in passed):
                reason = "head"
            else:
                reason = "reserved" if job.row in self.view.promises else "backfill"
            self.starts.append(Start(job, promise.placement, reason))
            self.free = minus(self.free, held(self.view.platform, job, promise.placement))
            self.waiting.remove(job)
            del self.promises[job.row]
            self.limits[job.row] = self.view.now + job.estimate
            if self.rules.movable == "unstarted":
                self.latest |= {row: -inf for row in self.latest if self.whose(self.jobs[row]) == self.whose(job)}

    def promise(self, project: str, jobs: list[Job]) -> None:
        """Give the jobs of a project their starts, and their latest starts."""
        rules, pr = self.rules, max(min(max(job.priority for job in jobs), 1), 0)
        may_move, factor = rules.moves, rules.sf
        if rules.high_at is not None:
            may_move, factor = pr >= rules.high_at, (1 - pr) * rules.sf
        departures = self.departures()  # as they were promised before this project came
        for job in jobs:
            found = self.first_gap(job, departures) if may_move else self.profile.earliest(job, self.view.now)
            if found is not None:
                self.promises[job.row] = found
                if not may_move:
                    self.profile.book(job, found)
        given = [job for job in jobs if job.row in self.promises]
        for job in given:
            self.latest[job.row] = self.promises[job.row].start
            self.given[job.row] = self.promises[job.row]
        if rules.moves and given:
            departure = self.departures()[project]
            stays = (rules.high == "fixed" and may_move) or (rules.movable == "unstarted" and self.has_begun(project))
            for job in given:
                start = self.promises[job.row].start
                end = start + span(job) if rules.slack == "job" else departure
                slack = round((end - self.view.project_submits[project]) * float(factor))
                self.latest[job.row] = -inf if stays else max(departure + slack - span(job), start)

    def has_begun(self, project: str) -> bool:
        """Return whether a job of the project runs, or is over."""
        return any(project_of(self.jobs[row]) == project for row in self.ended | self.limits)

    def departures(self) -> dict[str, Time]:
        """Return when the last job of each project ends, as things stand; jobs without a start do not count."""
        ends = self.ended | self.limits
        ends |= {row: promise.start + span(self.jobs[row]) for row, promise in self.promises.items()}
        found: dict[str, Time] = {}
        for row, end in ends.items():
            project = project_of(self.jobs[row])
            found[project] = max(found.get(project, end), end)
        return found

    def first_gap(self, job: Job, departures: dict[str, Time]) -> Reservation | None:
        """The first gap in which the job has its place when others have moved; both are booked."""
        for at in self.gaps(job):
            before = copy_of(self.profile), dict(self.promises)
            self.profile.book(job, at)
            if self.check(job, at, departures) is not None:
                return at
            self.profile, self.promises = before
        return None

    def gaps(self, job: Job) -> list[Reservation]:
        """`find_feasible`: now, and each later instant at which what is free changes, if the job has a place then.

        It sits where it fits at this instant, and would fit for as long as it may run if all were gone that may make
        way. The last gap is the first in which it fits as things stand.
        """
        profile, others = self.profile, copy_of(self.profile)
        for other in self.waiting:
            if self.may_make_way(job, other):
                others.lift(other, self.promises[other.row])
        first = profile._cut(self.view.now)
        steps = range(first, len(profile.times))
        changes = [i for i in steps if i == first or profile.rooms[i] != profile.rooms[i - 1]]
        gaps = []
        for t, room in [(profile.times[i], profile.rooms[i]) for i in changes if profile.times[i] < FUTURE]:
            if found := profile._window(job, profile._cut(t), by_rule=False)[0]:
                return [*gaps, Reservation(t, found)]
            begin, end = others._cut(t), others._cut(t + span(job))
            for there in others.rooms[begin:end]:
                room = least(room, there)
            if found := place(profile.platform, job, room):
                gaps.append(Reservation(t, found))
        return gaps

    def may_make_way(self, job: Job, other: Job) -> bool:
        """Return whether a waiting job may start later for another one."""
        return (
            other.row in self.promises
            and self.whose(other) != self.whose(job)
            and self.latest[other.row] > self.promises[other.row].start
        )

    def check(self, job: Job, at: Reservation, departures: dict[str, Time]) -> list[Job] | None:
        """Move others until nothing is overbooked while the job runs. Says whom; None where that does not work out."""
        moved: list[Job] = []
        spots: list[Spot] = []
        while (spot := self.overbooked(job, at)) is not None:
            if (spot in spots and self.rules.victims != "any") or (moved and self.rules.victims == "one"):
                return None
            spots.append(spot)
            victim = self.victim(job, at, spot, moved)
            if victim is None:
                return None
            moved.append(victim)
            held = self.promises[victim.row]
            self.profile.lift(victim, held)
            begin = self.view.now if self.rules.rebook == "from_now" else held.start
            found = self.profile.earliest(victim, begin, by_rule=False)
            if found is None or found.start > self.latest[victim.row]:
                return None
            self.promises[victim.row] = self.profile.book(victim, found)
            now = self.departures()
            others = [project for project in departures if project in now and project != self.whose(job)]
            if sum(now[project] > departures[project] for project in others) > self.rules.pl:
                return None
        return moved

    def overbooked(self, job: Job, at: Reservation) -> Spot | None:
        """The first instant while the job runs at which more is booked than there is of what it holds, and where.

        Its nodes go first, in order of power, then its licences.
        """
        platform = self.profile.platform
        lanes = [node_slots(platform, node) for node, _ in at.placement]
        lanes += [range(slot, slot + 1) for slot in sorted({licence_slot(platform, x) for x in job.licences})]
        asked = held(platform, job, at.placement)
        for t, room in zip(self.profile.times, self.profile.rooms, strict=True):
            for lane in lanes if at.start <= t < at.start + span(job) else []:
                if any(room[slot] < 0 < asked[slot] for slot in lane):
                    return t, lane
        return None

    def victim(self, job: Job, at: Reservation, spot: Spot, moved: list[Job]) -> Job | None:
        """Of the others that have the spot booked and hold there what is overbooked: the greatest latest start."""
        t, lane = spot
        platform, room = self.profile.platform, self.profile.rooms[self.profile._cut(t)]
        lacking = [slot for slot in lane if room[slot] < 0 < held(platform, job, at.placement)[slot]]
        found = [
            other
            for other in self.waiting
            if self.may_make_way(job, other)
            and other not in moved
            and self.promises[other.row].start <= t < self.promises[other.row].start + span(other)
            and any(held(platform, other, self.promises[other.row].placement)[slot] for slot in lacking)
        ]
        return max(found, key=lambda other: (self.latest[other.row], other.submit, other.row), default=None)


def copy_of(profile: Profile) -> Profile:
    """A copy of which changes do not touch this one."""
    copy = Profile(profile.platform, profile.now)
    copy.times, copy.rooms = list(profile.times), [list(room) for room in profile.rooms]
    return copy
