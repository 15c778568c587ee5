"""Platforms out of what scontrol, sinfo, pbsnodes and condor_status print."""

import json
from pathlib import Path

import pytest

from backfill.model.errors import PlatformError
from backfill.model.platform import Platform
from backfill.traces.inventory import read_platform
from tests.traces.jobs import SHARED, needs_logs

HERE = Path(__file__).parent / "slurm"
MIB = 2**20


@pytest.fixture
def platform(tmp_path):
    def get(text: str) -> Platform:
        (tmp_path / "nodes.txt").write_text(text)
        return read_platform(tmp_path / "nodes.txt")

    return get


def partitions(platform):
    return {each.name: [platform.nodes[k] for k in each.nodes] for each in platform.partitions}


def test_scontrol_tells_nodes_their_features_gpus_and_partitions():
    found = read_platform(HERE / "nodes.txt")
    assert (found.name, found.nodes, found.resources) == ("nodes", ("n1", "n2", "n3", "n4"), ("cpus", "memory", "gpus"))
    assert found.capacity.tolist() == [[16, 64000 * MIB, 2]] * 4
    assert found.features == (("fast", "x86", "a100"),) * 4
    four = ["n1", "n2", "n3", "n4"]
    assert partitions(found) == {"main": four, "short": ["n1", "n2"], "low": four}
    main, short, _ = found.partitions
    assert (main.default, main.max_walltime, short.default) == (True, 0, False)
    assert (short.max_walltime, short.default_walltime, short.priority) == (1800 * 10**6, 300 * 10**6, 9.0)
    assert found.to_toml().count("[[node]]") == 1  # equal nodes share a table


@pytest.mark.parametrize("name", ["sinfo.txt", "sinfo.json"])
def test_sinfo_tells_the_same_nodes(name):
    found, told = read_platform(HERE / name), read_platform(HERE / "nodes.txt")
    assert (found.nodes, partitions(found)) == (told.nodes, partitions(told))
    assert found.capacity[:, :2].tolist() == told.capacity[:, :2].tolist()


def test_sinfo_with_separators_and_lists_of_nodes(platform):
    found = platform(
        "NODELIST|CPUS|MEMORY|GRES|PARTITION|AVAIL_FEATURES\nn[01-02]|64+|512000+|gpu:a100:4(S:0-1)|gpu*|ib,new\n"
    )
    assert found.nodes == ("n01", "n02")
    assert found.capacity.tolist() == [[64, 512000 * MIB, 4]] * 2
    assert (found.features[0], partitions(found)) == (("ib", "new", "a100"), {"gpu": ["n01", "n02"]})
    assert found.partitions[0].default


def test_licences_stand_beside_nodes(platform):
    found = platform("NodeName=a CPUTot=4 RealMemory=100 Partitions=p\nLicenseName=matlab\n    Total=5 Used=1 Free=4\n")
    assert (found.licences, found.copies.tolist()) == (("matlab",), [5])


PBS = """n1
     Mom = n1.example.org
     state = free
     resources_available.host = n1
     resources_available.mem = 263799212kb
     resources_available.ncpus = 64
     resources_available.ngpus = 2
     resources_available.bigmem = True
     queue = gpuq

n2
     state = free
     np = 8
     properties = avx,ib
     gpus = 1
     status = rectime=1,ncpus=8,physmem=1024kb,totmem=9kb
"""


def test_pbsnodes_of_pbs_pro_and_of_torque(platform):
    found = platform(PBS)
    assert found.capacity.tolist() == [[64, 263799212 * 1024, 2], [8, 1024 * 1024, 1]]
    assert found.features == (("bigmem",), ("avx", "ib"))
    assert partitions(found) == {"gpuq": ["n1"]}
    told = {"nodes": {"n1": {"queue": "gpuq", "resources_available": {"ncpus": 64, "mem": "263799212kb", "ngpus": 2}}}}
    assert platform(json.dumps(told)).capacity.tolist() == [[64, 263799212 * 1024, 2]]


def test_condor_status_static_slots_are_nodes_and_dynamic_ones_parts(platform):
    ads = [
        {"Name": "slot1@a", "Machine": "a", "PartitionableSlot": True, "Cpus": 3, "TotalSlotCpus": 8,
         "Memory": 10, "TotalSlotMemory": 16000, "TotalSlotGPUs": 2},
        {"Name": "slot1_1@a", "Machine": "a", "DynamicSlot": True, "Cpus": 5, "Memory": 100},
        {"Name": "slot1@b", "Machine": "b", "Cpus": 1, "Memory": 2000},
        {"Name": "slot2@b", "Machine": "b", "Cpus": 1, "Memory": 2000},
    ]  # fmt: skip
    found = platform(json.dumps(ads))
    assert found.nodes == ("a", "slot1@b", "slot2@b")
    assert found.capacity.tolist() == [[8, 16000 * MIB, 2], [1, 2000 * MIB, 0], [1, 2000 * MIB, 0]]


@needs_logs
def test_eight_real_slots():
    found = read_platform(SHARED / "traces" / "accounting-samples" / "htcondor-machine-ads.ads")
    assert (len(found.nodes), found.cpus) == (8, 8)


@pytest.mark.parametrize(("text", "told"), [
    ("NodeName=a CPUTot=x RealMemory=1\n", "nodes.txt:1: node a: CPUTot is 'x'; expected a whole number"),
    ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nmain* up 1 1 idle n1\n", "no column CPUS"),
    ("PartitionName=p Nodes=n1\n", "no node with cpus"),
    ("PartitionName=p Nodes=n1 PriorityTier=high\n", "partition p: PriorityTier is 'high'; expected a whole number"),
    ("PartitionName=p Nodes=n1 MaxTime=long\n", "partition p: MaxTime is 'long'; expected a span"),
    ("[1, 2", "is not JSON"),
    ('{"a": 1}', "JSON without nodes"),
    ("n1\n     np = many\n", "node n1: np is 'many'; expected a number, or a size such as 64gb"),
    ("n1\n     np = 4\n     strange\n", "nodes.txt:3: 'strange'"),
])  # fmt: skip
def test_mistakes(platform, text, told):
    with pytest.raises(PlatformError) as caught:
        platform(text)
    assert told in str(caught.value)


def test_toml_is_still_toml(tmp_path):
    (tmp_path / "farm").write_text("[[node]]\ncpus = 4\n")
    assert read_platform(tmp_path / "farm").cpus == 4
    with pytest.raises(PlatformError, match="cannot be read"):
        read_platform(tmp_path / "missing.toml")
