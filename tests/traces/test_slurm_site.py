"""A site as a folder of dumps: what it says, what is missing, which line is damaged. The dumps are of a real 22.05."""

import re
from pathlib import Path

import pytest

from backfill.model.errors import PlatformError, WorkloadError
from backfill.model.slurm_site import PARENT
from backfill.model.workload import Labels
from backfill.traces.slurm_requests import as_requested, options_of
from backfill.traces.slurm_site import read_slurm_site
from backfill.traces.slurmctld_log import read_slurmctld_log

HERE = Path(__file__).parent / "slurm_site"
DUMPS = sorted(HERE.glob("s*[a-z].txt"))


@pytest.fixture
def folder(tmp_path):
    for dump in DUMPS:
        if dump.name != "sshare-later.txt":
            (tmp_path / dump.name).write_text(dump.read_text())
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_site_has_tiers_weights_shares_and_limits():
    read = read_slurm_site(HERE)
    site, platform = read.site, read.platform
    assert (site.version, site.number, site.stored, site.enforces_limits) == ("22.05.8", 22.05, True, True)
    assert {each.name: (each.tier, each.job_factor) for each in site.partitions} == {
        "high": (3, 10), "whole": (1, 1), "main": (1, 1), "short": (1, 1)
    }  # fmt: skip
    assert [each.name for each in platform.partitions] == [each.name for each in site.partitions]
    assert site.weights == (1, 10, 1, 1)
    root, *others = site.associations
    assert (root.account, root.parent) == ("root", -1)
    optics = next(i for i, each in enumerate(site.associations) if each.account == "optics" and not each.user)
    assert site.associations[optics].shares == PARENT
    assert site.associations[site.associations[optics].parent].account == "physics"
    assert all(each.parent < i for i, each in enumerate(others, 1))
    assert {each.name: (each.priority, each.usage_factor) for each in site.qos} == {
        "normal": (0, 1.0), "high": (10, 2.0), "low": (1, 0.0)
    }  # fmt: skip
    limits = {each.name: (each.per, each.running_jobs, each.running) for each in platform.limits}
    assert limits == {
        "QOS high, each user": ("user", 2, {}),
        "QOS low, each user": ("user", None, {"cpus": 20}),
        "association bio": ("all", None, {"cpus": 40}),
    }
    assert [*read.missing] == ["scontrol-show-license"]


def test_nothing_depends_on_headers_or_on_lines_per_entry(folder):
    for name in ("sacctmgr-show-assoc.txt", "sacctmgr-show-qos.txt", "sshare.txt"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[1:]))
    for name in ("scontrol-show-partition.txt", "scontrol-show-node.txt"):
        text = (folder / name).read_text()
        (folder / name).write_text(re.sub(r" (?=\w+=)", "\n   ", text))
    assert read_slurm_site(folder).platform.sha256 == read_slurm_site(HERE).platform.sha256


def test_without_a_database_nothing_but_the_nodes_is_required(folder):
    for name in ("sacctmgr-show-assoc.txt", "sacctmgr-show-qos.txt", "sshare.txt", "scontrol-show-config.txt"):
        (folder / name).unlink()
    read = read_slurm_site(folder)
    assert read.missing["scontrol-show-config"] == "every key has the default of Slurm, version 22.05"
    assert (read.site.associations, read.site.qos, read.site.stored) == ((), (), False)
    (folder / "scontrol-show-node.txt").unlink()
    with pytest.raises(
        PlatformError, match=r"has no scontrol-show-node\.txt; expected what `scontrol show node` prints"
    ):
        read_slurm_site(folder)


def test_a_damaged_line_is_named(folder):
    edit(folder / "sacctmgr-show-assoc.txt", "test|bio|dan|||1|", "test|bio|dan|||one|")
    edit(folder / "sacctmgr-show-qos.txt", "high|10|", "high|10|x|y|")
    first, second = read_slurm_site(folder).notes
    assert first.endswith("share is 'one'; expected a whole number from 0 to 1,099,511,627,776")
    assert "sacctmgr-show-assoc.txt:" in first
    assert "sacctmgr-show-qos.txt:3: 17 cells; expected 15" in second
    edit(folder / "scontrol-show-partition.txt", "PriorityJobFactor=10", "PriorityJobFactor=x")
    with pytest.raises(PlatformError, match="partition high: PriorityJobFactor is 'x'; expected a whole number"):
        read_slurm_site(folder)


def test_what_is_left_out_is_said(folder):
    edit(folder / "scontrol-show-config.txt", "bf_continue", "bf_continue,bf_busy_nodes")
    config = folder / "scontrol-show-config.txt"
    config.write_text(re.sub(r"PreemptType .*", "PreemptType = preempt/qos", config.read_text()))
    assert read_slurm_site(folder).left_out == ("PreemptType=preempt/qos: nothing is preempted",
                                                "SchedulerParameters=bf_busy_nodes")  # fmt: skip


def test_lists_of_partitions_are_more_partitions(folder):
    edit(folder / "sacct.txt", "-A bio -p high", "-A bio -p high,main,high")
    edit(folder / "sacct.txt", "-A bio -p short", "-A bio -p short,whole")  # one EXCLUSIVE
    read = read_slurm_site(folder)
    platform, asked = read.platform, read.requests
    assert platform.partitions[-1].name == "high,main"
    assert platform.nodes_of("high,main").tolist() == [True] * 4
    assert len(platform.partitions) == len(read.site.partitions) + 1
    assert [asked.workload.jobs.partition[row] for row in (0, 1)] == ["high,main", "short"]
    assert any("(several unlike partitions 1%)" in text for text in read.left_out)
    jobs = asked.workload.jobs
    ran = asked.workload.with_jobs(jobs.replace(partition=Labels.of(["high"] * len(jobs))))
    labels = as_requested(ran, asked).jobs.partition
    assert [labels[row] for row in (0, 1)] == ["high,main", "high"]


def test_nodes_that_a_job_names_or_excludes_bind_it(folder):
    lines = (folder / "sacct.txt").read_text().splitlines()
    for row, more in ((1, "-N 2 -n 4 -w n[2,3] "), (2, "-x n4 "), (3, "-N 2 -n 4 -w n3 "), (4, "-w n9 ")):
        lines[row] = lines[row].replace("sbatch ", f"sbatch {more}")
    (folder / "sacct.txt").write_text("\n".join(lines) + "\n")
    read = read_slurm_site(folder)
    asked, jobs = read.requests, read.requests.workload.jobs
    assert [jobs.constraint[row] for row in range(4)] == ["n2|n3", "!n4", "", ""]
    assert read.site.named == {"1": ("n2", "n3"), "3": ("n3",)}
    assert (read.site.nodes["1"], read.site.nodes["3"]) == ((2, 2), (2, 2))
    said = next(text for text in read.left_out if "leaves out" in text)
    assert "named nodes without room for the job 1%" in said
    before = asked.workload.with_jobs(jobs.replace(constraint=Labels.of(["fast|x86"] * len(jobs))))
    after = as_requested(before, asked).jobs.constraint
    assert [after[row] for row in range(3)] == ["fast&n2|fast&n3|x86&n2|x86&n3", "fast&!n4|x86&!n4", "fast|x86"]


def test_a_log_without_a_pass_is_refused(tmp_path):
    (tmp_path / "log").write_text("[2026-01-01T00:00:00.000] slurmctld started\n")
    with pytest.raises(WorkloadError, match="has no pass of a loop; expected SlurmctldDebug=debug2"):
        read_slurmctld_log(tmp_path / "log")


def test_the_options_of_a_job_end_at_its_script():
    command = "sbatch -N2-4 -n 8 -c2 --exclusive --nice --mem-per-cpu=2G -p a,b job.sh -n 99"
    assert options_of(command) == {
        "nodes": "2-4", "ntasks": "8", "cpus-per-task": "2", "exclusive": "", "nice": "", "mem-per-cpu": "2G",
        "partition": "a,b",
    }  # fmt: skip
