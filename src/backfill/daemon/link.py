"""The daemon's side of a planner: processes that run the policy compiled, or in plain Python until it is compiled.

Both make the same decisions, since they run the same source. A newly installed queue has nothing compiled yet, and need
not wait for the compiler.
"""

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from backfill.queue import protocol
from backfill.queue.measured import Histogram
from backfill.queue.shapes import Basis, JsonObject, Question, Record
from backfill.queue.store import encode
from backfill.system.home import python_path
from backfill.system.processes import begun, send, state, status

LINE = 1 << 28  # the longest answer
SLOW_S = 1.5  # a compiled planner that is not ready by then has to compile first
# After one failure of a policy the next one is due after half of these two, so that another policy decides within 30 s.
SILENT_S = 10.0  # a planner that is silent for so long and sleeps will not answer
# A policy of a user's file that needs more to be loaded, or for one decision, is taken to loop.
FILE_CPU_S = float(os.environ.get("BACKFILL_FILE_CPU_S", "6"))
TABLE_CPU_S = 60.0  # a policy of this package does not loop, but is slow with many jobs while it is not compiled
STARVED_S = 120.0  # a planner that waits for a cpu gets this long
LOAD_S = 1800.0  # for the compiler
OUTDONE_S = 5.0  # a longer pass in plain Python is abandoned as soon as the policy is compiled
RETRY_S = 30.0
QUESTION_S = 600.0
TURN_S = 5.0  # longest wait of a query for a planner that is deciding
OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # not caused by the policy
SLICE, TOLD = 500, 1 << 15  # messages that are encoded, and bytes that are sent to a planner, at once
COPY_ENDS = 100  # looks at a process that has closed its files, until it has ended
PASSES = 200  # number of passes whose durations are kept
QUESTIONS = 2  # at a time: one for a client, and one in the background
TRIALS = 4  # of other policies at a time, beside queries, since a queue whose policy fails needs another one
ONLY_PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


class _Starting(Exception):
    """No planner is ready yet."""


class _Killed(Exception):
    """The planner was ended from outside, which is not the fault of its policy."""


class PlannerLink:
    """A planner for the engine; see around.Link.

    Set the engine before the first `begin`; `on_change` is called after each call of it.
    """

    engine: Any
    on_change: Any

    def __init__(self, log: int, file: Path = Path(os.devnull)) -> None:
        """Create the link. log: a file descriptor. file: where planners save themselves."""
        self.log, self.file = log, file
        self.kind = ""  # of the planner in use
        self.policy = ""
        self._made: dict[str, Process] = {}
        self._knows: Process | None = None  # the process that has received everything but the engine's next messages
        self._coming: set[str] = set()  # kinds whose process is being started
        self._loaded: set[str] = set()
        self._returned: set[str] = set()  # policies that were replaced during compilation, and got another try
        self._slow = False  # the compiled planner has to compile first
        self._todo: Record | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0  # in a row
        self._blamed = False  # the policy caused the last failure, and has not decided since
        self._busy: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()  # to talk to the planner: one line each way at a time
        self._questions, self._trials = asyncio.Semaphore(QUESTIONS), asyncio.Semaphore(TRIALS)
        self._asked = 0
        self._spans: deque[float] = deque(maxlen=PASSES)
        self.durations = Histogram()  # of all passes

    @property
    def pids(self) -> dict[str, int]:
        """The ids of the processes, by kind."""
        return {kind: made.pid for kind, made in self._made.items() if made.returncode is None}

    @property
    def passes(self) -> dict[str, float]:
        """The durations of the last passes, from request to answer, in milliseconds."""
        spans = sorted(self._spans)
        if not spans:
            return {"count": 0}
        return {"count": len(spans), "median_ms": spans[len(spans) // 2] * 1e3, "worst_ms": spans[-1] * 1e3}

    async def warm(self, policy: str) -> None:
        """Start the planner that will probably be needed, while the store is read."""
        self.policy, kind = policy, "plain" if ONLY_PLAIN else "compiled"
        try:  # awaited to its end: a cancelled start would keep the loop from closing
            made = self._made[kind] = await self._start(kind)
        except OSError:
            return  # `begin` tries again
        self._spawn(self._await(kind, made))

    def kept(self, epoch_seq: int, program: str) -> tuple[int, int]:
        """See around.Link. The file of a planner begins with a line that identifies it; see worlds/aside.py."""
        with suppress(OSError, ValueError, KeyError), self.file.open("rb") as found:
            header = json.loads(found.readline(1000))
            if (header["epoch_seq"], header["program"]) == (epoch_seq, program):
                return int(header["seq"]), int(header["now"])
        return 0, 0

    def begin(self, epoch: Basis, history: list[protocol.Pass], since: int) -> None:
        """Start a planner and replay this epoch into it."""
        if epoch["policy"] != self.policy:
            replaced, compiling = self.policy, self._compiling(epoch)
            self.close()
            self.policy, self._blamed = epoch["policy"], False
            if compiling is not None:
                self._returned.add(replaced)
                self._spawn(self._return(replaced, compiling))
        messages = [[one.now, one.messages] for one in history[bool(since) :]]
        self._knows = None
        self._todo = {"do": "begin", "epoch": epoch, "history": messages}
        self._todo |= {"since": since, "file": str(self.file), "epoch_seq": self.engine.book.epoch_seq}
        self._break_off()
        first = "plain" if ONLY_PLAIN else "compiled"
        self._bring(first)
        if self._slow:
            self._bring("plain")
        self._go_on()

    def _compiling(self, epoch: Basis) -> Process | None:
        """Take over the process that still compiles a policy that is being replaced as too slow, or as looping.

        None if there is none, or if the policy has returned before.
        """
        took_its_place = epoch["asked"] == self.policy and self.kind == "plain" and self.policy not in self._returned
        return self._made.pop("compiled", None) if took_its_place and "compiled" not in self._loaded else None

    async def _return(self, policy: str, made: Process) -> None:
        """Let a policy decide again as soon as it is compiled, unless another one was chosen by then."""
        answer: Record = {}
        try:
            with suppress(TimeoutError, OSError, ValueError, _Killed):
                answer = await self._read(made)
        finally:
            self._end(made)
        epoch = self.engine.book.epoch
        if answer.get("loaded") and epoch["asked"] == policy and epoch["policy"] != policy:
            self.engine.notes.append(f"policy {policy} is compiled, and decides again")
            self.engine.take_over(policy, epoch["program"])
            self.on_change()

    def ask(self, now: int, messages: list[protocol.Message]) -> None:
        """Request the planner's decisions."""
        self._send({"do": "ask", "now": now, "messages": messages, "seq": self.engine.pass_seq})

    def question(self, folder: Path, what: Question, reply: Callable[[JsonObject], None]) -> Callable[[], object]:
        """Let a copy of the planner answer a query of a client; decisions do not wait for it.

        Return a function that cancels the query, if its answer is no longer needed.
        """
        places, gone = self._trials if what["what"] == "switch" else self._questions, asyncio.Event()

        async def work() -> None:
            problem = {"code": "starting", "message": "the policy is being started; ask again", "field": ""}
            answer: JsonObject = {"error": problem}
            try:
                if places is self._trials and places.locked():
                    raise OSError("other policies are being tried; ask again")
                async with places:
                    if not gone.is_set():
                        answer = await self._question(folder, what, gone)
            except _Starting:
                pass
            except (TimeoutError, OSError, ValueError, _Killed) as error:
                why = str(error) or "the planner took too long; see daemon.log"
                problem |= {"code": "question", "message": f"there is no answer: {why}"}
            finally:
                reply(answer)

        self._spawn(work())
        return gone.set

    async def _question(self, folder: Path, what: Question, gone: asyncio.Event) -> JsonObject:
        """Return the answer to a query, which a copy of the planner writes to a named pipe.

        The pipe is closed when the copy ends, however it ends.
        """
        self._asked += 1
        path = folder / f"answer.{self._asked}"
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        try:
            end = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
            reader = asyncio.StreamReader(limit=LINE)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), end)
            try:
                try:
                    await asyncio.wait_for(self._take_turn(), TURN_S)
                except TimeoutError:  # it is deciding, for longer than policies should
                    raise _Starting from None
                try:
                    made, kind = self._made.get(self.kind), self.kind
                    if made is None or made.stdin is None or made is not self._knows or not self.engine.ready:
                        raise _Starting
                    messages, self.engine.outbox = self.engine.outbox, []
                    try:
                        await _tell(
                            made.stdin, {"do": "question", "to": str(path), "question": what, "messages": messages}
                        )
                        line = await self._read(made)
                    except (TimeoutError, OSError, ValueError, _Killed) as error:
                        # A late reply must not be taken for another answer, and the planner must not miss messages: end
                        # it.
                        if self._made.get(kind) is not made:  # it was ended, since another one has taken over
                            raise _Starting from None
                        self._drop(kind)
                        if self._busy is None:  # otherwise the pass in progress notices it
                            self._failed(str(error) or "it does not answer", blame=False)
                        raise
                    if not line["asked"]:
                        raise OSError("the system cannot start another process")
                finally:
                    self._turn.release()
                text = await self._answered(line["asked"], reader, gone)
            finally:
                transport.close()
        finally:
            path.unlink(missing_ok=True)
        if not text and self._made.get(kind) is not made:  # its copies were ended with it
            raise _Starting
        if not text:
            raise OSError(await _end_of_copy(line["asked"]))
        answer: JsonObject = json.loads(text)
        return answer

    async def _take_turn(self) -> None:
        """Wait for a turn at which the planner has received everything from the engine."""
        await self._turn.acquire()
        while self._busy is not None and self.engine.ready:
            self._turn.release()
            await asyncio.sleep(0)
            await self._turn.acquire()

    async def _answered(self, copy: int, reader: asyncio.StreamReader, gone: asyncio.Event) -> bytes:
        """Return the answer of a copy of the planner; it is ended if it takes too long, or the client has left."""
        since = begun(copy)
        reading, leaving = asyncio.ensure_future(reader.read()), asyncio.ensure_future(gone.wait())
        try:
            await asyncio.wait((reading, leaving), timeout=QUESTION_S, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            if since and begun(copy) == since:
                send(copy, signal.SIGKILL)
            raise TimeoutError
        finally:
            reading.cancel()
            leaving.cancel()

    def close(self) -> None:
        """End all planners."""
        for task in [*self._tasks]:
            task.cancel()
        self._coming.clear()
        self._slow = False
        for kind in [*self._made]:
            self._drop(kind)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _bring(self, kind: str) -> None:
        """Start a planner of this kind, unless there is one."""
        if kind not in self._made and kind not in self._coming:
            self._coming.add(kind)
            self._spawn(self._load(kind))

    async def _load(self, kind: str) -> None:
        """Start a planner."""
        try:
            made = self._made[kind] = await self._start(kind)
        except OSError as error:
            self._none_comes(f"{type(error).__name__} {error}")
            return
        finally:
            self._coming.discard(kind)
        await self._await(kind, made)

    async def _await(self, kind: str, made: Process) -> None:
        """Wait until the policy of a planner is compiled; meanwhile another planner may take over."""
        later = asyncio.get_running_loop().call_later
        spare = later(SLOW_S, self._load_plain) if kind == "compiled" else None

        compiles = False

        def hear(sign: Record) -> None:
            """Stop waiting to load the plain planner: a policy that is slow to load would be slow there too."""
            nonlocal spare, compiles
            if spare is not None and not compiles:
                spare.cancel()
                compiles = sign.get("compiles", False)
                spare = later(SLOW_S, self._load_plain) if compiles else spare

        try:
            answer = await self._read(made, hear)
        except _Killed as error:
            answer = {"killed": str(error)}
        except (TimeoutError, OSError, ValueError) as error:
            answer = {"error": str(error) or "it does not answer"}
        if spare is not None:
            spare.cancel()
        if self._made.get(kind) is not made:
            return
        if "error" in answer or "killed" in answer:
            self._drop(kind)
            self._none_comes(answer.get("error") or answer["killed"], blame="error" in answer)
            return
        self._loaded.add(kind)
        self._slow = self._slow and kind == "plain"
        if self._todo is not None:
            self._go_on()
        elif kind == "compiled" and self.kind == "plain":
            self.engine.remake()
            self.on_change()
            asyncio.get_running_loop().call_later(OUTDONE_S, self._give_up, self._busy)

    def _give_up(self, busy: asyncio.Task[None] | None) -> None:
        """End the planner in plain Python if its pass still goes on: with thousands of jobs, it may take too long."""
        if busy is None or self._busy is not busy or self.kind != "plain":
            return
        self._break_off()
        self.engine.failed("it took too long in plain Python; the compiled planner continues", blame=False)
        self.on_change()

    def _break_off(self) -> None:
        """End the planner that is deciding, if there is one."""
        if self._busy is not None:
            self._busy.cancel()
            self._busy = None
            self._drop(self.kind)

    def _none_comes(self, why: str, blame: bool = True) -> None:
        """Tell the engine that a planner could not be loaded, unless another one is being started."""
        if not self._made and self._todo is not None:
            self._failed(why, blame)

    def _load_plain(self) -> None:
        if "compiled" not in self._loaded:
            self._slow = True
            self._bring("plain")

    async def _start(self, kind: str) -> Process:
        env = {**os.environ, "PYTHONPATH": python_path(), **({"NUMBA_DISABLE_JIT": "1"} if kind == "plain" else {})}
        command = [sys.executable, "-P", "-m", "backfill.daemon.planning", self.policy, str(self._cpu_s)]
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=self.log or DEVNULL, env=env, limit=LINE, start_new_session=True,
            cwd="/",
        )  # fmt: skip

    def _go_on(self) -> None:
        """Start the planner in the best process that is ready."""
        best = next((kind for kind in ("compiled", "plain") if kind in self._loaded), None)
        if best is None or self._todo is None:
            return
        self.kind = best
        if best == "compiled":
            self._drop("plain")
        todo, self._todo = self._todo, None
        self._send(todo)

    def _send(self, what: JsonObject) -> None:
        self._busy = self._spawn(self._ask(what))

    async def _ask(self, what: JsonObject) -> None:
        begin = time.monotonic()
        made = self._made.get(self.kind)
        try:
            if made is None or made.stdin is None:
                raise _Killed("it is gone")
            async with self._turn:
                await _tell(made.stdin, {**what, "cpu_s": self._cpu_s})
                answer = await self._read(made)
        except (_Killed, BrokenPipeError, ConnectionResetError) as error:
            answer = {"killed": str(error) or "it is gone"}
        except (TimeoutError, OSError, ValueError) as error:
            answer = {"error": str(error) or "it does not answer"}
        self._busy = None
        if "error" in answer or "killed" in answer:
            self._drop(self.kind)
            self._failed(answer.get("error") or answer["killed"], blame="error" in answer)
            return
        self._failures = 0
        if what["do"] == "begin":
            self._knows = made
            self.engine.begun(answer)
        else:
            self._blamed = False
            self._spans.append(time.monotonic() - begin)
            self.durations.observe(self._spans[-1])
            self.engine.decided(answer)
        self.on_change()

    @property
    def _cpu_s(self) -> float:
        """CPU time that the policy may take to be loaded, or for one decision."""
        return self._left(FILE_CPU_S) if ".py" in self.policy else TABLE_CPU_S

    def _left(self, span: float) -> float:
        """Return the time that a policy may take; after a failure of its own, half of it."""
        return span / 2 if self._blamed else span

    async def _read(self, made: Process, hear: Callable[[Record], None] = lambda sign: None) -> Record:
        """Return the answer of a planner; signs of progress before it are passed to `hear` and extend the time.

        Raises TimeoutError if it is silent for too long, _Killed if it was ended from outside, OSError if it ended by
        itself.
        """
        assert made.stdout is not None
        compiles = False
        while True:
            line = await self._line(made, made.stdout, LOAD_S if compiles else self._left(SILENT_S))
            if not line:
                raise await _end_of(made)
            record: Record = json.loads(line)
            if not record.keys() & {"progress", "compiles"}:
                return record
            compiles = record.get("compiles", False)
            hear(record)

    async def _line(self, made: Process, stream: asyncio.StreamReader, patience: float) -> bytes:
        """Return the next line. A sleeping planner gets less time than one that works or waits for a cpu."""
        begin, read = time.monotonic(), asyncio.ensure_future(stream.readline())
        try:
            while True:
                done, _ = await asyncio.wait([read], timeout=min(patience, 1.0))
                if done:
                    return read.result()
                silent = time.monotonic() - begin
                if silent > patience and (silent > max(patience, STARVED_S) or not _works(made.pid)):
                    raise TimeoutError(f"it did not answer for {silent:.0f} s")
        finally:
            if not read.done():
                read.cancel()

    def _failed(self, why: str, blame: bool = True) -> None:
        """Tell the engine of a failure, with a growing delay. blame: the policy is at fault."""
        self._failures += 1
        self._blamed |= blame
        delay = min(0.05 * 2**self._failures, RETRY_S)
        asyncio.get_running_loop().call_later(delay, lambda: (self.engine.failed(why, blame), self.on_change()))

    def _drop(self, kind: str) -> None:
        self._loaded.discard(kind)
        made = self._made.pop(kind, None)
        if made is not None:
            self._end(made)

    def _end(self, made: Process) -> None:
        if made.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(made.pid, signal.SIGKILL)  # including its copies; it leads its own session
            self._spawn(_reaped(made))


async def _tell(to: asyncio.StreamWriter, what: JsonObject) -> None:
    """Send an object to a planner, in parts."""
    size = 0
    for part in chain(_parts(what), "\n"):
        if to.is_closing():
            raise BrokenPipeError("it is gone")
        to.write(part.encode())
        size += len(part)
        if size > TOLD:
            size = 0
            await to.drain()
            await asyncio.sleep(0)  # writing to a pipe with free space does not yield to other tasks
    await to.drain()


def _parts(what: Any) -> Iterator[str]:
    """Yield JSON in short parts; long lists are divided."""
    if isinstance(what, dict):
        for place, (name, value) in enumerate(what.items()):
            yield f"{',' if place else '{'}{encode(name)}:"
            yield from _parts(value)
        yield "}" if what else "{}"
    elif isinstance(what, list) and len(what) > SLICE:
        for first in range(0, len(what), SLICE):
            yield f"{',' if first else '['}{encode(what[first : first + SLICE])[1:-1]}"
        yield "]"
    else:
        yield encode(what)


async def _reaped(made: Process) -> None:
    await made.wait()


async def _end_of(made: Process) -> Exception:
    """Return the exception for a planner that has ended."""
    code = await made.wait()
    if -code in OUTSIDE:
        return _Killed(f"it was killed by signal {-code}")
    if -code == signal.SIGPROF:
        return OSError("the policy was not loaded, or did not decide, within its cpu time: it loops")
    return OSError(f"it ended by signal {-code}" if code < 0 else f"it ended with exit code {code}")


async def _end_of_copy(pid: int) -> str:
    """Return why the copy of a planner ended without an answer; its planner does not wait for it before it goes on."""
    ended = None
    for _ in range(COPY_ENDS):  # it closes its files first
        if (ended := status(pid)) is not None or not state(pid):
            break
        await asyncio.sleep(0.01)
    code = -signal.SIGPROF if ended is None else os.waitstatus_to_exitcode(ended)
    if -code in (signal.SIGPROF, signal.SIGALRM):
        return "its process was ended because its policy seemed to loop, or had too many jobs to simulate"
    return (
        f"its process was ended by signal {-code}"
        if code < 0
        else f"its process ended by itself, with exit code {code}"
    )


def _works(pid: int) -> bool:
    """Return whether a process computes, would compute if it had a cpu, or waits for a disk."""
    return state(pid) in (b"R", b"D")
