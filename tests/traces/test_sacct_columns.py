"""Dumps of sacct are read column by column; a slow twin reads them line by line, and both say the same."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.model.errors import WorkloadError
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.model.workload import Labels, Ragged
from backfill.traces import files
from backfill.traces.accounting.sacct import read_sacct
from backfill.traces.accounting.slurm import span_of, spans_of
from backfill.traces.dates import Instants, zone_of
from backfill.traces.files import Source
from backfill.traces.fixed import Texts, number, whole_numbers
from tests.reference import sacct as twin

TIMES = ["2026-03-01T12:00:00", "2026-03-01T12:59:59", "2026-03-29T02:30:00", "2026-03-01 12:00:07", "1772366400",
         "1772366460.5", "2026-03-01T12:00:00+01:00", "2026-03-01T12:00+01"]  # fmt: skip
NO_TIMES = ["", "Unknown", "None", "2026-02-30T00:00:00", "2026-03-01T12:00:60", "2026-03-01T24:00:00", "then", "²"]
COLUMNS = {
    "JobID": ["1", "2", "3", "4", "5", "7_1", "7_[2-3]", "7_[x]", "8+0", "8+1", "8+2", "1.batch", "2.0", "x", "٣", ""],
    "JobIDRaw": ["1", "11", "1.extern", ""],
    "User": ["ann", "bob", "", "é"],
    "Account": ["phys", ""],
    "Group": ["staff", ""],
    "Partition": ["main", "gpu"],
    "QOS": ["normal", ""],
    "Submit": [*TIMES, *NO_TIMES],
    "Eligible": [*TIMES, *NO_TIMES],
    "Start": [*TIMES, *TIMES, *NO_TIMES],
    "End": [*TIMES, *TIMES, *NO_TIMES],
    "Elapsed": ["00:01:00", "1-02:03:04", "12-00:00:00", "99:99:99", "03:04", "1-2", "00:00:00", "", "x", "9" * 20],
    "ElapsedRaw": ["60", "0", "", "x", "999999999999"],
    "Suspended": ["00:00:00", "00:00:09", "x", ""],
    "State": [
        "COMPLETED",
        "COMPLETED",
        "CANCELLED by 1000",
        "CANCELLED",
        "RUNNING",
        "PREEMPTED",
        "REQUEUED",
        "REVOKED",
        "OUT_OF_ME+",
        "PERHAPS",
    ],
    "NNodes": ["1", "2", "0", "", "x"],
    "NCPUS": ["8", "9", "0", "", "-1"],
    "ReqCPUS": ["4", ""],
    "ReqMem": ["4Gn", "2000Mc", "2147486648Mn", "62.5G", "", "x"],
    "ReqTRES": ["cpu=4,mem=8G,node=1", "cpu=8,gres/gpu:a100=2", "cpu", "cpu=-1", ""],
    "AllocTRES": ["cpu=4,node=2,gres/gpu=2", "cpu=2,license/lic=2,gres/shard=1", "cpu=x", f"cpu={2**70}", ""],
    "Timelimit": ["01:00:00", "UNLIMITED", "Partition_Limit", "365-00:00:00", "90", "9" * 12, "x", ""],
    "TimelimitRaw": ["60", "", "UNLIMITED", "x"],
    "NodeList": ["n1", "n[1-3]", "n[01-02,7],m1", "None assigned", "", "n[3-1]", "n1,,n1, n2"],
    "Constraints": ["fast", "[fast|x86]", "a&b", "", "a b"],
    "SubmitLine": ["sbatch -n 8", "sbatch --dependency=afterok:1 x", "sbatch -d afterany:7_1:2 y", "a|b", ""],
    "JobName": ["job", "a|b", "a|b|c", ""],
}
NEEDED = ["JobID", "Submit", "Start", "End", "State", "NCPUS"]


@st.composite
def dumps(draw: st.DrawFn) -> str:
    """A dump with some of the columns in any order, most cells sound."""
    more = draw(st.sets(st.sampled_from([name for name in COLUMNS if name not in NEEDED])))
    names = draw(st.permutations([*NEEDED, *sorted(more)]))
    end = draw(st.sampled_from(["", "", "|"]))
    header = "|".join(names) + end
    sound = {name: COLUMNS[name][: max(1, len(COLUMNS[name]) // 2)] for name in COLUMNS}
    lines = [header]
    for _ in range(draw(st.integers(1, 12))):
        strange = draw(st.sets(st.sampled_from(names), max_size=2))
        cells = [draw(st.sampled_from((COLUMNS if name in strange else sound)[name])) for name in names]
        lines.append("|".join(cells) + end)
    lines += draw(st.lists(st.sampled_from([header, "", "1|2", "|" * 40, lines[-1]]), max_size=2))
    return "\n".join(lines) + "\n"


def said(read, *arguments):
    """All that an import gives, as values that can be compared."""

    def plain(value):
        if isinstance(value, Labels):
            return value.codes.tolist(), value.names
        if isinstance(value, Ragged):
            return [plain(each) for each in vars(value).values()]
        return value.tolist() if isinstance(value, np.ndarray) else value

    try:
        found = read(*arguments)
    except WorkloadError as problem:
        return str(problem)
    log = found.on(None)
    machine = log.platform and (log.platform.nodes, log.platform.capacity.tolist(), log.platform.copies.tolist())
    columns = {name: plain(log.jobs[name]) for name in log.jobs}
    return columns, log.resources, log.licences, log.dropped, log.assumed, log.notes, log.clock, machine


@settings(max_examples=max(15, settings.default.max_examples), deadline=None)
@given(dumps(), st.sampled_from([None, "Europe/Berlin"]), st.sampled_from([10, 4 << 20]))
def test_columns_and_lines_say_the_same(text, zone, piece):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "_LOOKED_AT", piece)
        assert said(read_sacct, Source("f", text.encode(), ""), zone) == said(twin.read, text, zone)


@given(st.lists(st.sampled_from([*TIMES, *NO_TIMES, "2026-03-01T12:00:0", "x" * 19])))
def test_a_column_of_instants_is_what_each_of_them_is(texts):
    found, bad, zoneless = Instants(zone_of("Europe/Berlin")).column(texts, ("", "Unknown"))
    for row, text in enumerate(texts):
        one = Instants(zone_of("Europe/Berlin"))
        with suppress(ValueError):
            assert found[row] == (NO_TIME if text in ("", "Unknown") else one(text))
            assert (row in bad, zoneless[row]) == (False, one.zoneless)
            continue
        assert row in bad


@given(st.lists(st.sampled_from(COLUMNS["Elapsed"])))
def test_a_column_of_spans_is_what_each_of_them_is(texts):
    found, bad = spans_of(texts)
    assert bad == [row for row, text in enumerate(texts) if text in ("x", "9" * 20)]
    for row, text in enumerate(texts):
        if text and row not in bad:
            assert found[row] == span_of(text)


def test_digits_at_fixed_places():
    rows, digits = Texts(["12:34", "1:234", "é2:34", "12:3", "/2:34", ":2:34", "56:78"]).digits("00:00")
    assert (rows.tolist(), digits.tolist(), number(digits).tolist()) == (
        [0, 6],
        [[1, 2, 3, 4], [5, 6, 7, 8]],
        [1234, 5678],
    )
    found, bad = whole_numbers(["7", "", "0012", "x", "-1", "123456", "²"], 5)
    assert (found.tolist(), bad) == ([7, -1, 12, -1, -1, -1, -1], [3, 4, 5, 6])


def test_an_amount_beyond_all_bounds_breaks_its_line_and_no_other():
    head = "JobID|State|Submit|Start|End|NCPUS|ReqMem|Timelimit|ElapsedRaw\n"
    line = "{}|COMPLETED|0|10|20|{}|{}|{}|{}\n"
    good = line.format(1, 4, "1G", "01:00:00", 10)
    for beyond in (line.format(2, 10**12 - 1, "9000000000000000000c", "1", 10), line.format(2, 4, "1G", "9" * 30, 10),
                   line.format(2, 4, "1G", "9" * 12, 10), line.format(2, 4, "1G", "1", "9" * 12)):  # fmt: skip
        found = read_sacct(Source("f", (head + good + beyond).encode(), ""), "UTC").workload
        assert (found.jobs.job.tolist(), found.dropped) == (["1"], {"broken line": 1})
        assert found.jobs.runtime.tolist() == [10 * SECOND]


def test_how_much_has_been_read_is_told():
    told: list[float] = []
    text = "JobID|State|Submit|Start|End|NCPUS\n" + "1|COMPLETED|0|1|2|1\n" * 300_000
    read_sacct(Source("f", text.encode(), "", told.append), "UTC")
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(told) > 1
