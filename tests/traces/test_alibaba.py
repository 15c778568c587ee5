"""The GPU trace of Alibaba: pods and nodes, small ones made here, and the published ones where they are at hand."""

import csv
import gzip

import pytest

from backfill.model.errors import InputError
from backfill.model.units import SECOND
from backfill.traces.formats import Rules, import_log
from backfill.worlds.simulated import simulate
from tests.compiled import policy

GIB = 2**30
NODES = """sn,cpu_milli,memory_mib,gpu,model
a-1,32000,262144,0,
a-2,64500,1024,2,T4
a-3,8000,1024,1,V100
"""
HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
PODS = """p0,12000,1024,1,1000,,LS,Running,0,100,5
p1,152,512,1,460,T4|V100,BE,Failed,10,20,10
p2,1000,0,2,1000,T4,LS,Pending,20,100,
p3,1000,0,2,1000,T4,LS,Succeeded,30,30,30
"""


@pytest.fixture
def pods(tmp_path):
    def get(text: str, nodes: str | None = NODES):
        (tmp_path / "pods.csv").write_text(HEADER + text)
        (tmp_path / "nodes.csv").write_text(nodes or "")
        machines = None if nodes is None else str(tmp_path / "nodes.csv")
        return import_log("alibaba", str(tmp_path / "pods.csv"), Rules(machines=machines))

    return get


def test_a_pod_is_a_job_of_one_task_from_its_start_to_its_deletion(pods):
    workload = pods(PODS)
    jobs = workload.jobs
    assert workload.resources == ("cpus", "memory", "gpu_milli")
    assert jobs.job.tolist() == ["p0", "p1", "p3"]
    assert jobs.demand.tolist() == [[12, GIB, 1000], [1, GIB // 2, 460], [1, 0, 2000]]
    assert (jobs.submit // SECOND).tolist() == [0, 10, 30]
    assert (jobs.runtime // SECOND).tolist() == (jobs.walltime // SECOND).tolist() == [95, 10, 0]
    assert (jobs.waited // SECOND).tolist() == [5, 0, 0]
    assert [jobs.constraint[row] for row in range(3)] == ["", "T4|V100", "T4"]
    assert [(jobs.qos[row], jobs.status[row]) for row in range(3)] == [
        ("LS", "running"), ("BE", "failed"), ("LS", "succeeded"),
    ]  # fmt: skip
    assert workload.dropped == {"never scheduled": 1}
    assert workload.assumed == {
        "walltime missing: the run time is used": 3,
        "fractional cpus: rounded up": 1,
        "running when the trace ends: its run may be cut short": 1,
    }
    assert "cpus rounded up to whole ones are 6.4% more" in workload.notes  # 14 for 13.152


def test_nodes_have_the_model_of_their_gpus_as_a_feature(pods):
    workload = pods(PODS)
    platform = workload.platform
    assert platform.nodes == ("a-1", "a-2", "a-3")
    assert platform.capacity.tolist() == [[32, 256 * GIB, 0], [64, GIB, 2000], [8, GIB, 1000]]
    assert platform.features == ((), ("T4",), ("V100",))
    schedule = simulate(workload, platform, *policy("easy")).schedule
    assert [schedule.node_text(row) for row in range(3)] == ["a-2", "a-3", "a-2"]


def test_a_pod_that_stands_twice_or_ends_before_it_starts_is_dropped(pods):
    workload = pods(PODS + "p0,1000,0,0,0,,LS,Failed,40,50,45\np4,1000,0,0,0,,LS,Failed,40,50,60\n", nodes=None)
    assert workload.dropped == {
        "never scheduled": 1, "no end after its start": 1, "duplicate job id": 1,
    }  # fmt: skip
    assert (workload.platform, workload.cpus) == (None, None)


@pytest.mark.parametrize(
    ("pod", "nodes", "message"),
    [
        (",1,0,0,0,,LS,Failed,40,50,45", NODES, "pods.csv:6: name is ''; expected a text"),
        (
            "p9,1,0,1000000000000,1,,LS,Failed,40,50,45",
            NODES,
            "pods.csv:6: num_gpu is '1000000000000'; expected a whole",
        ),
        ("p9,x,0,0,0,,LS,Failed,40,50,45", NODES, "pods.csv:6: cpu_milli is 'x'; expected a whole number"),
        ("p9,1,0,0,0,a&,LS,Failed,40,50,45", NODES, "pods.csv: constraint is 'a&'; expected features"),
        ("p9,1,0,0,0,,LS,Failed,40,50,45", "sn,gpu\nx,1\n", "nodes.csv:1: no column cpu_milli"),
        ("p9,1,0,0,0,,LS,Failed,40,50,45", NODES + "a-1,1,1,1,\n", "nodes.csv: nodes: two of a-1, a-2"),
        ("p9,1,0,0,0,,LS,Failed,40,50,45", NODES + "a-4,1,1,one,\n", "nodes.csv:5: gpu is 'one'; expected a whole"),
    ],
)
def test_bad_tables_are_refused(pods, pod, nodes, message):
    with pytest.raises(InputError) as caught:
        pods(PODS + pod + "\n", nodes)
    assert message in str(caught.value)


def test_the_published_tables(shared):
    folder = shared / "traces"
    workload = import_log(
        "alibaba",
        str(folder / "alibaba-gpu2023-openb_pod_list_gpuspec33.csv.gz"),
        Rules(machines=str(folder / "alibaba-gpu2023-openb_node_list_all_node.csv.gz")),
    )
    assert (len(workload), workload.cpus, len(workload.platform.nodes)) == (7_255, 125_514, 1_523)
    assert int(workload.platform.capacity[:, 2].sum()) == 6_212_000
    assert workload.dropped == {"never scheduled": 897}
    assert workload.assumed["running when the trace ends: its run may be cut short"] == 34
    with gzip.open(folder / "alibaba-gpu2023-openb_pod_list_gpuspec33.csv.gz", "rt") as file:
        raw = [pod for pod in csv.DictReader(file) if pod["scheduled_time"]]
    jobs = workload.jobs
    for row, pod in enumerate(raw):
        assert jobs.job[row] == pod["name"]
        assert jobs.submit[row] == int(pod["creation_time"]) * SECOND
        assert jobs.runtime[row] == (int(pod["deletion_time"]) - int(pod["scheduled_time"])) * SECOND
        gpus = int(pod["num_gpu"]) * int(pod["gpu_milli"])
        assert jobs.demand[row].tolist() == [-(-int(pod["cpu_milli"]) // 1000), int(pod["memory_mib"]) << 20, gpus]
        assert jobs.constraint[row] == pod["gpu_spec"]
    assert len(workload.jobs.constraint.names) == 16
