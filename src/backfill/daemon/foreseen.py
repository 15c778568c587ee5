"""Estimates kept by the daemon: the last ones, and new ones, computed in the background when a client reads them."""

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from backfill.answers.estimates import Estimates
from backfill.queue.engine import SECOND, Engine, Reply
from backfill.queue.shapes import Eta, JsonObject
from backfill.queue.states import PENDING

LEAST = 2 * SECOND  # time between two rounds that were not requested
SHARE = 20  # after such a round, pause this many times its cpu time: they use at most a twentieth of a cpu
AFTER_ERROR = 30 * SECOND
OLDEST = 600 * SECOND  # estimates older than this are not shown


class Starts(Mapping[int, tuple[float, float]]):
    """Likely starts of waiting jobs and their bounds in nine of ten futures, in seconds by the queue clock.

    Never before now, nor after the promised start. Each is computed when it is read.
    """

    def __init__(self, estimates: Estimates, engine: Engine, now: float) -> None:
        self._rows, self._engine, self._now = estimates.rows, engine, now

    def __getitem__(self, number: int) -> tuple[float, float]:
        job, row = self._engine.book.jobs.get(number), self._rows[number]
        if job is None or job.state != PENDING or job.held:
            raise KeyError(number)
        plan = self._engine.plan if self._engine.binds else {}
        latest = max(plan[number] / 1e6, self._now) if number in plan else float("inf")
        likely, bound = (min(max(t or 0.0, self._now), latest) for t in (row["median_s"], row["p90_s"]))
        return likely, bound

    def __iter__(self) -> Iterator[int]:
        return (number for number in self._rows if self.get(number) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Foreseen:
    """The estimates of the daemon.

    ask: lets a copy of the planner estimate, and replies once; it never delays a decision.
    """

    def __init__(self, engine: Engine, ask: Callable[[Reply], None]) -> None:
        self._engine, self._ask = engine, ask
        self._last: Estimates | None = None
        self._logged: Estimates | None = None  # the last estimates that were shown and logged
        self._coming: tuple[tuple[int, ...], list[Reply]] | None = None  # of the round in progress: state, requests
        self._next = 0  # no unrequested round before this instant

    def eta(self, reply: Reply) -> None:
        """Reply with the estimates of all pending jobs; with the last ones if nothing has happened since."""
        now, state = self._engine.clock.now(), self._state()
        if self._last is not None and self._last.holds(state, now):
            reply(self._tell(self._last))
        elif self._coming is not None and self._coming[0] == state:
            self._coming[1].append(reply)
        else:
            self._make(state, [reply])

    def glance(self, refresh: bool) -> tuple[Mapping[int, tuple[float, float]], JsonObject | None]:
        """Return the known estimates of starts, with their age; refresh: compute new ones for the next call."""
        now, state, last = self._engine.clock.now(), self._state(), self._last
        pending = any(job.state == PENDING and not job.held for job in self._engine.book.jobs.values())
        holds = last is not None and last.holds(state, now)
        if refresh and pending and not holds and self._coming is None and now >= self._next and self._engine.ready:
            self._make(state, [])
        if last is None or last.of[-1] != state[-1] or now / 1e6 - last.answer["now_s"] > OLDEST / SECOND:
            return {}, {"coming": True} if self._coming is not None else None
        answer = self._tell(last)
        starts = Starts(last, self._engine, now / SECOND)
        return starts, {"age_s": answer["age_s"], "futures": answer["futures"], "current": holds,
                        "coming": self._coming is not None, "wide_from_jobs": last.fewest}  # fmt: skip

    def age_s(self) -> float | None:
        """Return the age of the last estimates; None if there are none."""
        last = self._last
        return None if last is None else max(self._engine.clock.now() / SECOND - last.answer["now_s"], 0.0)

    def _state(self) -> tuple[int, ...]:
        """Return the state that estimates depend on; its last entry is the policy's epoch."""
        book = self._engine.book
        return self._engine.last_pass, book.last_job, book.epoch_seq

    def _make(self, state: tuple[int, ...], replies: list[Reply]) -> None:
        self._coming = coming = (state, replies)

        def over(answer: JsonObject) -> None:
            if self._coming is coming:
                self._coming = None
            now = self._engine.clock.now()
            if "error" in answer:
                self._next = now + AFTER_ERROR
            else:
                eta = cast(Eta, answer)
                self._last = Estimates(state, eta)
                self._next = now + max(LEAST, round(SHARE * eta["cpu_s"] * SECOND))
                answer = self._tell(self._last) if replies else answer
            for reply in replies:
                reply(answer)

        self._ask(over)

    def _tell(self, estimates: Estimates) -> Eta:
        """Return estimates for a client; new ones are logged."""
        if estimates is not self._logged:
            self._engine.note_shown(estimates.news(self._logged))
            self._logged = estimates
        return estimates.eta(self._engine.clock.now())
