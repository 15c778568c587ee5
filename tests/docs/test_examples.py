"""Every command of the documentation is run, and prints what the page says."""

import pytest

from .examples import ROOT, Ran, pages, run_page


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of(page, tmp_path):
    text, commands = page.read_text(encoding="utf-8"), 0
    for ran in run_page(text, tmp_path):
        assert ran.matches, f"$ {ran.command}\n{ran.printed}--- the page says\n{ran.expected}"
        commands += 1
    assert commands >= text.count("```console"), "a block of commands was not found"


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
