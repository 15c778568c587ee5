"""Every command of the documentation is run, and prints what the page says."""

import os
from contextlib import closing

import pytest

from tests.forks import Forks

from .examples import ROOT, Ran, core_install, missing, pages, run_page


@pytest.fixture(scope="module")
def program():
    """A folder for the search path, with a `backfill` that need not load the core each time."""
    environment = os.environ | core_install(missing("")) | {"NO_COLOR": "1", "COLUMNS": "80"}
    with closing(Forks("simulate", environment)) as forks:
        yield forks.program()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of(page, tmp_path, program):
    text, count = page.read_text(encoding="utf-8"), 0
    for ran in run_page(text, tmp_path, program):
        assert ran.matches, f"$ {ran.command}\n{ran.printed}--- the page says\n{ran.expected}"
        count += 1
    assert count >= text.count("```console"), "a block of commands was not found"


@pytest.mark.parametrize(
    ("expected", "printed", "matches"),
    [
        ("a 1\n", "a 1\n", True),
        ("a 1\n", "a 2\n", False),
        ("a ...\n", "a 2\n", True),
        ("a ...\nb\n", "a 2\nc\nb\n", False),
        ("a\n...\nb\n", "a\nx\ny\nb\n", True),
        ("a\n...\n", "a\n", True),
        ("a.\n", "ab\n", False),
        ("", "a\n", False),
    ],
)
def test_an_ellipsis_stands_for_any_text(expected, printed, matches):
    assert Ran("", expected, printed, slice(0)).matches == matches
