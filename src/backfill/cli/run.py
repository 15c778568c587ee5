"""Run policies for the command line, with messages about long steps and progress bars."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from backfill.cli import say

if TYPE_CHECKING:
    from backfill.api import Result
    from backfill.cli.options import RunOptions
    from backfill.comparison import Comparison
    from backfill.core.policy import Policy
    from backfill.executors import Where
    from backfill.model.platform import Platform
    from backfill.model.workload import Workload
    from backfill.saved_runs import SavedRuns
    from backfill.spec import RunSpec
    from backfill.streams import Source, Streamed

STEPS = 1000  # of a bar, for each run
ONCE = "this happens once: the compiled code is kept for the next runs"
_compiled: set[str] = set()  # names for which the message was printed


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Print a message if something is compiled in the block; the first message also says that this happens once."""
    from numba.core import event

    from backfill.compiler import jit

    class Told(event.Listener):  # type: ignore[misc]
        """Receives events of the compiler."""

        def on_start(self, event: object) -> None:
            """Print the message at the first start of a compilation; compilations may be nested."""
            if name not in _compiled:
                say.note(f"compiling {name}" + (f"; {ONCE}" if jit.FOLDER and not _compiled else ""))
                _compiled.add(name)

        def on_end(self, event: object) -> None:
            """Do nothing at the end of a compilation."""

    with event.install_listener("numba:compile", Told()):
        yield


def described(
    policy: str,
    run: "RunOptions",
    settings: Sequence[str] = (),
    promise: str | None = None,
    explain: str | None = None,
) -> "RunSpec":
    """Return the run that a policy and the options of a command line describe. Only a policy in a file is compiled."""
    return _described(policy, vars(run), settings, promise, explain)


def all_described(policies: Sequence[str], run: "RunOptions") -> "list[RunSpec]":
    """Return the runs of several policies with the same options; a file of events is read once."""
    from backfill.spec import with_events

    given: Any = vars(run)
    given = with_events(given)
    return [_described(policy, given) for policy in policies]


def _described(
    policy: str,
    given: Mapping[str, Any],
    settings: Sequence[str] = (),
    promise: str | None = None,
    explain: str | None = None,
) -> "RunSpec":
    from backfill.spec import RunSpec

    with compiling(policy) if ".py" in policy else nullcontext():
        return RunSpec.of(policy, settings, promise=promise, explain=explain, **given)


def compile_one(policy: "Policy") -> None:
    """Compile a policy, or load it from the cache."""
    if policy.compiled:
        with compiling(policy.name):
            _ = policy.entry


@contextmanager
def compiling_ahead(policy: "Policy") -> Iterator[Callable[[], object]]:
    """Compile a named policy in parallel, if the cache is empty; yields a function that waits for the end."""
    from backfill.compiler import jit
    from backfill.policies import TABLE

    if jit.WARM or jit.FOLDER is None or (os.cpu_count() or 1) < 2 or policy.name not in TABLE:
        yield lambda: None
        return
    code = f"from backfill.policies import get; get({policy.name!r}).entry"
    quiet: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with subprocess.Popen([sys.executable, "-c", code], **quiet) as ahead:
        try:
            yield ahead.wait
        finally:
            ahead.terminate()


def run(workload: "Workload", platform: "Platform", spec: "RunSpec") -> "Result":
    """Simulate, with a progress bar if it takes long."""
    engine()
    from backfill.api import run_spec

    compile_one(spec.policy)
    with say.bar(spec.policy.name, len(workload)) as progress:
        return run_spec(workload, platform, spec, progress)


def stream(source: "Source", platform: "Platform", spec: "RunSpec", to: str, part: int, format: str) -> "Streamed":
    """Simulate part by part, with a progress bar."""
    engine()
    from backfill.streams import stream_spec

    compile_one(spec.policy)
    with say.bar(spec.policy.name, source.jobs) as progress:
        return stream_spec(source, platform, spec, to, part, format, progress)


def compare_all(
    log: "Workload | Callable[[int], Workload]",
    platform: "Platform | None",
    specs: "Sequence[RunSpec]",
    replications: int = 1,
    where: "Where" = None,
    saved: "SavedRuns | None" = None,
) -> "Comparison":
    """Compare policies, with a progress bar that shows the remaining time. saved: has the runs that have finished."""
    engine()
    from backfill.comparison import compare_specs
    from backfill.compiler import jit

    runs = len(specs) * replications

    def compared() -> "Comparison":
        with say.bar(f"{runs} runs", runs * STEPS) as bar:
            progress = None if bar is None else _in_steps(bar)
            return compare_specs(log, platform, specs, replications, where, progress, saved)

    if where is not None and jit.WARM:  # a policy is loaded while others run
        with compiling("the policies"):
            return compared()
    *first, last = (spec.policy for spec in specs)
    with compiling_ahead(last) as compiled:
        for policy in first:
            compile_one(policy)
        with say.busy(f"compiling {last.name}"):
            compiled()
    compile_one(last)
    return compared()


def _in_steps(bar: Callable[[int], None]) -> Callable[[float], None]:
    return lambda runs: bar(round(runs * STEPS))


def engine() -> None:
    """Load the compiled simulator, or compile it."""
    if "backfill.worlds.simulated" in sys.modules:
        return
    with compiling("the simulator"):
        import backfill.worlds.simulated  # noqa: F401
