"""The grid paper reproduced: theory without gangs, numbers near those of another program, claims by intervals."""

import numpy as np
import pytest

from backfill.papers import grid
from backfill.papers.asked import Asked
from backfill.papers.grid_claims import SITE, SPAN, policy
from backfill.papers.grid_runs import COMPLETED, LATE, REFERENCE, RT, WAIT, WRT, Cell, run
from backfill.papers.waiting_lines import join_shortest_queue, mean_wait
from backfill.papers.write import write
from backfill.workloads.grid import POWERS, UNIFORM


def test_erlangs_formula_for_one_server_and_for_two():
    assert mean_wait(0.5, 1, 1) == pytest.approx(1)
    assert mean_wait(1, 1, 2) == pytest.approx(1 / 3)


def test_one_server_is_a_queue_in_order_of_arrival():
    assert join_shortest_queue([0, 1, 2], [5, 1, 4], 1, 0) == [0, 4, 4]
    assert join_shortest_queue([0, 1, 2, 3], [5, 5, 1, 1], 2, 0)[:2] == [0, 0]


@pytest.mark.parametrize("name", [SITE, SPAN])
def test_without_gangs_sites_join_the_shortest_queue(name):
    """The waits differ by who is drawn among equals alone; with one server by nothing."""
    found = run(Cell.of([name], seed=1, local=12, gangs=0))[name]
    assert found[WAIT] == pytest.approx(found[REFERENCE], rel=0.1)
    assert found[WAIT] > mean_wait(12, 1, 16) * 0.9
    single = run(Cell.of([name], seed=1, local=0.7, gangs=0, processors=1))[name]
    assert single[WAIT] == single[REFERENCE]


@pytest.mark.parametrize(
    ("sizes", "local", "site", "span"),
    [
        (UNIFORM, 8, (1.0, 1.18, 1.4), (1.0, 1.17, 1.4)),
        (POWERS, 13, (0.884, 2.04, 65), (0.939, 2.15, 44)),
    ],
)
def test_numbers_lie_near_those_of_another_program(sizes, local, site, span):
    """Completion, RT and WRT of two runs of it; the last is that of a queue that is nearly unstable."""
    found = [run(Cell.of([SITE, SPAN], seed=seed, local=local, gangs=0.5, sizes=sizes)) for seed in range(2)]
    for name, wanted in ((SITE, site), (SPAN, span)):
        assert sum(each[name][LATE] for each in found) == 0
        values = [np.mean([each[name][metric] for each in found]) for metric in (COMPLETED, RT, WRT)]
        assert values[0] == pytest.approx(wanted[0], abs=0.05)
        assert values[1] == pytest.approx(wanted[1], rel=0.1)
        assert values[2] == pytest.approx(wanted[2], rel=0.7)


def test_a_large_tolerance_starves_gangs():
    found = run(Cell.of([SPAN, policy(SPAN, 2)], seed=1, local=12, gangs=0.5, sizes=POWERS))
    assert found[policy(SPAN, 2)][COMPLETED] < found[SPAN][COMPLETED] - 0.2
    assert found[policy(SPAN, 2)][LATE] > 0


def test_the_page_has_all_figures_and_claims(tmp_path, monkeypatch):
    monkeypatch.setattr("backfill.papers.grid_runs.ARRIVALS", 3_000)
    monkeypatch.setattr("backfill.papers.grid.LOCAL", (8, 12, 13))
    monkeypatch.setattr("backfill.papers.grid_claims.LOCAL", (8, 12, 13))
    monkeypatch.setattr("backfill.papers.grid.STARVED", (12, 13))
    found = grid.reproduce(Asked(replications=2, quick=True, sensitivity=True))
    second = [claim.id for claim in found.claims if "," in claim.id]
    assert second[:3] == ["F2.2, cross=idle", "F2.4a, cross=idle", "F2.5a, cross=idle"]
    assert len(second) == 6
    assert [claim.id for claim in found.claims if "," not in claim.id] == [
        "F2.1", "F2.2", "F2.3", "F2.4a", "F2.4b", "F2.5a", "F2.5b", "F2.6a", "F2.6b", "F2.7a", "F2.7b", "F2.7c"
    ]  # fmt: skip
    assert found.claims[9].held
    names = [figure.name for figure in found.figures]
    assert names[:6] == [f"figure-{number}" for number in range(2, 8)]
    assert {"starvation-gang-site", "starvation-gang-span", "tolerance-wrt", "warm-up"} <= {*names}
    write(found, tmp_path)
    assert "Quick look" in (tmp_path / "index.html").read_text(encoding="utf-8")
