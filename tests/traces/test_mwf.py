"""The MetaCentrum dialects: node specs, tables of machines, and what has to be assumed."""

import gzip
import re

import pytest

from backfill.model.errors import InputError
from backfill.model.platform import Platform
from backfill.model.platform_file import parse_platform
from backfill.model.units import SECOND
from backfill.traces.files import Source
from backfill.traces.formats import Rules, import_log
from backfill.traces.machines import read_machines
from backfill.traces.node_spec import NodeSpec, alea_spec, pbs_spec
from backfill.traces.read import read
from tests.traces.test_swf import line

GIB = 2**30
CLUSTERS = "0 big 2 80 1 529426432\n1 small 3 12 1 94035968\n"  # KB
ALEA = (
    ";id name nodes CPUs speed GB_RAM properties GPUs\n0 cl_old 2 4 1 256 dedicated,ssd 0\n1 cl_1 1 64 2 512 normal 8\n"
)


def mwf(*further: str, **fields: object) -> str:
    return line(**fields).decode().strip() + " " + " ".join(further) + "\n"


def pbs(spec: str, **fields: object) -> str:
    return mwf("{1,1}", "q_1d", spec, **fields)


def raw_lines(path):
    with gzip.open(path, "rt") as lines:
        return [line.split() for line in lines if line.strip() and not line.startswith(";")]


@pytest.fixture
def log(tmp_path):
    def write(*lines: str, machines: str | None = CLUSTERS):
        (tmp_path / "log.swf").write_text("".join(lines))
        if machines is not None:
            (tmp_path / "log.swf.machines").write_text(machines)
        return read(tmp_path / "log.swf")

    return write


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("1:ppn=4", NodeSpec(((1, 4),))),
        ("3", NodeSpec(((3, 1),))),
        ("8:ppn=8:x86_64:cl_small", NodeSpec(((8, 8),), ((("x86_64", True), ("cl_small", True)),))),
        ("1:ppn=64:cl_big#excl", NodeSpec(((1, 64),), ((("cl_big", True),),), whole=True)),
        ("1:ppn=2:^big2.cz:^cl_small", NodeSpec(((1, 2),), ((("big2.cz", False), ("cl_small", False)),))),
        ("big2:ppn=12:brno", NodeSpec(((1, 12),), ((("big2", True), ("brno", True)),))),
        ("1:ppn=1:host=big1", NodeSpec(((1, 1),), ((("big1", True),),))),
        ("1:ppn=1:^host=big1", NodeSpec(((1, 1),), ((("big1", False),),))),
        ("1:ppn=4#excl", NodeSpec(((1, 4),), whole=True)),
        ("1:ppn=6:mem=3gb", NodeSpec(((1, 6),), memory=3 * GIB)),
        ("1:ppn=1.5:brno", NodeSpec(((1, 1),), ((("brno", True),),))),
        ("1:ppn=4+3:ppn=2", NodeSpec(((1, 4), (3, 2)))),
        ("1:ppn=04:a+2:ppn=4:a+1:ppn=4:b", NodeSpec(((1, 4), (2, 4), (1, 4)), ((("a", True),), (("b", True),)))),
    ],
)
def test_a_node_spec_of_pbs(text, spec):
    assert pbs_spec(text) == spec


def test_what_a_node_spec_adds_up_to():
    spec = pbs_spec("1:ppn=4+3:ppn=6")
    assert (spec.nodes, spec.procs, spec.tasks(22)) == (4, 22, 11)  # 11 tasks of 2, which each node has a multiple of
    assert pbs_spec("2:ppn=6+1:ppn=6").tasks(18) == 3
    assert (pbs_spec("8:ppn=1").tasks(4), pbs_spec("3:ppn=2").tasks(5)) == (4, 1)  # they disagree with field 8


def test_a_node_spec_of_alea():
    assert alea_spec("all:4x24") == NodeSpec(((4, 24),))
    assert alea_spec("normal:1x4") == NodeSpec(((1, 4),), ((("normal", True),),))


@pytest.mark.parametrize(
    "text",
    ["", "1:", "1:ppn=0", "0:ppn=1", "1:ppn=x", "1:mem=x", "1:a&b", "1:^", "1:ppn=1:a;b", "1:ppn=1:a:^a", "1:(a)",
     f"1:ppn={'0' * 30}{'9' * 30}", "1000000000:ppn=1000000000"],
)  # fmt: skip
def test_what_is_no_node_spec(text):
    with pytest.raises(ValueError):  # noqa: PT011  # the reader tells file, line and field
        pbs_spec(text)
    with pytest.raises(ValueError):  # noqa: PT011
        alea_spec(text)


@pytest.mark.parametrize("text", ["a:0x1", "all:1x99999999999", "all:1000000000x1000000000", "all:1x4:b", "a&b:1x4"])
def test_what_is_no_node_spec_of_alea(text):
    with pytest.raises(ValueError):  # noqa: PT011
        alea_spec(text)


def test_a_task_sits_on_a_node_with_its_processors_and_memory(log):
    workload = log(pbs("1:ppn=4", f10=5 * GIB), pbs("8:ppn=8:cl_small", f1=2, f8=64, f10=8 * GIB, f16=3))
    jobs = workload.jobs
    assert workload.resources == ("cpus", "memory")
    assert (jobs.tasks.tolist(), jobs.demand.tolist()) == ([1, 8], [[4, 5 * GIB], [8, 8 * GIB]])
    assert [jobs.constraint[row] for row in range(2)] == ["", "cl_small"]
    assert [(jobs.queue[row], jobs.partition[row]) for row in range(2)] == [("q_1d", ""), ("q_1d", "3")]
    assert workload.assumed == {}
    assert "requested memory (field 10) taken as bytes on each node" in workload.notes


def test_nodes_are_named_with_or_without_their_domain_and_what_no_machine_states_is_told(log):
    workload = log(
        pbs("1:ppn=4:brno:^big2.cerit-sc.cz:nodecpus80"), pbs("1:ppn=4:small3", f1=2), pbs("1:ppn=4:^brno", f1=3)
    )
    assert [workload.jobs.constraint[row] for row in range(3)] == ["!big2&nodecpus80", "small3", ""]
    assert workload.assumed["properties that no machine states: taken as held by all"] == 2
    assert "no machine states these properties: brno" in workload.notes
    assert workload.platform.allows("!big2&nodecpus80").tolist() == [True, False, False, False, False]


def test_who_wants_whole_nodes_takes_all_cpus_of_the_largest_that_he_may_run_on(log):
    workload = log(pbs("1:ppn=4:cl_small#excl"), pbs("1:ppn=4:brno#excl", f1=2), pbs("1:ppn=4", f1=3))
    assert workload.jobs.demand[:, 0].tolist() == [12, 80, 4]
    assert workload.assumed["whole nodes (#excl): taken as all cpus of the node"] == 2


def test_chunks_of_unequal_size_are_equal_tasks_with_a_share_of_the_memory(log):
    workload = log(pbs("1:ppn=4+3:ppn=2", f8=10, f10=10 * GIB))  # 4 nodes with 40 GiB, as 5 tasks of 2 cpus
    assert (workload.jobs.tasks.tolist(), workload.jobs.demand.tolist()) == ([5], [[2, 8 * GIB]])
    assert workload.assumed == {"chunks of unequal size: taken as equal tasks": 1}


def test_field_8_counts_where_the_node_spec_says_otherwise_and_the_larger_memory(log):
    workload = log(pbs("2:ppn=4:mem=3gb", f8=5, f10=GIB), pbs("1:ppn=4", f1=2, f10=0))
    assert workload.jobs.procs.tolist() == [5, 4]
    assert (workload.jobs.tasks.tolist(), workload.jobs.demand.tolist()) == ([1, 1], [[5, 6 * GIB], [4, 0]])
    assert workload.assumed == {
        "node spec with more memory than field 10: the node spec is used": 1,
        "node spec that disagrees with field 8: field 8 counts": 1,
        "requested memory missing: taken as 0": 1,
    }


def test_gpus_of_alea_are_shared_out_over_the_nodes(log):
    workload = log(
        mwf("2", "60", "all:2x2", f8=4, f3=0, f10=8 * 2**20),
        mwf("3", "60", "normal:2x2", f1=2, f8=4, f3=0),
        mwf("-1", "60", "ssd:1x4", f1=3, f3=0),
        machines=ALEA,
    )
    jobs = workload.jobs
    assert workload.resources == ("cpus", "memory", "gpus")
    assert jobs.demand.tolist() == [[2, 8 * GIB, 1], [2, 0, 2], [4, 0, 0]]
    assert [jobs.constraint[row] for row in range(3)] == ["", "normal", "ssd"]
    assert workload.assumed["gpus that do not divide evenly among tasks: rounded up in each"] == 1
    assert jobs.waited.tolist() == [-1, -1, -1]
    assert {"all waits (field 3) are 0: taken as unknown", "soft walltimes (field 20) are not used"} < {*workload.notes}


def test_the_table_of_machines_is_the_platform(log):
    platform = log(pbs("1:ppn=4")).platform
    assert platform.nodes == ("big1", "big2", "small1", "small2", "small3")
    assert platform.capacity[[0, 2]].tolist() == [[80, 529426432 * 1024], [12, 94035968 * 1024]]
    assert platform.features[2] == ("cl_small", "nodecpus12")
    fast = read_machines(Source.of(ALEA.encode()))
    assert fast.nodes == ("cl_1-1", "cl_old1", "cl_old2")  # most powerful first; no number against a number
    assert (fast.resources, fast.capacity[0].tolist()) == (("cpus", "memory", "gpus"), [64, 512 * GIB, 8])
    assert fast.features[1] == ("cl_old", "nodecpus4", "dedicated", "ssd")


def test_without_a_table_of_machines_jobs_go_anywhere(log):
    workload = log(pbs("1:ppn=4:cl_big#excl"), machines=None)
    assert (workload.platform, workload.cpus, workload.jobs.constraint.names) == (None, None, ())
    assert workload.jobs.demand[:, 0].tolist() == [4]
    assert workload.assumed == {
        "requested memory missing: taken as 0": 1, "whole nodes (#excl): taken as the cpus asked for": 1,
    }  # fmt: skip
    assert any(note.startswith("no table of machines") for note in workload.notes)


def test_chunks_that_ask_for_different_nodes_may_each_run_on_any_of_them(log):
    workload = log(
        pbs("1:ppn=2:host=big1+1:ppn=2:host=big2"),
        pbs("1:ppn=2:cl_big+1:ppn=2", f1=2),
        pbs("1:ppn=2:brno+1:ppn=2", f1=3),
    )
    assert [workload.jobs.constraint[row] for row in range(3)] == ["big1|big2", "", ""]
    assert workload.assumed["chunks that ask for different nodes: any task may run on all of them"] == 3
    assert workload.assumed["properties that no machine states: taken as held by all"] == 1


def test_a_platform_that_is_named_stands_for_the_table_of_machines(log, tmp_path):
    log(pbs("1:ppn=4:cl_a#excl"), pbs("1:ppn=4:cl_big", f1=2), machines=None)
    nodes = '[[node]]\nname = "a"\ncount = 2\ncpus = 16\nfeatures = ["cl_a"]\n'
    found = read(tmp_path / "log.swf", machines=parse_platform("p.toml", nodes))
    assert [found.jobs.constraint[row] for row in range(2)] == ["cl_a", ""]
    assert found.jobs.demand[:, 0].tolist() == [16, 4]
    one = read(tmp_path / "log.swf", machines=Platform.pool(64))  # a pool has no whole node to take
    assert one.jobs.demand[:, 0].tolist() == [4, 4]


def test_the_table_may_stand_elsewhere(log, tmp_path):
    log(pbs("1:ppn=4:cl_old"), machines=None)
    (tmp_path / "nodes").write_text(ALEA)
    workload = import_log("mwf", str(tmp_path / "log.swf"), Rules(machines=str(tmp_path / "nodes")))
    assert (workload.cpus, workload.jobs.constraint[0]) == (72, "cl_old")
    assert import_log("swf", str(tmp_path / "log.swf")).jobs.tasks.tolist() == [1]  # by its 21 fields


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (pbs("1:ppn=x", f1=2), "2: field 21 (node spec) is '1:ppn=x'; expected a node spec such as 2:ppn=4:property"),
        (pbs("1:ppn=4", f1=2, f4="x"), "2: field 4 (run time) is 'x'; expected a number"),
        (pbs("1:ppn=4"), "2: field 1 (job number) is '1'; expected a unique job number (first used in line 1)"),
        (line(f1=2).decode(), "2: 18 fields; expected 21"),
        (pbs("9:ppn=4+1:ppn=1:mem=1000000T", f1=2, f8=37), "2: field 21 (node spec) is '9:ppn=4+1:ppn=1:mem=1000000T'"),
    ],
)
def test_a_bad_line_is_refused(log, bad, message):
    with pytest.raises(InputError) as caught:
        log(pbs("1:ppn=4"), bad)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (mwf("0" * 20 + "9" * 22, "60", "all:1x4", f1=2), "2: field 19 (gpus) is '00000000000000000000999"),
        (mwf("x", "60", "all:1x4", f1=2), "2: field 19 (gpus) is 'x'; expected a whole number up to 1,000,000,000"),
        (
            mwf("1", "60", "1:ppn=4", f1=2),
            "2: field 21 (node spec) is '1:ppn=4'; expected a node spec such as property",
        ),
    ],
)
def test_a_bad_line_of_alea_is_refused(log, bad, message):
    with pytest.raises(InputError) as caught:
        log(mwf("0", "60", "all:1x4"), bad, machines=ALEA)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 a 1 80 1\n", "1: 5 columns; expected 6 or 8"),
        ("0 a 1 80 1 7\n\n0 b 1 80 1 7 x 0\n", "3: 8 columns; expected 6"),
        ("0 a 0 80 1 7\n", "1: nodes is '0'; expected a number from 1 to 1e+06"),
        ("0 a 1.5 80 1 7\n", "1: nodes is '1.5'; expected a number"),
        ("0 a 1 80 fast 7\n", "1: speed is 'fast'; expected a number"),
        ("0 a&b 1 80 1 7\n", "1: 'a&b'; expected a text without"),
        ("0 a 1000000 80 1 7\n0 b 1 80 1 7\n", "2: more than 1,000,000 nodes up to here"),
        ("; nothing\n", "no machine; expected at least one"),
        ("0 a 1 8 1 7\n1 a 1 8 1 7\n", "two of a1, a1 have the same name"),
    ],
)
def test_a_bad_table_of_machines_is_refused(log, text, message):
    with pytest.raises(InputError) as caught:
        log(pbs("1:ppn=4"), machines=text)
    assert message in str(caught.value)
    assert "log.swf.machines" in str(caught.value)


def test_the_log_of_wagap(shared):
    workload = read(shared / "traces" / "wagap-2013.swf.gz")
    assert (len(workload), workload.cpus, len(workload.platform.nodes)) == (17_898, 2_176, 68)
    assert workload.dropped == {"run time < 0 or unknown": 2}
    assert workload.assumed == {
        "node spec with more memory than field 10: the node spec is used": 14,
        "chunks of unequal size: taken as equal tasks": 12,
        "whole nodes (#excl): taken as all cpus of the node": 231,
        "properties that no machine states: taken as held by all": 6_695,
    }
    assert workload.jobs.job[0] == 0
    raw = {int(cells[0]): cells for cells in raw_lines(shared / "traces" / "wagap-2013.swf.gz")}
    plain = re.compile(r"(\d+)(?::ppn=(\d+))?(?::cl_(\w+))?")
    compared = 0
    for row, job in enumerate(workload.jobs.job.tolist()):
        assert workload.jobs.submit[row] == int(raw[job][1]) * SECOND
        assert workload.jobs.runtime[row] == int(raw[job][3]) * SECOND
        if match := plain.fullmatch(raw[job][20]):
            compared += 1
            assert workload.jobs.tasks[row] == int(match[1])
            assert workload.jobs.demand[row].tolist() == [int(match[2] or 1), int(raw[job][9])]
            assert workload.jobs.constraint[row] == (f"cl_{match[3]}" if match[3] else "")
    assert compared > 10_000
    assert (workload.jobs.walltime[0] // SECOND, workload.jobs.demand[0].tolist()) == (86_400, [80, 64 * GIB])


def test_the_workload_of_alea(shared):
    workload = read(shared / "traces" / "alea-example5-load85.swf.gz")
    jobs = workload.jobs
    assert (len(workload), workload.cpus, int((jobs.demand[:, 2] > 0).sum())) == (34_408, 400, 12_883)
    assert workload.assumed == {}
    for row, cells in enumerate(raw_lines(shared / "traces" / "alea-example5-load85.swf.gz")):
        kind, _, shape = cells[20].partition(":")
        nodes, ppn = map(int, shape.split("x"))
        held = [ppn, int(cells[9]) * 1024, int(cells[18]) // nodes]
        assert (jobs.tasks[row], jobs.demand[row].tolist()) == (nodes, held)
        assert jobs.constraint[row] == ("" if kind == "all" else kind)
    assert int((jobs.constraint.codes >= 0).sum()) == 22_828
