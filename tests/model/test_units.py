import re
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model import units
from backfill.model.units import MIB, PLAIN, SACCT, SECOND, SLURM, TIME_MAX, parse_size, parse_span, seconds_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("32G", 32 * 2**30),
        ("1.5k", 1536),
        (" 2 TiB ", 2**41),
        ("8.0", 8),
        ("9007199254740993", 2**53 + 1),
    ],
)
def test_a_size_is_a_whole_number_with_a_power_of_1024(text: str, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1.5", "1.5B", "5X", "1e3", "4096P", "nan", "9" * 10_000, "9" * 10_000 + "G"]
)
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(ValueError, match=r"is not a|is too large"):
        parse_size(text)


@given(st.integers(0, 2**62 - 1))
def test_every_whole_number_is_its_own_size(size: int):
    assert parse_size(str(size)) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5h", 5400), ("2d", 172_800), ("10 min", 600), ("1-12:00:00", 129_600), ("0:00:01.5", 1.5)],
)
def test_a_span_of_time_has_many_forms(text: str, seconds: float):
    assert parse_span(text) == seconds * 10**6


@pytest.mark.parametrize(
    ("text", "plain", "slurm", "sacct"),
    [
        ("90", 90, 5400, 90),
        ("1:30", 5400, 90, 90),
        ("1:30:00", 5400, 5400, 5400),
        ("1-12", None, 129_600, 129_600),
        ("1-12:30", 131_400, 131_400, 131_400),
        ("1.5h", 5400, 5400, 5400),
        ("00:01.5", None, None, 1),
        ("1:2:3:4", None, None, None),
    ],
)
def test_what_a_span_without_a_unit_means_depends_on_who_writes_it(text, plain, slurm, sacct):
    for form, seconds in ((PLAIN, plain), (SLURM, slurm), (SACCT, sacct)):
        if seconds is None:
            with pytest.raises(ValueError, match="is not a span of time; expected"):
                parse_span(text, form)
        else:
            assert parse_span(text, form) == seconds * SECOND


def test_memory_without_a_unit_is_bytes_or_as_in_slurm_mebibytes():
    assert (parse_size("512"), parse_size("512", MIB)) == (512, 2**29)
    assert parse_size("1.5", MIB) == parse_size("1.5M") == 3 * 2**19


def test_the_table_of_the_page_says_what_the_parsers_do():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([\d:-]+)` \| (.+) \| (.+) \| (.+) \|$", page.split("### Spans and sizes")[1], re.MULTILINE
    )
    assert len(rows) == 5
    for text, *told in rows:
        for form, said in zip((PLAIN, SLURM, SACCT), told, strict=True):
            if said != "refused":
                assert parse_span(text, form) == sum(
                    parse_span(part.replace(" ", "")) for part in re.findall(r"\d+ \w+", said)
                )


@given(st.integers(-TIME_MAX, TIME_MAX))
def test_seconds_are_written_exactly_and_without_trailing_zeros(micros: int):
    text = seconds_text(micros)
    whole, _, part = text.lstrip("-").partition(".")
    assert int(whole) * 10**6 + int(part.ljust(6, "0")) == abs(micros)
    assert text.startswith("-") == (micros < 0)
    assert not part.endswith("0")
    assert not text.endswith(".")


def test_numbers_and_labels_are_folded():
    assert [units.numbers_text(some) for some in ([3], [3, 4, 5, 9], [1, 3, 5], [2, 1, 4])] == [
        "3", "3-5,9", "1-5:2", "1-2,4"
    ]  # fmt: skip
    assert units.numbers_text([*range(0, 40, 2), 41]).endswith(",14,...")
    assert units.folded_labels([(7, 0, None), (9, 8, 1), (8, 8, 0), (12, 11, 4)]) == ["7", "8_[0-1]", "11_4"]


def test_spans_and_sizes_for_people():
    assert [units.time_text(s * SECOND) for s in (45, 300, 5400, 187_200)] == ["45 s", "5 min", "1 h 30 min", "2 d 4 h"]
    assert [units.clock_text(s * SECOND) for s in (42, 3723, 187_200)] == ["0:42", "1:02:03", "2-04:00:00"]
    assert [units.size_text(n) for n in (0, 2**29, 2**34)] == ["-", "512M", "16G"]


def test_an_amount_in_a_sentence_is_of_one_form_everywhere():
    """The queue said `1 cpus`, `28416 cpus` and `0.5 GiB of memory`, explanations of simulations did not."""
    texts = [units.amount_text(*each) for each in (("cpus", 1), ("gpus", 2), ("cpus", 28_416), ("memory", 2**29))]
    assert texts == ["1 cpu", "2 gpus", "28,416 cpus", "512 MiB of memory"]
    assert units.amount_text("bus", 1) == "1 bus"


def test_an_instant_in_local_time_is_shown_as_exactly_as_it_is_near():
    now = round(datetime(2026, 3, 2, 12, 0, 30).timestamp()) * SECOND
    texts = [units.local_text(now + s * SECOND, now) for s in (90, 3600, 86_400)]
    assert texts == ["12:02:00", "13:00", "2026-03-03 12:00"]
    assert units.bound_text(now + 3600 * SECOND, now) == "13:01"
    assert units.date_text(now) == "2026-03-02 12:00:30"


def test_the_id_of_a_task_has_its_array():
    assert (units.label_text(118, 0, None), units.label_text(118, 112, 3)) == ("118", "112_3")
