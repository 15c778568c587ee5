"""A release is refused while anything about it is open."""

import pytest
from tools.release import problems

DATED = "# Changes\n\n## 0.2.0 (2027-01-31)\n\n* new\n\n## 0.1.0 (2026-12-01)\n"


def test_what_is_committed_dated_and_new_can_be_released():
    assert problems("0.2.0", DATED, "", "v0.1.0\n") == []


@pytest.mark.parametrize(
    ("version", "changelog", "changed", "tags", "told"),
    [
        ("0.2.0", DATED, " M README.md\n?? new.py\n", "", "files are not committed: README.md, new.py"),
        ("0.3.0", DATED, "", "", "begins ## 0.2.0 (2027-01-31); expected ## 0.3.0 (YYYY-MM-DD)"),
        ("0.1.0", DATED, "", "", "begins ## 0.2.0 (2027-01-31); expected ## 0.1.0 (YYYY-MM-DD)"),
        ("0.2.0", DATED.replace("2027-01-31", "unreleased"), "", "", "0.2.0 (unreleased); expected a date"),
        ("0.2.0", "", "", "", "begins without a heading; expected ## 0.2.0"),
        ("0.2.0", DATED, "", "v0.1.0\nv0.2.0\n", "v0.2.0 is already tagged"),
    ],
)
def test_what_is_open_is_told(version, changelog, changed, tags, told):
    (problem,) = problems(version, changelog, changed, tags)
    assert told in problem
