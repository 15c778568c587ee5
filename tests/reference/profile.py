"""Room as a step function of future time: what running jobs leave free by their limits, less what is promised."""

from bisect import bisect_left

from .lanes import FUTURE
from .limits import held_back
from .placement import held, least, minus, place, place_to_start, plus, whole
from .words import Job, Placement, Platform, Reservation, Room, Running, Time, View


class Profile:
    """rooms[i] is free on [times[i], times[i + 1]); the last step is open-ended, and nothing is held or booked in it.

    Room may be less than nothing where a job that runs on will lose its room to a window.
    """

    def __init__(self, platform: Platform, now: Time, capacity: list[tuple[Time, Room]] | None = None):
        """capacity: what there is from each instant on; default: the whole platform, always."""
        self.platform, self.now = platform, now
        self.times: list[Time] = []
        self.rooms: list[Room] = []
        for t, room in capacity or [(now, whole(platform))]:
            self.times.append(t)
            self.rooms.append(list(room))

    @classmethod
    def of_running(cls, view: View, running: list[Running] | None = None) -> "Profile":
        """Every running job holds its room until its limit; one that is overdue holds it for one time unit more.

        running: those that are counted; default: all.
        """
        profile = cls(view.platform, view.now, view.capacity)
        for r in view.running if running is None else running:
            profile._change(view.now, max(r.limit, view.now + 1), r.held, minus)
        return profile

    def book(self, job: Job, at: Reservation) -> Reservation:
        """Hold the job's room from its start for as long as it may run."""
        self._change(at.start, at.start + span(job), held(self.platform, job, at.placement), minus)
        return at

    def lift(self, job: Job, at: Reservation) -> None:
        """Take a booking back."""
        self._change(at.start, at.start + span(job), held(self.platform, job, at.placement), plus)

    def fits(self, job: Job, at: Reservation) -> bool:
        """Is this place free from this start for as long as the job may run?"""
        room = held(self.platform, job, at.placement)
        steps = self.rooms[self._cut(at.start) : self._cut(at.start + span(job))]
        return all(there >= asked for free in steps for there, asked in zip(free, room, strict=True) if asked)

    def held_back(self, job: Job) -> bool:
        """Does a limit keep the job from starting now?"""
        return held_back(self.platform, job, self.rooms[0])

    def within(self, other: "Profile") -> "Profile":
        """Return what is free in both."""
        for t in list(self.times):
            other._cut(t)
        for t in other.times:
            self._cut(t)
        self.rooms = [least(one, two) for one, two in zip(self.rooms, other.rooms, strict=True)]
        return self

    def place_now(self, job: Job) -> Placement | None:
        """Return where the job may start now: a place that stays free for as long as it may run."""
        return self._window(job, 0)[0]

    def earliest(self, job: Job, not_before: Time, by_rule: bool = True) -> Reservation | None:
        """The least start from which one placement stays free for as long as the job may run; None = there is none.

        Room appears only where a step begins, so these instants are enough. The placement rule sees the least
        room of the whole window; among nodes with the same start this prefers the more powerful.
        """
        first = self._cut(not_before)
        while first < len(self.times) and self.times[first] < FUTURE:
            placement, blocking = self._window(job, first, by_rule)
            if placement is not None:
                return Reservation(self.times[first], placement)
            first = blocking + 1
        return None

    def _window(self, job: Job, first: int, by_rule: bool = True) -> tuple[Placement | None, int]:
        """The job's place if it starts with this step, else None and a step that no window may contain or begin."""
        end = self.times[first] + span(job)
        room = self.rooms[first]
        for step in range(first, len(self.times)):
            if self.times[step] >= end:
                break
            if place(self.platform, job, self.rooms[step]) is None:
                return None, step
            room = least(room, self.rooms[step])
        seat = place_to_start if by_rule and self.times[first] == self.now else place
        return seat(self.platform, job, room), first

    def _change(self, start: Time, end: Time, room: Room, change) -> None:
        for step in range(self._cut(start), self._cut(end)):
            self.rooms[step] = change(self.rooms[step], room)

    def _cut(self, instant: Time) -> int:
        """The step that begins at this instant, made where there is none. Later steps move one place back."""
        step = bisect_left(self.times, instant)
        if step == len(self.times) or self.times[step] != instant:
            self.times.insert(step, instant)
            self.rooms.insert(step, list(self.rooms[step - 1]))
        return step


def span(job: Job) -> Time:
    """For how long a job is booked. One of walltime 0 is booked for one time unit, or its promise could be broken.

    One that would dangle is booked for ever: nobody knows when it will make progress.
    """
    if not job.ready:
        return FUTURE
    return max(job.estimate, 1)
