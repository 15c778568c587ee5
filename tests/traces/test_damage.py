"""No file, however damaged, ends in a traceback: every reader answers with jobs, or with one line about the file."""

import contextlib
import io

import pytest
from hypothesis import given, settings

from backfill.cli import main
from backfill.model.errors import InputError, NotLawful, UsageError
from backfill.traces.inventory import read_platform
from backfill.traces.read import read
from tests.traces import damage

CASES = settings(max_examples=max(10, settings.default.max_examples // 4))
ENDS = (0, UsageError.exit_code, InputError.exit_code, NotLawful.exit_code)


def answer(*words: str) -> int:
    """The exit code of a command, which is one of those that a file may lead to, with a line that says why."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    assert code in ENDS, err.getvalue()
    if code:
        last = err.getvalue().splitlines()[-1]
        assert last.startswith("backfill: ")
        assert last.removeprefix("backfill: ").strip()
        assert len(last) < 600
    return code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damage")


@pytest.mark.parametrize("name", damage.LOGS)
def test_import_answers_and_its_copy_can_be_read(folder, name):
    format, text, *words = damage.LOGS[name]
    log, copy = folder / f"{format}.log", folder / f"{format}.csv"
    log.write_text(text)
    words = ["import", format, str(log), "--out", str(copy), "-q", *words]
    assert answer(*words) == 0

    @CASES
    @given(damage.damaged(text))
    def law(data: bytes) -> None:
        log.write_bytes(data)
        if answer(*words) == 0:
            read(copy)

    law()


@pytest.mark.parametrize("name", damage.PLATFORMS)
def test_a_platform_answers_and_its_copy_can_be_read(folder, name):
    log, machine, copy = folder / "jobs.csv", folder / "machine", folder / "copy.csv"
    log.write_text("job,submit,runtime\na,0,5\n")
    machine.write_text(damage.PLATFORMS[name])
    words = ["import", "csv", str(log), "--platform", str(machine), "--out", str(copy), "-q"]
    assert answer(*words) == 0

    @CASES
    @given(damage.damaged(damage.PLATFORMS[name]))
    def law(data: bytes) -> None:
        machine.write_bytes(data)
        copy.with_suffix(".toml").unlink(missing_ok=True)
        if answer(*words) == 0 and copy.with_suffix(".toml").exists():
            read_platform(copy.with_suffix(".toml"))

    law()


@pytest.mark.parametrize("name", damage.TABLES)
def test_tables_of_machines_schedules_runs_and_events_answer(folder, name):
    texts, words = damage.TABLES[name]
    for file, text in texts.items():
        (folder / file).write_text(text)
    words = [str(folder / word) if word in texts else word for word in words]
    file = name.partition(" ")[0]
    assert answer(*words) in ENDS

    @CASES
    @given(damage.damaged(texts[file]))
    def law(data: bytes) -> None:
        (folder / file).write_bytes(data)
        answer(*words)

    law()


def test_parquet_answers_and_its_copy_can_be_read(folder):
    log, copy = folder / "jobs.parquet", folder / "parquet.csv"

    @CASES
    @given(damage.parquet())
    def law(data: bytes) -> None:
        log.write_bytes(data)
        if answer("import", "csv", str(log), "--out", str(copy), "-q") == 0:
            read(copy)

    law()
