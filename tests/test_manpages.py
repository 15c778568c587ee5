"""The manual pages say what --help says, and are readable."""

import shutil
import subprocess

import pytest
from tools.manpages import FOLDER, page, pages


def test_each_command_has_its_page_as_python_m_tools_manpages_writes_it():
    expected = {f"{name.replace(' ', '-')}.1": text for name, text in pages().items()}
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == expected


def test_lines_that_roff_would_take_for_its_own_are_shown():
    text = page("backfill x", "Usage: backfill x\n\n  .Sh it is. And more.\n\nOptions:\n  'a  a\\b\n")
    lines = text.splitlines()
    assert lines[2] == "backfill\\-x \\- .Sh it is"
    assert "\\&.Sh it is. And more." in lines
    assert "\\&'a  a\\eb" in lines


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_a_page_without_a_warning():
    words = ["man", "--warnings", "-P", "cat", "-l", str(FOLDER / "backfill-submit.1")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "EXAMPLES\n       backfill submit --time 2h" in done.stdout
