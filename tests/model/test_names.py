import re
import subprocess
import sys
from pathlib import Path

import pytest

import backfill
from backfill.model.names import did_you_mean, nearest

KNOWN = ("easy", "easy-sjbf", "fcfs", "mean_wait_s")


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("eazy", "easy"),
        ("EASY", "easy"),
        ("easy_sjbf", "easy-sjbf"),
        ("mean-wait", "mean_wait_s"),
        ("--easy", "easy"),
        ("backfill", ""),
        ("", ""),
    ],
)
def test_the_nearest_name_is_found_whatever_the_case_and_the_dashes(typed: str, near: str):
    assert nearest(typed, KNOWN) == near


def test_a_hint_gives_the_nearest_name_or_else_all_of_them():
    assert did_you_mean("eazy", KNOWN) == "did you mean easy?"
    assert did_you_mean("eazy", iter(KNOWN), "expected a policy") == "did you mean easy?"
    assert did_you_mean("x", KNOWN) == "known: easy, easy-sjbf, fcfs, mean_wait_s"
    assert did_you_mean("x", ()) == "known: none"
    assert did_you_mean("x", KNOWN, "expected a policy") == "expected a policy"


def test_a_client_that_makes_no_mistake_loads_no_difflib():
    code = "import sys, backfill.client.options; print('difflib' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_only_one_module_computes_nearest_names():
    own = re.compile(r"get_close_matches|difflib")
    root = Path(backfill.__file__).parent
    files = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if own.search(path.read_text())}
    assert files == {"model/names.py", "compiler/explain.py"}  # which names the fields of the State by itself


def test_a_name_that_is_hardly_alike_is_not_offered():
    assert nearest("array", ("retry",)) == ""
    assert nearest("--tme", ("--ties",)) == ""
