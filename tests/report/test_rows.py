import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backfill as bf
from backfill.report.rows import Holes, lanes, lay_out

WORKLOADS = st.builds(
    lambda seed, nodes: (bf.generate(f"lublin?jobs=60&cpus=16&seed={seed}"), bf.Platform.pool(16, nodes=nodes)),
    st.integers(0, 10_000),
    st.sampled_from([1, 4]),
)


def test_a_job_gets_the_lowest_hole_that_takes_it_whole_else_pieces():
    holes = Holes(0, 10)
    assert holes.take(2) == [(0, 2)]
    assert holes.take(3) == [(2, 5)]
    assert holes.take(2) == [(5, 7)]
    holes.give(0, 2)
    assert holes.take(3) == [(7, 10)]
    holes.give(5, 7)
    assert holes.take(3) == [(0, 2), (5, 6)]
    assert (holes.low, holes.high) == ([6], [7])


def test_holes_that_meet_become_one():
    holes = Holes(0, 6)
    for low in (0, 2, 4):
        assert holes.take(2) == [(low, low + 2)]
    holes.give(0, 2)
    holes.give(4, 6)
    holes.give(2, 4)
    assert (holes.low, holes.high) == ([0], [6])


@given(WORKLOADS)
def test_every_job_has_its_rows_and_no_two_share_one(case):
    workload, pool = case
    result = bf.simulate(workload, pool, policy="easy")
    schedule, pieces = result.schedule, lay_out(workload, pool, result.schedule)
    rows = np.bincount(pieces[:, 0], pieces[:, 2] - pieces[:, 1], len(workload))
    assert (rows == np.where(schedule.ran, workload.jobs.procs, 0)).all()
    for job, low, high in pieces.tolist():
        others = pieces[(pieces[:, 1] < high) & (pieces[:, 2] > low) & (pieces[:, 0] != job), 0]
        apart = (schedule.end[others] <= schedule.start[job]) | (schedule.start[others] >= schedule.end[job])
        assert apart.all()


def test_licences_have_rows_below_those_of_the_nodes():
    farm = bf.generate("farm?machines=6&licences=3&jobs=60&interarrival=30&seed=2")
    platform, result = farm.platform, bf.simulate(farm, policy="bf-mod")
    names, floor = lanes(farm, platform)
    assert names == [*platform.nodes, *platform.licences]
    pieces = lay_out(farm, platform, result.schedule)
    lane = np.searchsorted(floor, pieces[:, 1], side="right") - 1
    assert (pieces[:, 2] <= floor[lane + 1]).all()
    held = np.zeros((len(farm), 3), np.int64)
    below = lane >= 6
    np.add.at(held, (pieces[below, 0], lane[below] - 6), (pieces[:, 2] - pieces[:, 1])[below])
    asked = [np.bincount(farm.jobs.licences[job], minlength=3).tolist() for job in range(len(farm))]
    assert held.tolist() == asked
    for job, low, high in pieces[below].tolist():
        others = pieces[(pieces[:, 1] < high) & (pieces[:, 2] > low) & (pieces[:, 0] != job), 0]
        s = result.schedule
        assert ((s.end[others] <= s.start[job]) | (s.start[others] >= s.end[job])).all()


def test_licences_that_stay_on_nodes_have_rows_and_usage_too(tmp_path):
    (tmp_path / "lab.toml").write_text(
        '[[node]]\nname = "a"\ncount = 2\ncpus = 4\nnode_licences = {render = 1}\n'
        '[[licence]]\nname = "mesh"\ncopies = 2\n'
    )
    (tmp_path / "jobs.csv").write_text(
        "job,submit,runtime,tasks,cpus,render,licences\na,0,100,1,2,,render:1\nb,0,100,2,1,1,\nc,0,50,1,2,,mesh:1\n"
    )
    lab = bf.Platform.read(tmp_path / "lab.toml")
    log = bf.read(tmp_path / "jobs.csv", resources=lab.resources)
    assert lab.all_licences == {"mesh": 2, "render": 2}
    result = bf.simulate(log, lab, policy="easy")
    assert result.schedule.start.tolist() == [0, 100 * 10**6, 0]  # b, a gang that asks by a column, needs both
    names, floor = lanes(log, lab)
    assert (names, floor.tolist()) == (["a1", "a2", "mesh", "render"], [0, 4, 8, 10, 12])
    below = [(job, low) for job, low, _ in lay_out(log, lab, result.schedule).tolist() if low >= 8]
    assert below == [(0, 10), (2, 8), (1, 10)]
    assert result.metrics["licence_usage"] is None  # from the first submit to the last there is no time


@pytest.mark.parametrize("nodes", [1, 4])
def test_rows_lie_on_the_nodes_of_the_job(nodes):
    workload, pool = bf.generate("lublin?jobs=200&cpus=16&seed=3"), bf.Platform.pool(16, nodes=nodes)
    schedule = bf.simulate(workload, pool, policy="easy").schedule
    per_node = 16 // nodes
    for job, low, high in lay_out(workload, pool, schedule).tolist():
        held = schedule.held[job].reshape(-1, 2)[:, 0]
        assert low // per_node in held
        assert (high - 1) // per_node == low // per_node
