"""The policy slurm decides as a slurmctld does under limits on minutes, and for jobs that name some of their nodes."""

import random
import shlex
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.traces.slurm_site import read_slurm_site
from backfill.traces.slurmctld_log import read_slurmctld_log
from backfill.worlds.slurm_truth import Agreement, agreement
from tests.real import slurm
from tests.real.test_slurm_policy import DUMPS, MORE, OPTIONS, SACCT

pytestmark = pytest.mark.slurm
JOBS = 45
ACCOUNTS = (
    "add account physics fairshare=40 grptresrunmins=cpu=60",
    "add account bio fairshare=60 grptresmins=cpu=14",
    "add account optics parent=physics fairshare=parent maxtresmins=cpu=40",
    "add qos high priority=10 usagefactor=2 grptresrunmins=cpu=80 flags=UsageFactorSafe",
    "add qos low priority=1 usagefactor=0.5 grptresmins=cpu=12,node=9 flags=NoDecay",
    "add qos free usagefactor=0 grptresmins=cpu=1",
    "add user root account=bio fairshare=1",
    "add user root account=physics fairshare=2",
    "add user root account=optics fairshare=2",
    "modify user root set qos=normal,high,low,free",
)
PARTITION_QOS = (
    "add account physics fairshare=40 grpjobsaccrue=3",
    "add account bio fairshare=60 maxjobsaccrue=2",
    "add qos slow maxtresperuser=cpu=14 grptresrunmins=cpu=70",
    "add qos few grpjobs=2 maxjobsperuser=1",
    "add qos high priority=10 maxjobsperuser=3 grpjobsaccrue=2",
    "add qos mid priority=5 maxjobsperuser=2",
    "add qos over priority=5 maxjobsperuser=2 flags=OverPartQOS",
    "add qos low maxtresperuser=cpu=24",
    "add user root account=bio fairshare=1",
    "add user root account=physics fairshare=2",
    "modify user root set qos=normal,high,low,mid,over",
)
PARTS = {"main": (1, 2, 3, 4), "high": (2, 3, 4), "short": (1, 2)}


def limited(dice: random.Random) -> list[str]:
    """The options of a job in one of the accounts and QOS."""
    words = ["-A", dice.choice(["bio", "physics", "optics"]), "-p", dice.choice(["main", "high", "short", "main,high"])]
    words += ["-t", str(dice.randint(1, 5)), "--qos", dice.choice(["normal", "normal", "high", "low", "free"])]
    sizes = (
        ["-n", str(dice.randint(1, 10))],
        ["-N", "2", "-n", str(dice.randint(2, 10))],
        ["-n", str(dice.randint(1, 4)), "-c", "2"],
    )
    return [*words, *sizes[dice.randrange(3)]]


def in_one_partition(dice: random.Random) -> list[str]:
    """The options of a job in one partition, of which two have a QOS of their own."""
    words = ["-A", dice.choice(["bio", "physics"]), "-p", dice.choice(["main", "high", "high", "short"])]
    words += ["-t", str(dice.randint(1, 5)), "--qos", dice.choice(["normal", "high", "low", "mid", "over"])]
    return [*words, "-n", str(dice.randint(1, 10))]


def in_arrays(dice: random.Random) -> list[str]:
    """The options of a job, or of an array, perhaps with a throttle."""
    words = ["-A", "bio", "-p", dice.choice(["main", "main", "high", "short"]), "-t", str(dice.randint(1, 4))]
    words += [f"--nice={dice.randint(0, 300)}", "-n", str(dice.randint(1, 12))]
    if dice.random() < 0.3:
        throttle = f"%{dice.randint(1, 2)}" if dice.random() < 0.5 else ""
        words.append(f"--array=1-{dice.randint(2, 5)}{throttle}")
    return words


def naming(dice: random.Random) -> list[str]:
    """The options of a job of which most name some of their nodes, and may have others."""
    part = dice.choice(["main", "main", "high", "short"])
    words = ["-A", "bio", "-p", part, "-t", str(dice.randint(1, 3)), f"--nice={dice.randint(0, 300)}"]
    kind = dice.randrange(4)
    sizes = (
        ["-n", str(dice.randint(2, 20))],
        ["-N", "2", "-n", str(dice.randint(2, 16))],
        ["-N", "1-2", "-n", str(dice.randint(2, 10))],
        ["-N", "2", "--ntasks-per-node=1", "-c", str(dice.randint(1, 10))],
    )
    some = dice.sample(PARTS[part], dice.choice([1, 1, 2]) if kind < 3 else 1)
    named = ["-w", ",".join(f"n{n}" for n in sorted(some))] if dice.random() < 0.6 else []
    return [*words, *sizes[kind], *named]


def judged(  # type: ignore[no-untyped-def]
    folder: Path,
    seed: int,
    enforce: str,
    request,
    accounts: tuple[str, ...],
    rest_s: int,
    updates: tuple[str, ...] = (),
    more: str = "",
    lines: str = "",
    longest_s: int = 40,
    gpus: int = 0,
) -> Agreement:
    """How often the model decides alike in a run of a slurmctld with these jobs. updates: what scontrol changes.

    more: SchedulerParameters. lines: of slurm.conf. longest_s: of a job. gpus: of each node.
    """
    if slurm.missing():
        pytest.skip(f"a real Slurm with accounting {slurm.missing()}")
    conf = MORE.replace("AccountingStorageEnforce=limits", f"AccountingStorageEnforce={enforce}")
    conf = (conf.replace("bf_continue\n", f"bf_continue,{more}\n") if more else conf) + lines
    dice, begun = random.Random(seed), time.monotonic()
    with (
        TemporaryDirectory(prefix="slurm-") as place,
        slurm.running(Path(place), more=conf, options=OPTIONS, gpus=gpus) as cluster,
    ):
        for words in accounts:
            cluster.run("sacctmgr", "-i", *words.split())
        time.sleep(2)  # slurmctld hears of the associations
        for words in updates:
            cluster.run("scontrol", "update", *words.split())
        for name, command in DUMPS.items():
            (folder / f"{name}.txt").write_text(cluster.run(*command.split()))
        for _ in range(JOBS):
            # ends at one instant, as of tasks that begin together, are told from each other by no line of the log
            ends = f"sleep $(({dice.randint(5, longest_s)} + 3 * ${{SLURM_ARRAY_TASK_ID:-0}}))"
            cluster.submit(*request(dice), "--wrap", ends)
            time.sleep(dice.choice([0.2, 1, 2]))
        time.sleep(max(rest_s - (time.monotonic() - begun), 10))
        (folder / "sacct.txt").write_text(cluster.run(*shlex.split(SACCT)))
        (folder / "slurmctld.log").write_text((cluster.folder / "slurmctld.log").read_text())
    site = read_slurm_site(folder)
    assert site.requests is not None
    return agreement(read_slurmctld_log(folder / "slurmctld.log"), site.requests.workload, site.platform)


@pytest.mark.parametrize("enforce", [pytest.param("limits", marks=pytest.mark.long), "limits,safe"])
def test_limits_on_minutes_stop_the_jobs_that_they_stop_in_slurm(enforce, tmp_path):
    found = judged(tmp_path, 1 + len(enforce), enforce, limited, ACCOUNTS, 150)
    log = (tmp_path / "slurmctld.log").read_text()
    assert log.count("group max running tres(cpu) minutes limit") > 5
    assert log.count("minutes of") > 5
    assert found.total["backfill: no plan"] > 50
    alike = sum(found.alike.values()) / sum(found.total.values())
    assert alike > 0.97, found.differences  # without these limits: 0.6


@pytest.mark.long
def test_the_qos_of_a_partition_and_limits_on_jobs_that_grow_old_stop_what_they_stop_in_slurm(tmp_path):
    updates = ("PartitionName=high QOS=slow", "PartitionName=short QOS=few")
    found = judged(tmp_path, 7, "limits", in_one_partition, PARTITION_QOS, 150, updates)
    log = (tmp_path / "slurmctld.log").read_text()
    assert log.count("QOS slow") > 5
    assert log.count("QOS few") > 5
    assert found.total["age factor"] > 20
    assert found.alike["age factor"] > 0.97 * found.total["age factor"], found.differences
    alike = sum(found.alike.values()) / sum(found.total.values())
    assert alike > 0.97, found.differences


@pytest.mark.long
def test_an_array_is_one_entry_of_the_queue_as_in_slurm(tmp_path):
    depths = "bf_max_job_test=4,bf_node_space_size=500,default_queue_depth=3,bf_max_job_array_resv=2"
    accounts = ("add account bio fairshare=1", "add user root account=bio fairshare=1")
    found = judged(tmp_path, 3, "limits", in_arrays, accounts, 150, more=depths)
    site = read_slurm_site(tmp_path)
    assert site.requests is not None
    assert sum("_" in name for name in site.requests.nodes) > 20
    assert found.total["backfill: begin of a plan"] > 20
    alike = sum(found.alike.values()) / sum(found.total.values())
    assert alike > 0.95, found.differences  # tasks of one array may exceed bf_max_job_test in Slurm


@pytest.mark.long
def test_nodes_beside_those_that_a_job_names_are_those_of_slurm(tmp_path):
    accounts = ("add account bio fairshare=1", "add user root account=bio fairshare=1")
    found = judged(tmp_path, 3, "limits", naming, accounts, 150)
    started = [kind for kind in found.total if kind.endswith("nodes of a start")]
    assert sum(found.total[kind] for kind in started) > 10
    assert sum(found.alike[kind] for kind in started) >= 0.95 * sum(found.total[kind] for kind in started)
    alike = sum(found.alike.values()) / sum(found.total.values())
    assert alike > 0.95, found.differences
