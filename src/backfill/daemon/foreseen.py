"""The estimates that the daemon has: the last ones, and new ones, made in the background when somebody looks."""

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from backfill.answers.estimates import Estimates
from backfill.queue.engine import SECOND, Engine, Reply
from backfill.queue.shapes import Eta, JsonObject
from backfill.queue.states import PENDING

LEAST = 2 * SECOND  # between two rounds that nobody asked for
SHARE = 20  # of such a round, in cpu time, until the next one may begin: they take a twentieth of a cpu at most
AFTER_ERROR = 30 * SECOND
OLDEST = 600 * SECOND  # what was foreseen before is shown no more


class Starts(Mapping[int, tuple[float, float]]):
    """Of jobs that wait still the likely start and the bound for nine of ten, in seconds: never before now, nor after
    what is promised by now. Each is worked out when it is looked at."""

    def __init__(self, estimates: Estimates, engine: Engine, now: float) -> None:
        self._rows, self._engine, self._now = estimates.rows, engine, now

    def __getitem__(self, number: int) -> tuple[float, float]:
        job, found = self._engine.book.jobs.get(number), self._rows[number]
        if job is None or job.state != PENDING or job.held:
            raise KeyError(number)
        plan = self._engine.plan if self._engine.binds else {}
        latest = max(plan[number] / 1e6, self._now) if number in plan else float("inf")
        likely, bound = (min(max(t or 0.0, self._now), latest) for t in (found["median_s"], found["p90_s"]))
        return likely, bound

    def __iter__(self) -> Iterator[int]:
        return (number for number in self._rows if self.get(number) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Foreseen:
    """See above. ask: has a copy of the planner estimate, and replies once; it never holds up a decision."""

    def __init__(self, engine: Engine, ask: Callable[[Reply], None]) -> None:
        self._engine, self._ask = engine, ask
        self._last: Estimates | None = None
        self._told: Estimates | None = None  # what somebody was told last, and the log was
        self._coming: tuple[tuple[int, ...], list[Reply]] | None = None  # of which state, and who waits for it
        self._next = 0  # no round before that instant, unless it is asked for

    def eta(self, reply: Reply) -> None:
        """Tell the estimates of all pending jobs; the last ones, where nothing has happened since."""
        now, state = self._engine.clock.now(), self._state()
        if self._last is not None and self._last.holds(state, now):
            reply(self._tell(self._last))
        elif self._coming is not None and self._coming[0] == state:
            self._coming[1].append(reply)
        else:
            self._make(state, [reply])

    def glance(self, refresh: bool) -> tuple[Mapping[int, tuple[float, float]], JsonObject | None]:
        """What is known of starts to come, with its age; refresh: have it made anew, for the next look."""
        now, state, last = self._engine.clock.now(), self._state(), self._last
        pending = any(job.state == PENDING and not job.held for job in self._engine.book.jobs.values())
        holds = last is not None and last.holds(state, now)
        if refresh and pending and not holds and self._coming is None and now >= self._next and self._engine.ready:
            self._make(state, [])
        if last is None or last.of[-1] != state[-1] or now / 1e6 - last.answer["now_s"] > OLDEST / SECOND:
            return {}, {"coming": True} if self._coming is not None else None
        told = self._tell(last)
        starts = Starts(last, self._engine, now / SECOND)
        return starts, {"age_s": told["age_s"], "futures": told["futures"], "current": holds,
                        "coming": self._coming is not None}  # fmt: skip

    def _state(self) -> tuple[int, ...]:
        """What estimates are of: they hold until one of these is another one, the last one the policy's epoch."""
        book = self._engine.book
        return self._engine.last_pass, book.last_job, book.epoch_seq

    def _make(self, state: tuple[int, ...], replies: list[Reply]) -> None:
        self._coming = coming = (state, replies)

        def over(told: JsonObject) -> None:
            if self._coming is coming:
                self._coming = None
            now = self._engine.clock.now()
            if "error" in told:
                self._next = now + AFTER_ERROR
            else:
                found = cast(Eta, told)
                self._last = Estimates(state, found)
                self._next = now + max(LEAST, round(SHARE * found["cpu_s"] * SECOND))
                told = self._tell(self._last) if replies else told
            for reply in replies:
                reply(told)

        self._ask(over)

    def _tell(self, estimates: Estimates) -> Eta:
        """For a client; what is told for the first time is written down."""
        if estimates is not self._told:
            self._engine.note_shown(estimates.news(self._told))
            self._told = estimates
        return estimates.told(self._engine.clock.now())
