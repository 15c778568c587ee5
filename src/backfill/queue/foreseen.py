"""The estimates that the daemon has: the last ones, and new ones, made in the background when somebody looks."""

from collections.abc import Callable, Iterable

from backfill.queue.book import Facts, Job
from backfill.queue.engine import SECOND, Engine, Reply
from backfill.queue.estimates import Estimates
from backfill.queue.states import PENDING

LEAST = 2 * SECOND  # between two rounds that nobody asked for
SHARE = 20  # of such a round, in cpu time, until the next one may begin: they take a twentieth of a cpu at most
AFTER_ERROR = 30 * SECOND
OLDEST = 600 * SECOND  # what was foreseen before is shown no more

Starts = dict[int, tuple[float, float]]  # of jobs: likely, and the bound for nine of ten, in seconds


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

    def glance(self, refresh: bool) -> tuple[Starts, Facts | None]:
        """What is known of starts to come, with its age; refresh: have it made anew, for the next look."""
        now, state, last = self._engine.clock.now(), self._state(), self._last
        pending = [job for job in self._engine.book.jobs.values() if job.state == PENDING and not job.held]
        holds = last is not None and last.holds(state, now)
        if refresh and pending and not holds and self._coming is None and now >= self._next and self._engine.ready:
            self._make(state, [])
        if last is None or last.of[-1] != state[-1] or now / 1e6 - last.answer["now_s"] > OLDEST / SECOND:
            return {}, {"coming": True} if self._coming is not None else None
        told = self._tell(last)
        starts = _starts(told["jobs"], pending, now / SECOND, self._engine.plan if self._engine.binds else {})
        return starts, {"age_s": told["age_s"], "futures": told["futures"], "current": holds,
                        "coming": self._coming is not None}  # fmt: skip

    def _state(self) -> tuple[int, ...]:
        """What estimates are of: they hold until one of these is another one, the last one the policy's epoch."""
        book = self._engine.book
        return self._engine.last_pass, book.last_job, book.epoch_seq

    def _make(self, state: tuple[int, ...], replies: list[Reply]) -> None:
        self._coming = coming = (state, replies)

        def over(told: Facts) -> None:
            if self._coming is coming:
                self._coming = None
            now = self._engine.clock.now()
            if "error" in told:
                self._next = now + AFTER_ERROR
            else:
                self._last = Estimates(state, told)
                self._next = now + max(LEAST, round(SHARE * told["cpu_s"] * SECOND))
                told = self._tell(self._last) if replies else told
            for reply in replies:
                reply(told)

        self._ask(over)

    def _tell(self, estimates: Estimates) -> Facts:
        """For a client; what is told for the first time is written down."""
        if estimates is not self._told:
            self._engine.note_shown(estimates.news(self._told))
            self._told = estimates
        return estimates.told(self._engine.clock.now())


def _starts(rows: Iterable[Facts], pending: Iterable[Job], now: float, plan: dict[int, int]) -> Starts:
    """Estimates of jobs that wait still: never before now, nor after what is promised by now."""
    known = {row["id"]: row for row in rows if row["median_s"] is not None}
    found = {}
    for job in pending:
        if job.id in known:
            latest = max(plan[job.id] / 1e6, now) if job.id in plan else float("inf")
            likely, bound = (min(max(known[job.id][name], now), latest) for name in ("median_s", "p90_s"))
            found[job.id] = likely, bound
    return found
