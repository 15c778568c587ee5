import io

import pytest
from rich.console import Console

from backfill.report.terminal import as_text, result_table, used_table

METRICS = {
    "mean_wait_s": 6836.872,
    "p95_wait_s": 37619.0,
    "mean_bounded_slowdown": 92.5765,
    "utilization": 0.6856,
    "max_queue": 121,
    "killed_jobs": 0,
    "rejected_jobs": 0,
}


def printed(rows, **console) -> list[str]:
    out = io.StringIO()
    Console(**({"file": out, "width": 80} | console)).print(result_table(rows))
    return out.getvalue().splitlines()


def test_policies_are_rows_and_headline_metrics_columns():
    assert [line.split() for line in printed([("easy", METRICS), ("fcfs", METRICS | {"mean_wait_s": None})])] == [
        ["mean", "p95", "bounded", "max"],
        ["policy", "wait", "wait", "slowdown", "utilization", "queue"],
        ["─" * len(printed([("easy", METRICS)])[2])],
        ["easy", "1.90", "h", "10.4", "h", "92.58", "68.6%", "121"],
        ["fcfs", "-", "10.4", "h", "92.58", "68.6%", "121"],
    ]


def test_every_result_is_one_line_of_at_most_80_columns_however_long_its_name_is():
    crowded = METRICS | {"max_queue": 1_234_567, "killed_jobs": 1_234_567, "rejected_jobs": 10, "mean_wait_s": 9e7}
    lines = printed([("slack:factor=3,window=12h,order=f1", crowded), ("y" * 200, crowded), ("easy", crowded)])
    assert len(lines) == 6
    assert max(map(len, lines)) <= 80
    assert all("1,234,567" in line and "1,041.7 d" in line for line in lines[3:])


def test_names_that_would_be_alike_once_cut_go_on_below():
    crowded = METRICS | {"max_queue": 1_234_567, "killed_jobs": 1_234_567, "rejected_jobs": 10, "mean_wait_s": 9e7}
    names = ["bf-mod:age_factor=0", "bf-mod:age_factor=3"]
    lines = printed([(name, crowded) for name in names])
    first = "".join(line[:7].strip() for line in lines[3:])
    assert max(map(len, lines)) <= 80
    assert first == "".join(names)


@pytest.mark.parametrize("name", ["[red]x[/red]", "[/]"])
def test_markup_in_a_name_is_text(name):
    assert printed([(name, METRICS)])[3].startswith(name)


def test_control_characters_do_not_reach_the_terminal():
    assert printed([("a\x1b[31m\nb", METRICS)])[3].startswith("a?[31m?b")


def test_without_colours_or_a_terminal_the_text_is_plain():
    assert "\x1b" not in "".join(printed([("easy", METRICS)]))
    plain = printed([("easy", METRICS)], force_terminal=True, no_color=True, color_system="truecolor")
    assert not any(code in "".join(plain) for code in ("\x1b[3", "\x1b[9"))


def test_no_results_are_an_empty_table():
    assert len(printed([])) == 3


SEVERAL = METRICS | {
    "utilization_memory": 0.316, "utilization_gpus": 0.8, "imbalance": 1.2694,
    "fragmentation_cpus": 0.001, "fragmentation_memory": 0.0821, "fragmentation_gpus": None,
}  # fmt: skip


def test_several_resources_have_a_table_of_their_use():
    title, table = used_table([("easy", SEVERAL), ("ibb", SEVERAL | {"imbalance": None})])
    assert title == "held on average, and in brackets free but unusable"
    lines = as_text(table).splitlines()
    assert [line.split() for line in lines] == [
        ["policy", "cpus", "memory", "gpus", "imbalance"],
        ["─" * len(lines[1])],
        ["easy", "68.6%", "(0.1%)", "31.6%", "(8.2%)", "80.0%", "(-)", "1.269"],
        ["ibb", "68.6%", "(0.1%)", "31.6%", "(8.2%)", "80.0%", "(-)", "-"],
    ]
    assert used_table([("easy", METRICS)]) is None
    assert used_table([("easy", SEVERAL | {"utilization": None})]) is None  # nobody is in the metrics


def test_of_many_resources_those_are_told_that_are_used_most():
    many = METRICS | {"utilization": 0.01, "imbalance": 2.0}
    many |= {f"utilization_{'long' * 9}{k}": k / 20 for k in range(1, 13)}
    title, table = used_table([("easy" * 9, many)])
    lines = as_text(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["policy", "longlon…long10", "longlon…long11", "longlon…long12", "imbalance"]
    assert title.endswith("; 10 more in --json")


def test_markup_and_control_characters_in_the_name_of_a_resource_are_text():
    _, table = used_table([("easy", SEVERAL | {"utilization_[/b]": 0.9, "utilization_a\x1b[1m": 0.8})])
    assert {"[/b]", "a?[1m"} < {*as_text(table).splitlines()[0].split()}
