"""Tasks give the same results, the same progress and the same errors wherever they are carried out."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from backfill.executors import Processes, carry_out, executor
from backfill.model.errors import BackfillError, BadArgument, UsageError
from tests.patience import PATIENCE_S, until


@pytest.fixture(params=["here", "processes", "any executor"])
def where(request):
    """Each place in which tasks can be carried out."""
    if request.param != "any executor":
        yield None if request.param == "here" else Processes(2)
        return
    with ThreadPoolExecutor(2) as pool:
        yield pool


def square(task: int) -> int:
    time.sleep(0.002 * (5 - task))
    return task * task


def half_way(task, tell):
    if tell is not None:
        tell(0.5)
    return task


def wrong(task):
    raise BadArgument("seed", task, "something else")


def interrupted(task):
    if task == 2:
        raise KeyboardInterrupt
    return task


def killed(task):
    os.kill(os.getpid(), signal.SIGKILL)


def divided(task):
    return 1 / task


def sent_in_part(path):
    """A result of which a half has been sent, when something is written to the path."""

    def send(self, data):
        os.write(self.fileno(), data[: len(data) // 2])
        Path(path).touch()
        time.sleep(PATIENCE_S)

    Connection._send = send
    return "x" * 100_000


class Pressing:
    """A lock that is interrupted as soon as the main thread has taken it for the n-th time: whoever wanted it never
    learns that he has it."""

    left = 0

    def __init__(self):
        self._lock = threading.RLock()
        self._is_owned = self._lock._is_owned

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

    def acquire(self, blocking=True):
        got = self._lock.acquire(blocking)
        if got and threading.current_thread() is threading.main_thread():
            Pressing.left -= 1
            if Pressing.left == 0:
                signal.raise_signal(signal.SIGINT)
        return got

    def release(self):
        self._lock.release()


def pressed_with_a_lock(n):
    """Ctrl-C, at the n-th time at which this thread takes the lock of a task."""
    made = Future.__init__

    def with_lock(self):
        made(self)
        self._condition = threading.Condition(Pressing())

    Future.__init__, Pressing.left = with_lock, n
    carry_out(square, range(3), Processes(2))


def pressed_during_a_result(path):
    """Ctrl-C, while a process sends a result."""
    threading.Thread(target=lambda: (until(lambda: Path(path).exists()), os.kill(os.getpid(), signal.SIGINT))).start()
    carry_out(sent_in_part, [path, path], Processes(2))


def test_results_are_in_the_order_of_the_tasks(where):
    assert carry_out(square, range(5), where) == [0, 1, 4, 9, 16]
    assert carry_out(square, [], where) == []


def test_progress_never_goes_back_and_ends_with_all(where):
    told = []
    assert carry_out(half_way, range(4), where, told.append, tells=True) == [0, 1, 2, 3]
    assert told == sorted(told)
    assert told[-1] == 4


def test_one_process_tells_the_share_of_the_task_under_way():
    told = []
    carry_out(half_way, range(2), None, told.append, tells=True)
    assert told == [0.5, 1, 1.5, 2]


def test_an_error_of_ours_is_the_same_from_everywhere(where):
    with pytest.raises(BadArgument, match="seed is 3; expected something else") as told:
        carry_out(wrong, [3], where)
    assert (told.value.option, told.value.exit_code) == ("--seed is 3; expected something else", 2)


def test_an_error_of_somebody_else_comes_back_from_other_processes_by_its_name():
    with pytest.raises(BackfillError, match="ZeroDivisionError: division by zero"):
        carry_out(divided, [0], Processes(2))
    with pytest.raises(ZeroDivisionError):
        carry_out(divided, [0])


def test_what_was_done_before_ctrl_c_is_there():
    done = {}
    with pytest.raises(KeyboardInterrupt):
        carry_out(interrupted, range(5), done=done)
    assert done == {0: 0, 1: 1}


@pytest.mark.parametrize(
    "how", [*(f"pressed_with_a_lock({n})" for n in (1, 2, 4, 6)), "pressed_during_a_result('part')"]
)
def test_ctrl_c_ends_all_processes_whenever_it_comes(tmp_path, how):
    here = Path(__file__).parents[1]
    code = f"import sys; sys.path.append({str(here)!r}); from tests import test_executors; test_executors.{how}"
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
    ) as command:
        try:
            _, told = command.communicate(timeout=PATIENCE_S)  # which ends when nobody holds the pipe any more
        finally:
            os.killpg(command.pid, signal.SIGKILL) if command.poll() is None else None
    assert "KeyboardInterrupt" in told.splitlines()[-1], told


def test_a_process_that_dies_is_told():
    with pytest.raises(BackfillError, match="a worker process ended; memory may have run out"):
        carry_out(killed, [1, 2], Processes(2))


def test_where_is_judged_before_anything_starts():
    with executor() as here, executor(3) as three:
        assert (here, three) == (None, Processes(3))
    with pytest.raises(BadArgument, match="workers is 0"), executor(0):
        pass
    with pytest.raises(UsageError, match="--cluster and --workers cannot be combined"), executor(2, "tcp://x:1"):
        pass


def imported(module):
    return module in sys.modules, os.getpid()


def test_processes_that_start_early_have_imported_what_tasks_need_and_serve_the_first_list():
    with executor(2, imports="colorsys") as where:
        first = carry_out(imported, ["colorsys"] * 4, where)
        assert {there for there, _ in first} == {True}
        second = carry_out(imported, ["colorsys"] * 4, where)
    assert {there for there, _ in second} == {False}
    assert not {pid for _, pid in first} & {pid for _, pid in second}


def test_no_more_processes_start_early_than_there_are_tasks():
    with executor(5, imports="colorsys", tasks=2) as where:
        assert len(where.early[0][0].pool._processes) == 2
        assert carry_out(abs, [-1, -2], where) == [1, 2]
        assert carry_out(abs, [-1, -2, -3], where) == [1, 2, 3]  # a later list has as many as were asked for


@pytest.mark.parametrize("error", [None, UsageError("no log")])
def test_processes_that_start_early_and_get_no_task_end(error):
    with contextlib.suppress(UsageError), executor(2, imports="colorsys") as where:
        processes = [*where.early[0][0].pool._processes.values()]
        if error is not None:
            raise error
    assert len(processes) == 2
    assert not any(each.is_alive() for each in processes)


class Large:
    """A task's owner with an array of 8 MB, and a result of the same size."""

    def __init__(self):
        self.numbers = np.arange(1_000_000)

    def twice(self, task):
        mapped = self.numbers.base is not None
        if task == 1:
            self.numbers[0] = -1  # no other process sees that
        return mapped, int(self.numbers[0]), 2 * self.numbers


def test_arrays_are_mapped_not_copied_and_each_process_has_its_own_changes(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    given = Large()
    results = carry_out(given.twice, [0, 1], Processes(2))
    assert [mapped for mapped, _, _ in results] == [True, True]
    assert given.numbers[0] == 0
    assert {first for _, first, _ in results} <= {0, -1}
    for _, _, found in results:
        assert found.base is not None
        assert np.array_equal(found[1:], 2 * given.numbers[1:])
        found[0] = 5  # the caller may change what it gets
    assert not any(tmp_path.iterdir())


def test_results_without_large_arrays_are_sent_as_they_are(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert carry_out(square, [3], Processes(1)) == [9]
    assert not any(tmp_path.iterdir())
