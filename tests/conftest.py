"""Shared settings: hypothesis profiles, and where the shared traces are."""

import gc
import os
import re
import signal
import sys
import time
from itertools import chain, groupby, pairwise
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from backfill.system import processes
from tests import forks
from tests.patience import PATIENCE_S

common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
quick = {"derandomize": True, "phases": [Phase.explicit, Phase.generate], **common}  # to shrink a case takes minutes
settings.register_profile("ci", max_examples=4, **quick)  # times some 40 policies and 60 laws
settings.register_profile("few", max_examples=3, **quick)
settings.register_profile("long", max_examples=2000, **common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Queues of tests do not see each other, nor those of who runs the tests.
os.environ["BACKFILL_REGISTRY"] = f"tests-{os.getpid()}"

# A shell that runs the tests in the background ignores Ctrl-C, and so would the processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Every process that a test starts inherits this mark; the workers of a parallel run have it from their controller.
CONTROLS = "BACKFILL_TEST_RUN" not in os.environ
MARK = {"BACKFILL_TEST_RUN": os.environ.setdefault("BACKFILL_TEST_RUN", f"{os.getpid()}-{time.time_ns()}")}

# Folders of tests that fail once more before the run fails, but for those that look for lost or doubled jobs.
CLOCKS = ("browser", "queue", "real", "web")
LOSSES = re.compile("kills|faults|evidence|slips|attempts|store|backups")

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """The folder of recorded logs and oracles that is not part of the project."""
    if not SHARED.is_dir():
        pytest.skip("needs the recorded logs in ../shared, which are not part of the project")
    return SHARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that fail once more where clocks of other processes count, and spread those on real batch systems,
    which mostly wait, over the workers, in the first half of what each begins with. See decision 0057."""
    for item in items:
        if item.path.parent.name in CLOCKS and not LOSSES.search(item.path.name):
            item.add_marker(pytest.mark.flaky(reruns=1))
    files = [list(tests) for file, tests in groupby(items, key=lambda item: item.path) if file.parent.name == "real"]
    rest = [item for item in items if item.path.parent.name != "real"]
    share = len(rest) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) + 1  # of a worker
    spread = [len(rest) * number // len(files) for number in range(len(files))]
    places = [place - place % share // 2 for place in spread]
    parts = [rest[begin:end] for begin, end in pairwise([*places, len(rest)])]
    items[:] = chain.from_iterable(chain.from_iterable(zip(files, parts, strict=True))) if files else rest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what the tests and the compiler are made of to no later garbage collection: it is most of the memory."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves a process behind."""
    forks.end()
    if not CONTROLS or sys.platform != "linux":
        return
    workers = processes.children(os.getpid()) if session.config.getoption("numprocesses", None) else []
    # What keeps track of memory that this process shares with others ends after this process.
    tracker = resource_tracker._resource_tracker._pid
    end = time.monotonic() + PATIENCE_S
    while left := {*processes.belonging(MARK)} - {*workers, tracker}:
        if time.monotonic() > end:
            for pid in sorted(left):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                print(f"\nprocess {pid} is left over: {words}", file=sys.stderr)
                processes.send(pid, signal.SIGKILL)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        time.sleep(0.1)
