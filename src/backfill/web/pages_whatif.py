"""The page What if: the last week of the queue under another policy, computed by `backfill replay` beside it.

One computation at a time, in a process of its own at the lowest priority, so that neither this process nor the queue
notices it.
"""

import asyncio
import json
import os
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backfill.answers.history import opened
from backfill.model.units import clock_text, time_text
from backfill.queue.job import Job
from backfill.system.home import python_path

Facts = dict[str, Any]
WEEK_US = 7 * 86_400 * 1_000_000
KEPT = 8  # results that are remembered
PATIENCE_S = 1800.0
LOSERS = 100  # jobs that are listed
TOLD = 200  # characters of a policy's name
SAME_US = 1_000_000  # a wait that differs by less is the same


@dataclass
class Trial:
    """The replay under one policy: running, done or failed."""

    policy: str
    seq: int  # the last event of the log at the time
    result: Facts | None = None
    problem: str = ""


@dataclass
class Trials:
    """The replays that this process has made."""

    folder: Path
    trials: OrderedDict[str, Trial] = field(default_factory=OrderedDict)
    _task: asyncio.Task[None] | None = None
    names: list[str] = field(default_factory=list)  # of the policies that there are
    _finding: asyncio.Task[None] | None = None

    @property
    def running(self) -> str:
        """The policy that is being tried; empty for none."""
        return next((each.policy for each in self.trials.values() if each.result is None and not each.problem), "")

    def begin(self, policy: str, seq: int) -> None:
        """Try a policy, unless another one is being tried, or the result is known and nothing has happened since."""
        known = self.trials.get(policy)
        if self.running or (known is not None and known.seq == seq and not known.problem):
            return
        self.trials[policy] = trial = Trial(policy, seq)
        self.trials.move_to_end(policy)
        while len(self.trials) > KEPT:
            self.trials.popitem(last=False)
        self._task = asyncio.create_task(self._run(trial))

    async def _run(self, trial: Trial) -> None:
        try:
            text = await self._replayed(trial.policy)
            trial.result = await asyncio.to_thread(compared, self.folder, json.loads(text)["policies"][trial.policy])
        except TimeoutError:
            trial.problem = f"it took longer than {time_text(round(PATIENCE_S * 1e6))}"
        except (OSError, ValueError, KeyError, Failed) as error:
            trial.problem = str(error) or type(error).__name__

    async def _replayed(self, policy: str) -> str:
        return await _output(["replay", str(self.folder), f"--policy={policy}", "--json"], self.folder)

    def find_names(self) -> None:
        """Begin to find out which policies there are, once; no page waits for it."""
        if self._finding is None:
            self._finding = asyncio.create_task(self._find_names())

    async def _find_names(self) -> None:
        # Without them the field has no suggestions.
        with suppress(OSError, ValueError, KeyError, Failed, TimeoutError):
            found = json.loads(await _output(["policies", "--json"], self.folder))
            self.names = [each["name"] for each in found["policies"]]


class Failed(Exception):
    """The message of a command that failed."""


async def _output(words: list[str], folder: Path) -> str:
    """Return what a command of backfill prints. Raises Failed, OSError and TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        "nice", "-n", "19", sys.executable, "-P", "-m", "backfill", *words,
        env={**os.environ, "BACKFILL_HOME": str(folder), "PYTHONPATH": python_path()},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_S):
            out, said = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        problem = lines[-1].removeprefix("backfill: ") if lines else f"exit code {process.returncode}"
        with suppress(ValueError, KeyError, TypeError):  # it ended before it could say so in JSON
            problem = json.loads(out)["error"]["message"]
        raise Failed(problem)
    return out.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Waits:
    """The wait of a job as it was, and as it would have been, in microseconds."""

    job: Job
    was: int
    then: int

    @property
    def longer(self) -> int:
        """How much longer it would have been."""
        return self.then - self.was


def compared(folder: Path, waits: Facts) -> Facts:
    """Return the waits of the last week beside those under the other policy, the greatest losses first."""
    store = opened(folder)
    try:
        last = store.last_t()
        jobs = {job.id: job for job in store.jobs("submit_us >= ?", [last - WEEK_US])}
    finally:
        store.close()
    all_waits = zip(waits["jobs"], waits["was"], waits["would_be"], strict=True)
    rows = [Waits(jobs[number], was, then) for number, was, then in all_waits if number in jobs]
    losers = sorted((row for row in rows if row.longer >= SAME_US), key=lambda row: -row.longer)
    winners = sorted((row for row in rows if -row.longer >= SAME_US), key=lambda row: row.longer)
    both = [row.was for row in rows], [row.then for row in rows]
    return {
        "jobs": len(rows),
        "mean": [_span(sum(each) / max(len(each), 1)) for each in both],
        "longest": [_span(max(each, default=0)) for each in both],
        "losers": [_row(row) for row in losers[:LOSERS]],
        "winners": [_row(row) for row in winners[:LOSERS]],
        "counts": [len(losers), len(rows) - len(losers) - len(winners), len(winners)],
        "users": _users(rows),
    }


def _span(micros: float) -> str:
    return time_text(round(micros))


def _row(row: Waits) -> tuple[str, str, str, str, str, str]:
    spans = clock_text(row.was), clock_text(row.then), clock_text(abs(row.longer))
    return row.job.label, row.job.name, row.job.user, *spans


def _users(rows: list[Waits]) -> list[tuple[str, str, str, str, str]]:
    """Return the mean waits of each user, those first who would wait longer by most."""
    users: dict[str, list[Waits]] = {}
    for row in rows:
        users.setdefault(row.job.user, []).append(row)
    found = []
    for user, some in users.items():
        was, then = (sum(each) // len(some) for each in ([row.was for row in some], [row.then for row in some]))
        longer = then - was
        change = "the same" if abs(longer) < SAME_US else f"{'+' if longer > 0 else '-'}{clock_text(abs(longer))}"
        found.append((-longer, user, f"{len(some):,}", clock_text(was), clock_text(then), change))
    return [(user, count, was_text, then_text, change) for _, user, count, was_text, then_text, change in sorted(found)]
