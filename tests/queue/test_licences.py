"""What the command of a licence prints."""

import sys

import pytest

from backfill.daemon.licences import Licence, ask, counts
from tests.patience import completed


def licence(*command, timeout=60.0):
    return Licence("matlab", [*command], 30, timeout, margin=1)


def test_what_others_use_is_not_ours():
    one = licence("true")
    one.hear("comsol 5 5\nmatlab 10 7\n", held=3)
    assert (one.others, one.ours) == (4, 5)
    one.hear("matlab 10 2\n", held=3)  # the server is behind
    assert (one.others, one.ours) == (0, 9)
    one.fail("it is down")
    assert (one.ours, one.failures) == (9, 1)


@pytest.mark.parametrize("text", ["", "matlab", "matlab 5", "matlab x 3", "matlab -1 3", "other 5 3", "matlab 5 3 1"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="printed no line `matlab TOTAL USED`"):
        counts(text, "matlab")


@pytest.mark.parametrize(
    ("code", "timeout", "said"),
    [
        ("raise SystemExit(3)", 30, "failed with exit code 3"),
        ("import time; time.sleep(30)", 0.2, "took longer than 0.2 s"),
        ("print('x' * 100_000)", 30, "more than 64 KiB"),
    ],
)
def test_a_command_that_fails_says_how(code, timeout, said):
    with pytest.raises(ValueError, match=said):
        completed(ask(licence(sys.executable, "-c", code, timeout=timeout)))
    with pytest.raises(ValueError, match="No such file"):
        completed(ask(licence("/no/such/command")))
