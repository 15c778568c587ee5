from pathlib import Path

import pytest

from tests.papers.rlscheduler import Job, Setup, mean_bounded_slowdown, read_log, table_value

LUBLIN_1 = Path(__file__).parents[2].parent / "shared" / "traces" / "lublin_256.swf.gz"


@pytest.fixture(scope="module")
def lublin_1() -> list[Job]:
    if not LUBLIN_1.exists():
        pytest.skip("needs the archive's lublin_256")
    return read_log(LUBLIN_1)


@pytest.mark.parametrize(
    ("heuristic", "backfill", "printed"),
    [
        ("FCFS", False, 7273.77),
        ("SJF", False, 277.35),
        ("F1", False, 258.37),
        ("WFP3", False, 19753.53),
        ("UNI", False, 22274.74),
        ("FCFS", True, 235.82),
        ("SJF", True, 73.31),
        ("F1", True, 75.07),
        ("WFP3", True, 133.87),
        ("UNI", True, 307.23),
    ],
)
def test_the_printed_digits_come_out(lublin_1, heuristic, backfill, printed):
    slip = heuristic in ("WFP3", "UNI")
    setup = Setup(heuristic=heuristic, backfill=backfill, nodes=256, wait_bug=slip)
    assert table_value(lublin_1, setup) == pytest.approx(printed, abs=0.005)


@pytest.mark.parametrize("heuristic", ["WFP3", "UNI"])
def test_with_true_waits_the_printed_digits_do_not_come_out(lublin_1, heuristic):
    assert table_value(lublin_1, Setup(heuristic=heuristic, backfill=False, nodes=256)) < 10_000


def jobs(table: str) -> list[Job]:
    rows = [line.split() for line in table.strip().splitlines()]
    return [Job(row, *map(int, columns)) for row, columns in enumerate(rows)]


def test_a_job_once_chosen_is_not_displaced_by_a_shorter_one_that_arrives_later():
    table = jobs("""
        0 100 100 4
        1  50  50 4
        2  10  10 4
    """)
    # submit, runtime, walltime, procs. Starts 0, 100, 150.
    setup = Setup(heuristic="SJF", backfill=False, nodes=4)
    assert mean_bounded_slowdown(table, setup) == pytest.approx((1 + 149 / 50 + 158 / 10) / 3)


def test_a_job_backfills_only_if_it_ends_strictly_before_the_shadow_time():
    table = jobs("""
        0 100 100 3
        1  50  50 4
        2  98  98 1
        3  96  96 1
    """)
    # The second waits until 100; the third would end at 100 and waits for it; the last ends at 99.
    waits = (0, 99, 148, 0)
    expected = sum((w + j.runtime) / j.runtime for w, j in zip(waits, table, strict=True)) / 4
    setup = Setup(heuristic="FCFS", backfill=True, nodes=4)
    assert mean_bounded_slowdown(table, setup) == pytest.approx(expected)


def test_nodes_are_given_whole():
    table = jobs("""
        0 100 100 1
        0 100 100 1
    """)
    setup = Setup(heuristic="FCFS", backfill=False, nodes=1, procs_per_node=2)
    assert mean_bounded_slowdown(table, setup) == pytest.approx(1.5)


def test_the_log_is_read_as_the_published_loader_does(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(
        "; Version: 2\n"
        "1 5 -1 -1 4 -1 -1 8 60 -1 1 -1 -1 -1 0 -1 -1 -1\n"
        "2 6 -1  0 4 -1 -1 4 60 -1 1 -1 -1 -1 0 -1 -1 -1\n"
        "3 7 -1 30 4 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n"
    )
    assert read_log(path) == [Job(0, 5, 10, 60, 8), Job(1, 7, 30, 30, 4)]
