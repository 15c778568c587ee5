"""A planner that is asked as its daemon asks it, and how long it takes. For the scripts beside this one."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from backfill.worlds.aside import Rest, leave_in_peace
from backfill.worlds.live import Planner, answer

SECOND = 1_000_000
EARLY = 5_000  # the pass at which the life is looked at for the first time
# Yields an instant, what the planner is told then, and how many jobs are open; is sent the jobs that were started, and
# when the policy wants to be asked again.
Steps = Generator[tuple[int, list[Any], int], tuple[list[int], int | None], None]


class Life:
    """A planner, and what its passes took in seconds of processor time of this thread."""

    def __init__(self, epoch: dict[str, Any]) -> None:
        self.epoch, self.planner = epoch, Planner(epoch["policy"], epoch)
        assert self.planner.policy.entry is not None  # compiled before the first pass
        self.passes, self.rests, self.saves, self.open = array("d"), array("d"), array("d"), array("l")
        self.notes: list[str] = []
        self._folder = tempfile.TemporaryDirectory()
        self._kept = Path(self._folder.name) / "planner.kept"
        self._since: list[list[Any]] = []  # passes since it was put on the disk

    def live(self, steps: Steps) -> None:
        """Ask it for each step, with a line of JSON each way."""
        leave_in_peace()
        rest, step = Rest(self._kept, {}), next(steps)
        while True:
            now, told, opened = step
            line = json.dumps({"do": "ask", "now": now, "messages": told})
            begun = time.thread_time()
            _, done = answer(self.planner, json.loads(line))
            json.dumps(done)
            answered = time.thread_time()
            saved = rest.take(self.planner, len(self.passes), now)
            self.passes.append(answered - begun)
            self.rests.append(time.thread_time() - answered)
            self.open.append(opened)
            self._since.append([now, told])
            if saved:
                self.saves.append(self.rests[-1])
                self._since = []
            if len(self.passes) == EARLY:
                self._look()
            try:
                step = steps.send(([job for job, *_ in done["starts"]], done["wake"]))
            except StopIteration:
                break
        self._look()

    def _look(self) -> None:
        """Note how much memory it has, and how long one takes that is made anew, as by a daemon."""
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
        what = f"pass {len(self.passes):,}: {self.planner.state.jobs.rows:,} rows, {memory:.0f} MB"
        if self.saves:
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            words = [sys.executable, "-m", "backfill.daemon.planning", self.epoch["policy"], "60"]
            asked = {"do": "begin", "epoch": self.epoch, "history": self._since, "cpu_s": 60}
            asked |= {"since": 1, "file": str(self._kept), "epoch_seq": 0}
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
                assert made.stdin is not None
                assert made.stdout is not None
                made.stdin.write(json.dumps(asked) + "\n")
                made.stdin.flush()
                told = next(
                    found for found in map(json.loads, made.stdout) if not {"progress", "loaded", "compiles"} & {*found}
                )
                assert len(told["passes"]) == len(self._since) + 1, told
                took = time.perf_counter() - begun
                made.stdin.close()
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
            size = self._kept.stat().st_size / 1e6
            what += (
                f"; made anew from {size:.1f} MB and {len(self._since):,} passes in {took:.2f} s ({cpu:.2f} s of cpu)"
            )
        self.notes.append(what)


def spans(name: str, values: Sequence[float]) -> None:
    """Print what passes took, in milliseconds."""
    some = sorted(values)
    middle, high = some[len(some) // 2] * 1e3, some[len(some) * 99 // 100] * 1e3
    print(f"    {name}: median {middle:.3f} ms, 99 % {high:.3f}, longest {some[-1] * 1e3:.2f}")


def shortest(lives: Sequence[Life], what: str) -> list[float]:
    """Return the least time of each pass over all runs: a pass is long only if it is long in each of them."""
    return [min(each) for each in zip(*(getattr(life, what) for life in lives), strict=True)]
