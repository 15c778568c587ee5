"""The daemon: sockets, clock and processes around the engine. Each queue has one, the only writer of its store."""

import asyncio
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ContextDecorator, contextmanager, suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

from backfill.daemon import measured
from backfill.daemon.backups import finish_restore, keep_backups
from backfill.daemon.config import LOCAL, Config, file_of, kept, preempts_by, program
from backfill.daemon.connection import ASKING, Answer, Connection, places
from backfill.daemon.door import Door
from backfill.daemon.foreseen import Foreseen
from backfill.daemon.hosting import host
from backfill.daemon.licences import Licence, keep_asking
from backfill.daemon.link import PlannerLink
from backfill.daemon.neighbours import announce
from backfill.daemon.notices import Notices
from backfill.daemon.projects import project_row
from backfill.daemon.shown import brief, on_calendar, plan_rows, queue_rows, row, story
from backfill.pools.base import refusal
from backfill.queue import commands, feed, schema
from backfill.queue.commands import Busy, Context, Slices
from backfill.queue.engine import Engine, Reply
from backfill.queue.epochs import of_pool
from backfill.queue.events import Capacity, Submit
from backfill.queue.job import NEVER, PREEMPT, Job, Run, Task
from backfill.queue.measured import Histogram
from backfill.queue.nodes import FLOATING, MACHINE
from backfill.queue.schema import Refused
from backfill.queue.shapes import (
    Basis,
    EtaRequest,
    ExplainRequest,
    Failure,
    JobsRequest,
    JsonObject,
    OutputRequest,
    Over,
    PlanRequest,
    PolicyRequest,
    ProjectRequest,
    Question,
    QueueRequest,
    ShowRequest,
    SlotsRequest,
    SubmitProjectRequest,
    SubmitRequest,
)
from backfill.queue.starts import behind
from backfill.queue.states import PENDING
from backfill.queue.store import Store, StoreError, StoreLost, encode, move_writes
from backfill.queue.words import Unreadable
from backfill.system.home import WANTED, alone, home, network_type, owner, served_by, trouble
from backfill.system.log import note

ANY = 2**62  # copies of a licence whose number is not known yet
STOP_S = 0.05
SWEEP_S, TELL_S, QUIET_S = 0.5, 5.0, 30.0
PROTOCOL = 1
RUNNING_ALREADY = 75
STEP_S = 0.01  # longest work on an answer at once
MOVED = 1000  # events, after which the write-ahead log is moved into the store
MANY = 2000  # events, after which the garbage collector is told to skip present objects
SHOWN = 200  # jobs that one answer shows in full
WAITED_FOR_MAX = 1_000_000  # jobs, by all clients together
FAULTS = os.environ.get("BACKFILL_FAULT", "")  # NAME or NAME:N: die when this point is reached for the N-th time


Steps = Generator[None, None, JsonObject | None]


class Waiters:
    """The clients that wait for jobs: their number, and the total number of their jobs."""

    def __init__(self) -> None:
        self.clients = self.jobs = 0


class Waiting:
    """A client that waits for jobs; it is answered when all of them are over.

    forget: called with this object when it has its answer, or has left.
    """

    def __init__(self, reply: Answer, left: set[int], all_: Waiters, forget: Callable[["Waiting"], None]) -> None:
        self.left, self._reply, self._over = left, reply, list[Over]()
        self._all, self._forget, self._there = all_, forget, True
        all_.clients += 1
        all_.jobs += len(left)
        reply.unwanted = self.leave

    def leave(self) -> None:
        """Stop waiting."""
        if self._there:
            self._there = False
            self._all.clients -= 1
            self._all.jobs -= len(self.left)
            self._forget(self)

    def __call__(self, answer: Over | Failure) -> None:
        """Receive how one of the jobs ended, or why that will not be known."""
        if "error" in answer:
            self._reply(answer)
        elif self._there and answer["id"] in self.left:
            self._over.append(answer)
            self.left.discard(answer["id"])
            self._all.jobs -= 1
        if not self.left:
            self._reply({"jobs": sorted(self._over, key=itemgetter("id"))})
        if self._reply.value is not None:
            self.leave()


class ends_with_store(ContextDecorator):
    """Ends the daemon if the store is lost meanwhile: only a new process can find out what is on disk."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreLost):
            note(f"{error}; the daemon ends")
            os._exit(1)


class Daemon:
    """The daemon of one queue."""

    def __init__(self, folder: Path, config: Config, link: PlannerLink, lock: int) -> None:
        self.folder, self.config, self.link = folder, config, link
        finish_restore(folder)
        self.store = Store(folder / "store.db")
        self.notices = Notices(str(folder))
        hosted = host(folder, config, self.store, self._has_news, lambda: self.engine)
        self.pool, self.clock, self.evidence = hosted.pool, hosted.clock, hosted.evidence
        self._run_clock = hosted.run
        before = self.store.clock().get("pool", "local") if self.store.seq else self.pool.name
        if before != self.pool.name and (count := self.store.count("end_us IS NULL", ())):
            jobs = f"{count:,} open job" + "s" * (count > 1)
            problem = f"pool is {self.pool.name}, and {jobs} of this queue belong to pool {before}"
            hint = f"let it be {before} until no job is open, or begin a new queue by another BACKFILL_HOME"
            raise Unreadable(f"{config.file}: {problem}; {hint}")
        if cannot := refusal(self.pool, config.policy, preempts_by(config.policy)):
            raise Unreadable(f"{config.file}: {cannot}")
        self.engine = Engine(
            self.store,
            self.clock,
            self.pool,
            self.link,
            self.config.defaults,
            self._fault,
            encode,
            self.evidence.number,
            notify=self.notices.start,
        )
        self.link.engine, self.link.on_change = self.engine, self.poke
        self.door = Door(folder, lock, lambda: Connection(self), self.pool.hear)
        self._poked = self._goes_on = self._reads = False
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None  # for when it is set
        self._reached = 0
        self._checked = self.store.seq_written  # the last event after which the store was in its place
        self._still = 0  # number of events when the garbage collector was last told
        self.connections: set[Connection] = set()
        self.idle: dict[Connection, None] = {}
        self.ready: set[Connection] = set()
        self._waiters = Waiters()
        self._submits, self._since = Histogram(), time.time()
        self._foreseen = Foreseen(self.engine, lambda reply: self._question({"what": "eta"}, reply))
        self._kept: list[tuple[int, int]] = []  # run folders of attempts that are over
        self._stopped = asyncio.Event()

    async def work(self) -> None:
        """Serve until told to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        self.door.take_hints()
        lacks = self.evidence.behind()
        if lacks:
            self.engine.book.last_job = max(self.engine.book.last_job, self.evidence.last_number())
        self.engine.open(self._capacity(), self.config.policy, program(), self.config.predict)
        _keep_still()
        self._kept += self.evidence.recover(self.engine, lacks)
        self._flush()
        self.evidence.tell_all()  # so that an equally old store that replaces this one later is noticed
        await self.door.open()
        if self.config.pool == LOCAL:
            with suppress(OSError):  # without it other queues do not see this one
                known, hang_up = announce(str(self.folder), self.config.cpu_ids)
                loop.add_reader(known, hang_up)
        workers = [loop.create_task(self._sweep()), loop.create_task(keep_backups(self.folder))]
        workers.append(loop.create_task(self._move_writes()))
        metrics = self.config.metrics_file
        metrics_file = metrics and measured.MetricsFile(metrics, self.store.path, self._measured)
        if metrics_file:
            workers.append(loop.create_task(metrics_file.keep()))
        for licence in self.config.synced:
            workers.append(loop.create_task(self._sync(licence)))
        for worker in workers:
            worker.add_done_callback(_ended)
        await self._stopped.wait()
        self.engine.stop()
        self.door.close()
        self._flush()
        for client in [*self.connections]:
            client.close()
        await asyncio.sleep(STOP_S)  # time to send the last answers
        for worker in workers:
            worker.cancel()
        self.door.remove()
        self._flush()
        self._drop_timer()  # the store is closed next
        if metrics_file:
            metrics_file.close()
        self.notices.close()
        self.pool.close()
        self.link.close()
        try:
            self.evidence.tell_all()
        except OSError as error:
            note(f"{error.filename}: {error.strerror}")
        self.store.checkpoint()
        self.store.close()

    def _capacity(self) -> Capacity:
        """Return the resources for jobs; for a licence with a server, its last report until the next one."""
        stated, engine = self.config.capacity, self.engine
        amounts = stated.resources if stated.nodes is None else stated.nodes[FLOATING]
        for one in self.config.synced:
            amounts[one.name] = engine.book.capacity.get(one.name, one.ours)
            engine.most[one.name] = one.copies - one.margin if one.copies else ANY
        return stated

    def poke(self) -> None:
        """Note new input: write it when all that arrived with it is processed."""
        if not self._poked:
            self._poked = True
            asyncio.get_running_loop().call_soon(self._flush)

    # ------------------------------------------------------------------

    @ends_with_store()
    def _flush(self) -> None:
        self._poked = False
        self.engine.flush()
        self._check_store()
        if self.store.seq_written - self._still >= MANY:
            self._still = self.store.seq_written
            _keep_still()
        while self.engine.notes:
            note(self.engine.notes.pop(0))
        ready, self.ready = self.ready, set()
        for client in ready:
            client.send()
        if self.engine.busy and not self._goes_on:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._go_on)
        if self._run_clock is not None and self.engine.ready:
            self._run_clock()
            self._run_clock = None
        self._set_timer()

    @ends_with_store()
    def _go_on(self) -> None:
        """Process a large request slice by slice, and answer others in between."""
        self._goes_on = False
        self.engine.go_on()
        self._flush()

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._due = None

    def _set_timer(self) -> None:
        due = min((t for t in (self.engine.next_timer(), self.pool.news_at()) if t is not None), default=None)
        if due is not None and due == self._due:
            return
        self._drop_timer()
        if due is not None and self._run_clock is None:
            delay = max((due - self.clock.now()) / 1e6 / self.clock.speed, 0)
            self._timer, self._due = asyncio.get_running_loop().call_later(min(delay, 60), self._tick), due

    @ends_with_store()
    def _tick(self) -> None:
        self._drop_timer()
        self._read()
        self.engine.tick()
        self._flush()

    def _fault(self, point: str) -> None:
        """Die here once, if a test requests that."""
        name, _, count = FAULTS.partition(":")
        if point == name and not (self.folder / "died").exists():
            self._reached += 1
            if self._reached == int(count or 1):
                (self.folder / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)

    def _read(self, some: Iterable[Run] = ()) -> None:
        """Learn the present state of attempts and nodes."""
        seen = self.pool.read(some)
        self.engine.saw(seen)
        for one in seen.attempts:
            if one.verdict.over:
                self._kept.append((one.job, one.attempt))
        self.poke()

    def _has_news(self) -> None:
        """Note that the pool has news: read it when all that arrived with it is processed."""
        if not self._reads:
            self._reads = True
            asyncio.get_running_loop().call_soon(self._read_news)

    @ends_with_store()
    def _read_news(self) -> None:
        self._reads = False
        self._read()

    def _is_open(self, job: int, attempt: int) -> bool:
        known = self.engine.book.jobs.get(job)
        return known is not None and known.attempt is not None and known.attempt.number == attempt

    async def _sweep(self) -> None:
        quiet, looks = 0.0, 0
        while True:
            await asyncio.sleep(SWEEP_S)
            if not self.folder.exists():  # the queue was removed
                self._stopped.set()
                return
            try:
                with ends_with_store():
                    await self._keep_place()
            except OSError as error:  # for example no free file descriptor: try again
                note(f"{error.filename}: {error.strerror}")
            try:
                with ends_with_store():
                    self._read(self.engine.book.runs())
                    self.notices.look()
                    if self.engine.look_at_clock():  # timers of the loop do not count while the machine sleeps
                        self._tick()
                    quiet, looks = quiet + SWEEP_S, looks + 1
                    if looks * SWEEP_S >= TELL_S and self.evidence.tell():
                        looks = 0
                    if self._kept and quiet >= QUIET_S:
                        quiet = 0.0
                        self._forget()
            except OSError as error:  # for example a full disk: try again
                note(f"{error.filename}: {error.strerror}")

    async def _move_writes(self) -> None:
        """Move the write-ahead log into the store from time to time; within a commit, all clients would wait for it."""
        moved = self.store.seq_written
        while True:
            await asyncio.sleep(SWEEP_S)
            if self.store.seq_written - moved >= MOVED and self.store.path.exists():
                moved = self.store.seq_written
                try:
                    await asyncio.to_thread(move_writes, self.store.path)
                except StoreError as error:  # for example a full disk: try again later
                    note(str(error))

    async def _keep_place(self) -> None:
        """Make sure that lock, sockets and store are still those of this daemon. Raises StoreLost if they are not."""
        with self._left_in_order():
            if not await self.door.keep():
                raise StoreLost("another daemon serves this queue, since the lock of this one was removed")
            if self.store.removed():
                self._write_store_anew()

    def _check_store(self) -> None:
        """Raise StoreLost before a client is told of events that were written to a store that has been replaced."""
        if self.store.seq_written != self._checked:
            self._checked = self.store.seq_written
            with self._left_in_order():
                self.store.removed()  # one that is only gone is written anew, see `_keep_place`

    @contextmanager
    def _left_in_order(self) -> Iterator[None]:
        """Leave the store in order if it turns out to be lost."""
        try:
            yield
        except StoreLost:
            with suppress(StoreError, OSError):  # the witness may know more than the present store
                self.evidence.tell_all()
            self.store.checkpoint()  # otherwise SQLite would apply the write-ahead log to the other file
            raise

    def _write_store_anew(self) -> NoReturn:
        """Write the removed store again from this process's data, for the next daemon."""
        note(f"{self.store.path} was removed; it is written anew")
        try:
            self.store.write_anew()
        except (StoreError, OSError) as error:
            note(str(error))
        os._exit(1)

    async def _sync(self, licence: Licence) -> None:
        """Follow the reports of a licence server."""

        def held() -> int:
            return self.engine.book.held.get(licence.name, 0)

        def reported() -> None:
            if licence.failures:
                note(f"licence {licence.name}: {licence.problem}")
                return
            self.engine.most[licence.name] = licence.copies - licence.margin
            book = self.engine.book
            place = FLOATING if book.platform else MACHINE
            self.engine.set_capacity(place, {**book.nodes.there[place], licence.name: licence.ours})
            self.poke()

        await keep_asking(licence, held, reported, asyncio.sleep)

    def _forget(self) -> None:
        """Remove run folders of ended attempts, after their ends are in the store itself."""
        over, self._kept = [key for key in self._kept if not self._is_open(*key)], []
        if not self.store.checkpoint():
            self._kept = over
            return
        if over:
            self.evidence.forget(over)

    # ------------------------------------------------------------------ clients

    @ends_with_store()
    def hear(self, line: bytes, reply: Answer) -> None:
        """Process a request. One that only reads is answered at once, others when their effects are on disk."""
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError
        except (ValueError, RecursionError):
            reply(Refused("a request is one JSON object in a line", "protocol").answer())
            return
        if message.get("v", PROTOCOL) != PROTOCOL:
            problem = f"the daemon speaks protocol {PROTOCOL}; restart it: backfill serve --stop"
            reply(Refused(problem, "protocol").answer())
            return
        try:
            if schema.check(message).changes:
                self.engine.meet(message, self._timed(reply) if message["do"] == "submit" else reply)
            else:
                self._flush()  # answers show only what is on disk
                self._look(message, reply)
        except Refused as error:
            reply(error.answer())

    def _timed(self, reply: Answer) -> Reply:
        """Return a reply to a submit that also measures how long the client waited for it."""
        begin = time.perf_counter()

        def timed(answer: JsonObject) -> None:
            self._submits.observe(time.perf_counter() - begin)
            reply(answer)

        return timed

    def _look(self, message: dict[str, Any], reply: Answer) -> None:
        """Answer a request that changes nothing, at once or in steps."""
        self._step(getattr(self, f"_look_{message['do']}")(message, reply), message, reply)

    @ends_with_store()
    def _step(self, steps: Steps, message: dict[str, Any], reply: Answer) -> None:
        """Work on an answer for a moment; if it is not complete, continue after others have been served."""
        end = time.perf_counter() + STEP_S
        try:
            while time.perf_counter() < end:
                next(steps)
        except StopIteration as over:
            answer = over.value
        except Busy:
            self.engine.defer(lambda: self._look(message, reply))
            return
        except Refused as error:
            answer = error.answer()
        except StoreLost:
            raise
        except Exception as error:  # a mistake in this program: only this client is affected
            note(traceback.format_exc())
            answer = Refused(f"{message['do']}: {error!r:.200}; see daemon.log", "internal").answer()
        else:
            asyncio.get_running_loop().call_soon(self._step, steps, message, reply)
            return
        if answer is not None:
            reply(answer)
            self.poke()  # this sends the answer

    # Each yields where it may be interrupted, and returns its answer; None if it replies later.

    def _look_ping(self, message: JsonObject, reply: Answer) -> Steps:
        link, engine = self.link, self.engine
        planner = {"pids": link.pids, "kind": link.kind, "ready": engine.ready, "passes": link.passes}
        planner["failures"] = engine.failures[-1:]  # the last one, if there was no answer since
        yield
        found = {"pid": os.getpid(), "planner": planner, "waiters": self._waiters.clients}
        return found | {"pool": self.pool.name, "now_s": self.clock.now() / 1e6}

    def _look_queue(self, message: QueueRequest, reply: Answer) -> Steps:
        # A policy that is not compiled yet is too slow for unrequested estimates.
        refresh = bool(message.get("estimates")) and self.link.kind == "compiled"
        starts, estimates = self._foreseen.glance(refresh)
        rows = yield from queue_rows(self.engine, self.store, self.clock.now(), message, starts)
        rows["estimates"] = estimates
        rows["licences"] = {
            one.name: {"copies": one.copies, "others": one.others, "stale": one.failures > 0, "problem": one.problem}
            for one in self.config.synced
        }
        return rows

    def _look_plan(self, message: PlanRequest, reply: Answer) -> Steps:
        """Return reserved and likely starts of the pending jobs, and ask for new estimates."""
        starts, estimates = self._foreseen.glance(self.link.kind == "compiled")
        rows = yield from plan_rows(self.engine, self.clock.now(), message, starts)
        return {**rows, "estimates": estimates}

    def _look_metrics(self, message: JsonObject, reply: Answer) -> Steps:
        """Return what this daemon measures, see answers/metrics.py."""
        yield
        return {"values": self._measured()}

    def _measured(self) -> JsonObject:
        engine, book, due = self.engine, self.engine.book, self.engine.next_timer()
        return {
            "build_info": [[{"version": measured.version()}, 1]],
            "policy_info": [[{"policy": book.epoch.get("policy", "")}, 1]],
            **measured.one(
                up=1, daemon_start_timestamp_seconds=self._since, planner_ready=int(engine.ready),
                paused=int(book.paused), forecast_age_seconds=self._foreseen.age_s(),
                clock_lag_seconds=0.0 if due is None else max(self.clock.now() - due, 0) / 1e6 / self.clock.speed,
            ),
            **measured.sizes(self.store.path),
            "jobs": measured.states(book),
            **measured.amounts(book),
            **measured.licences(book, self.config.synced),
            **measured.durations(**{"pass": self.link.durations}, submit=self._submits, commit=self.store.commits),
        }  # fmt: skip

    def _look_show(self, message: ShowRequest, reply: Answer) -> Steps:
        """Return everything about some jobs, from a position on; only the first of many."""
        some, first, jobs = self._chosen(message), message.get("from", 0), []
        for one in some[first : first + message.get("limit", SHOWN)]:
            job = self.engine.job(one.id)
            if job is not None:
                jobs.append(story(self.engine, self.store, self.evidence, job, self.clock.now()))
            yield
        return {"jobs": jobs, "all": len(some)}

    def _look_project(self, message: ProjectRequest, reply: Answer) -> Steps:
        """Return everything about a project: its jobs, its promised departures, and whether they were kept."""
        yield
        return project_row(self.engine, self.store, message["project"], self.clock.now())

    def _look_eta(self, message: EtaRequest, reply: Answer) -> Steps:
        """Estimate the starts of all pending jobs, or those of a project and its departure."""
        if "project" in message:
            yield
            open_ = [job.id for job in self.engine.book.jobs.values() if job.project == message["project"]]
            if not open_:
                raise Refused(f"no job of project {message['project']} is open", "unknown", "project")
            self._question({"what": "eta_project", "jobs": open_}, lambda answer: reply(self._dated(answer)), reply)
            return None
        self._foreseen.eta(lambda answer: reply(self._dated(self._with_expected(answer))))
        yield
        return None

    def _with_expected(self, answer: JsonObject) -> JsonObject:
        """Return estimates with the starts that the watched batch system expects."""
        if not self.engine.shadow or not isinstance(rows := answer.get("jobs"), list):
            return answer
        expected = {one["id"]: self.engine.expected.get(one["id"]) for one in rows}
        found = [{**one, "expected_s": None if (t := expected[one["id"]]) is None else t / 1e6} for one in rows]
        return {**answer, "pool": self.pool.name, "jobs": found}

    def _look_explain(self, message: ExplainRequest, reply: Answer) -> Steps:
        """Return why a job does not run; with `to`, also when it would start if it were changed so."""
        job = self._one(message)
        if to := message.get("to"):
            commands.check_tried(job, to, self.engine.context())
        yield
        answer = row(self.engine, job, self.clock.now())
        if job.state != PENDING or job.due is not None:
            facts = {"schema": 1, "id": job.id, "label": job.label, "state": job.state, "reason": answer["reason"]}
            book = self.engine.book
            those = behind(job, job.due.nodes, book) if job.due is not None else []
            preempted = job.attempt is not None and job.attempt.cause == PREEMPT
            return facts | {"for": job.preempted_for if preempted else 0, "keeps": job.keeps,
                            "behind": [book.jobs[one].label for one in those]}  # fmt: skip
        asked: Question = {"what": "explain", "id": job.id, "reason": answer["reason"]}
        asked |= {"to": to} if to else {}
        more = {"never": self.engine.never(job)} if job.held == NEVER else {}
        if job.native:
            more |= {"pool": self.pool.name} | {name: answer[name] for name in ("expected_s", "advised_s")}
        self._question(asked, lambda answer: reply({**self._dated(answer), **more}), reply)
        return None

    def _look_slots(self, message: SlotsRequest, reply: Answer) -> Steps:
        """Return what fits now, and for how long."""
        need = message.get("need", {})
        commands.check_need(need, self.engine.context())
        yield
        platform, gpu_type = self.engine.context().platform, message.get("gpu_type", "")
        if platform is not None and gpu_type:
            from backfill.worlds.possible import check_feature

            check_feature(gpu_type, platform)
        asked: Question = {"what": "slots", "need": need, "grace": self.config.defaults["grace"], "gpu_type": gpu_type}
        asked |= {"user": message.get("user", ""), "group": message.get("group", "")}
        more = {}
        if self.engine.book.platform:
            from backfill.answers.fitting import fitting  # loads numpy, which a queue of one node does not need

            job = Job(0, need={"cpus": 1, **need}, walltime=1, user=asked["user"], group=asked["group"])
            more["limits"] = fitting(self.engine.book).limited_by(job)
        self._question(asked, lambda answer: reply({**self._dated(answer), **more}), reply)
        return None

    def _look_test(self, message: SubmitRequest, reply: Answer) -> Steps:
        """Return when a job would start; nothing is stored."""
        return (yield from self._test("test", commands.submit(message, self._trial()), reply))

    def _look_test_project(self, message: SubmitProjectRequest, reply: Answer) -> Steps:
        """Return when the jobs of a project would start, and when the last one would end; nothing is stored."""
        return (yield from self._test("test_project", commands.submit_project(message, self._trial()), reply))

    def _trial(self) -> Context:
        return replace(self.engine.context(), keep=lambda spec: 0)

    def _test(self, what: str, slices: Slices, reply: Answer) -> Steps:
        events = []
        while True:
            try:
                events += next(slices)
            except StopIteration as end:
                done = end.value
                break
            yield
        tasks = [event.row for event in [*events, *done.events] if isinstance(event, Submit)]
        if not tasks:
            raise Refused("the job is queued already", "usage", "token")

        def over(answer: JsonObject) -> None:
            reply(answer if "error" in answer else {**done.answer, **self._dated(answer)})

        self._question({"what": what, "tasks": tasks}, over, reply)
        return None

    def _look_switch(self, message: PolicyRequest, reply: Answer) -> Steps:
        """Return what another policy would do with the waiting jobs."""
        book, policy = self.engine.book, self._policy(message)
        base = []
        for number in sorted(book.jobs):
            if number in book.jobs:
                base.append(feed.basis(book.jobs[number]))
            yield
        epoch: Basis = {"policy": policy, **feed.begins_with(book, base), "now": self.clock.now()}
        epoch |= {**of_pool(self.pool), **self.engine.predictions()}
        asked: Question = {"what": "switch", "policy": policy, "epoch": epoch}
        given, copy = file_of(str(message.get("policy"))), file_of(policy)

        def tried(answer: JsonObject) -> None:
            wrong: Any = answer.get("error")
            if wrong and given:  # the user knows nothing of the copy
                answer = {"error": {**wrong, "message": wrong["message"].replace(copy, given)}}
            reply(self._dated(answer))

        self._question(asked, tried, reply)
        return None

    def _look_policy(self, message: PolicyRequest, reply: Answer) -> Steps:
        """Switch to another policy, until config.toml names another one."""
        policy = self._policy(message)
        yield
        self.engine.take_over(policy, program())
        self.poke()
        return {"policy": policy}

    def _policy(self, message: PolicyRequest) -> str:
        try:
            policy = kept(self.folder, str(message.get("policy")))
        except Unreadable as error:
            raise Refused(str(error), "usage", "policy") from None
        if cannot := refusal(self.pool, policy, preempts_by(policy)):
            raise Refused(cannot, "usage", "policy")
        return policy

    def _dated(self, answer: JsonObject) -> JsonObject:
        """Return an answer of the planner's copy as clients get it."""
        dated: JsonObject = on_calendar(answer, self.engine.book.skew)
        return dated

    def _question(self, what: Question, reply: Reply, asker: Answer | None = None) -> None:
        """Query the planner's copy; if the client leaves, the query ends, unless several clients wait for it."""
        asked: Question = {**what, "now": self.clock.now(), "skew": self.engine.book.skew, "folder": str(self.folder)}

        def answered(answer: JsonObject) -> None:
            reply(answer)
            self.poke()  # this sends the answer

        unwanted = self.link.question(self.folder, asked, answered)
        if asker is not None:
            asker.unwanted = unwanted

    def _look_find(self, message: JobsRequest, reply: Answer) -> Steps:
        yield
        return {"ids": [job.id for job in self._chosen(message)]}

    def _look_output(self, message: OutputRequest, reply: Answer) -> Steps:
        """Return where the output of a job is, and whether more will come; requested several times a second."""
        job = self._one(message)
        yield
        found = self.evidence.files(job, self.store.spec(job.spec))
        path = (message.get("err") and found["error"]) or found["output"]
        return {"path": path, "job": brief(self.engine, job, self.clock.now())}

    def _look_wait(self, message: JobsRequest, reply: Answer) -> Steps:
        """Answer when all of the jobs are over."""
        try:
            left = {job.id for job in self._chosen(message)}
        except Refused:
            if not all(self._has_ended(one) for one in message["ids"]):
                raise
            left = set()
        if not left:
            return {"jobs": []}
        others = self._waiters
        if others.clients >= places() - ASKING:
            raise Refused(f"{others.clients:,} clients wait for jobs, as many as may; wait again later", "busy")
        if len(left) + others.jobs > WAITED_FOR_MAX:
            problem = f"others wait for {others.jobs:,} jobs; expected at most {WAITED_FOR_MAX:,} in all"
            raise Refused(f"{problem}; wait for fewer jobs at once", "full", "ids")
        waiting = Waiting(reply, left, others, lambda one: self.engine.wait_no_more(one.left, one))
        for number in sorted(left):
            if reply.gone:
                break
            self.engine.wait(number, waiting)
            yield
        return None

    def _has_ended(self, one: Any) -> bool:
        """Return whether a name or a project refers to jobs that are over."""
        if not isinstance(one, dict):
            return False
        return bool(self.store.jobs_of(one["project"], 1) if "project" in one else
                    self.store.jobs("name = ?", (one["name"],), 1))  # fmt: skip

    def _look_stop(self, message: JsonObject, reply: Answer) -> Steps:
        asyncio.get_running_loop().call_later(STOP_S, self._stopped.set)
        yield
        return {"pid": os.getpid()}

    def _chosen(self, message: JobsRequest | ShowRequest) -> list[Job | Task]:
        return commands.chosen(message, self.engine.context())

    def _one(self, message: JobsRequest) -> Job:
        """Return the one job that a request is about."""
        found = self._chosen(message)
        job = self.engine.job(found[0].id) if len(found) == 1 else None
        if job is None:
            raise Refused("expected one job; of an array one task, ARRAY_INDEX", field="ids")
        return job


def _keep_still() -> None:
    """Exempt present objects from garbage collection: with 100,000 jobs a collection takes 0.3 s."""
    gc.collect()
    gc.freeze()


def _ended(worker: asyncio.Task[None]) -> None:
    """End the daemon if a worker fails: the next one begins with what is on disk."""
    if not worker.cancelled() and worker.exception() is not None:
        note("".join(traceback.format_exception(worker.exception())))
        os._exit(1)


def _wanted() -> bool:
    """Return whether the client that started this daemon still waits for one.

    If another daemon came first and was stopped since, this one would come back unrequested.
    """
    if os.environ.pop(WANTED, "") == "":
        return True
    over, _, _ = select.select([0], [], [], 0)  # nothing is ever written: it can only be closed
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return not over


def _shed_limits() -> None:
    """Undo limits and settings inherited from the process that started this one: jobs get those of their submitters."""
    for name in dir(resource):
        if name.startswith("RLIMIT_") and name != "RLIMIT_STACK":  # RLIMIT_STACK: the stack of each thread
            which = getattr(resource, name)
            hard = resource.getrlimit(which)[1]
            for most in (resource.RLIM_INFINITY, hard):
                try:
                    resource.setrlimit(which, (most, most))
                    break
                except (ValueError, OSError):  # without a privilege, up to the hard limit
                    continue
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, range(os.cpu_count() or 1))


def main() -> int:
    """Serve the queue of $BACKFILL_HOME."""
    folder = Path(home())
    os.umask(0o077)
    _shed_limits()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wrong = trouble(str(folder))
        if not wrong and owner(str(folder)) != os.getuid():
            wrong = f"{folder} belongs to another user, who alone can start its daemon"
        if wrong:
            print(f"backfill: {wrong}", file=sys.stderr)
            return 1
        kind = network_type(os.path.realpath(folder))
        if kind:
            problem = f"is on a network file system ({kind}), whose locks are not to be trusted"
            print(f"backfill: {folder} {problem}; expected a folder on this machine, by BACKFILL_HOME", file=sys.stderr)
            return 1
        lock = alone(folder)
        if lock < 0:
            print(f"backfill: {served_by(folder)} serves {folder} already", file=sys.stderr)
            return RUNNING_ALREADY
        if not _wanted():
            return 0

        async def run() -> None:
            config = Config(folder)
            log = os.open(folder / "daemon.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            link = PlannerLink(log, folder / "planner.kept")
            await link.warm(config.policy)
            await Daemon(folder, config, link, lock).work()

        asyncio.run(run())
    except (StoreError, Unreadable) as error:
        print(f"backfill: {error}", file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        print(f"backfill: {error.filename or folder}: {error.strerror}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
