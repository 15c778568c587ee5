"""A site's own Slurm on the command line: import slurm-site, --site, verify --slurmctld-log."""

import csv
from pathlib import Path

import pytest

from tests import schemas

SITE = Path(__file__).parents[1] / "traces" / "slurm_site"


def test_import_says_what_it_found_and_what_counts_instead_of_the_rest(backfill):
    done = backfill("import", "slurm-site", str(SITE))
    assert done.code == 0
    assert done.out.startswith("test: Slurm 22.05.8, 4 nodes, 64 cpus\n")
    assert "sacctmgr-show-assoc.txt: 12 rows" in done.out
    assert "no scontrol-show-license.txt: there are no licences" in done.out
    assert "bf_interval=5, bf_max_time=5, bf_window=1440, bf_resolution=10" in done.out
    told = schemas.check("import-site", backfill("import", "slurm-site", str(SITE), "--json").out)
    assert (told["version"], told["parameters"]["PriorityWeightFairshare"]) == ("22.05.8", 10000)


def test_a_folder_without_nodes_is_refused(backfill, tmp_path):
    (tmp_path / "dumps").mkdir()
    done = backfill("import", "slurm-site", "dumps")
    expected = "backfill: dumps: has no scontrol-show-partition.txt; expected what `scontrol show partition` prints\n"
    assert (done.code, done.err) == (3, expected)
    done = backfill("import", "slurm-site", "dumps", "--out", "x.csv")
    assert (done.code, done.err) == (2, "backfill: --out cannot be combined with slurm-site\n")
    done = backfill("simulate", "model:lublin?jobs=5&cpus=4", "--site", "dumps", "--cpus", "4")
    assert done.code == 2
    assert "cannot be combined with --site" in done.err


def test_verify_counts_the_decisions_that_are_alike(backfill):
    words = ["verify", str(SITE / "sacct.txt"), "--slurmctld-log", str(SITE / "slurmctld.log.gz"), "--site", str(SITE)]
    done = backfill(*words)
    assert done.code == 0
    assert "main: jobs started: 71 of 71 alike" in done.out
    assert "backfill: begin of a plan: 450 of 450 alike" in done.out
    told = schemas.check("verify-slurm", backfill(*words, "--json").out)
    assert told["decisions"]["main: nodes of a start"] == {"alike": 27, "total": 27}
    assert backfill(*words[:4]).err == "backfill: --slurmctld-log needs --site DIR, and no SCHEDULE\n"
    assert "missing argument SCHEDULE" in backfill("verify", str(SITE / "sacct.txt")).err


def test_a_simulation_of_the_site_says_how_far_it_is_from_the_log(backfill):
    assert backfill("import", "sacct", str(SITE / "sacct.txt"), "--out", "jobs.csv").code == 0
    words = ["simulate", "jobs.csv", "--site", str(SITE), "--policy", "slurm", "--verify"]
    done = backfill(*words)
    assert done.code == 0
    assert "fidelity of slurm on 55 jobs: mean wait 44.3 s in the log" in done.out
    assert "over 6 phases of its clocks" in done.out
    assert "partition main: 24 jobs, mean wait" in done.out
    assert "the backfill loop starts 56% of 54 jobs in the log" in done.out
    assert "re-synchronised with the log at 12 instants" in done.out
    told = schemas.check("simulate", backfill(*words, "--json").out)
    assert told["fidelity"]["resynchronised"]["logged"] == 53
    assert told["fidelity"]["recorded_mean_s"] == pytest.approx(44.3, abs=0.05)
    assert told["violations"] == []


def test_a_wait_is_explained_in_slurms_words(backfill):
    assert backfill("import", "sacct", str(SITE / "sacct.txt"), "--out", "jobs.csv").code == 0
    words = ["simulate", "jobs.csv", "--site", str(SITE), "--policy", "slurm", "--explain"]
    assert backfill(*words[:-1], "--schedule", "plain.csv").code == 0
    told = schemas.check("simulate", backfill(*words, "47", "--json").out)["slurm"]
    starts = {row["job"]: row for row in csv.DictReader(Path("plain.csv").read_text().splitlines())}
    row = starts["47"]
    waited = float(row["start"]) - float(row["submit"])
    assert sum(each["for_s"] for each in told["reasons"]) == pytest.approx(waited)
    assert told["loop"] == ("backfill" if row["reason"] == "backfill" else "main")
    assert 0 < told["reached"] <= told["cycles"]
    done = backfill(*words, "47")
    assert "\nin Slurm's words\n  reasons: " in done.out
    assert {each["reason"] for each in told["reasons"]} <= {"Priority", "Resources", "ReqNodeNotAvail"}


NODE = "NodeName={} CPUTot=64 RealMemory=256000 Weight=1 State=IDLE\n"


@pytest.fixture
def dumps(tmp_path):
    """A site of two nodes, of which one is reserved from 10 to 12."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    (folder / "scontrol-show-node.txt").write_text("".join(NODE.format(name) for name in ("n1", "n2")))
    (folder / "scontrol-show-partition.txt").write_text("PartitionName=main Default=YES Nodes=n[1-2] QoS=slow\n")
    (folder / "scontrol-show-reservation.txt").write_text(
        "ReservationName=course StartTime=2026-03-02T10:00:00 EndTime=2026-03-02T12:00:00 Nodes=n1 NodeCnt=1 "
        "Flags=SPEC_NODES TRES=cpu=64 Users=eve State=INACTIVE\n"
    )
    return folder


@pytest.mark.parametrize("policy", ["easy", "slurm"])
def test_no_job_of_a_site_starts_that_would_run_into_a_reservation(backfill, dumps, tmp_path, policy):
    rows = [f"{job},2026-03-02T09:00:00,{run},{limit},64" for job, run, limit in ((1, 1800, 7200), (2, 1800, 7200))]
    (tmp_path / "jobs.csv").write_text("\n".join(["job,submit,runtime,walltime,procs", *rows, ""]))
    words = ["simulate", "jobs.csv", "--site", "dumps", "--policy", policy]
    done = backfill(*words, "--verify", "--schedule", "out.csv")
    assert done.code == 0, done.err
    told = "1 reservation: no job that would still run then starts on its nodes"
    assert told in done.err
    table = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["node"].partition("*")[0] for row in table] == ["n2", "n2"]
    checked = backfill("verify", "jobs.csv", "out.csv", "--site", "dumps")
    assert (checked.code, checked.out) == (0, "lawful: 2 jobs checked\n")
    (tmp_path / "none.csv").write_text("time,event,node\n2026-03-02T09:00:00,down,n2\n2026-03-02T09:00:01,up,n2\n")
    assert told not in backfill(*words, "--events", "none.csv").err
    (tmp_path / "undated.csv").write_text("job,submit,runtime,walltime,procs\n1,0,1800,7200,64\n")
    done = backfill("simulate", "undated.csv", *words[2:])
    assert "reservations have dates, and undated has none, so they are left out" in done.err


def test_limits_of_the_qos_of_a_partition_are_left_out(backfill, dumps):
    assert "left out: partition main: the limits of its QOS slow" in backfill("import", "slurm-site", "dumps").out
