"""A site's own Slurm on the command line: import slurm-site, --site, verify --slurmctld-log."""

import csv
from importlib.util import find_spec
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
    codes = [each["reason"] for each in told["reasons"]]
    assert codes[0] == "None", "until the first loop looks at it"
    assert {*codes[1:]} <= {"Priority", "Resources", "ReqNodeNotAvail"}


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
    if policy == "easy" and find_spec("ortools"):
        done = backfill("optimum", *words[1:4], "--schedule", "best.csv")
        assert (done.code, told in done.err) == (0, True)
        assert backfill("verify", "jobs.csv", "best.csv", "--site", "dumps").out == "lawful: 2 jobs checked\n"
    (tmp_path / "none.csv").write_text("time,event,node\n2026-03-02T09:00:00,down,n2\n2026-03-02T09:00:01,up,n2\n")
    assert told not in backfill(*words, "--events", "none.csv").err
    (tmp_path / "undated.csv").write_text("job,submit,runtime,walltime,procs\n1,0,1800,7200,64\n")
    done = backfill("simulate", "undated.csv", *words[2:])
    assert "reservations have dates, and undated has none, so they are left out" in done.err


def test_the_qos_of_a_partition_limits_the_jobs_there_in_place_of_their_own(backfill, dumps, tmp_path):
    (dumps / "scontrol-show-reservation.txt").unlink()
    with (dumps / "scontrol-show-partition.txt").open("a") as out:
        out.write("PartitionName=quick Nodes=n[1-2]\n")
    (dumps / "scontrol-show-config.txt").write_text("AccountingStorageEnforce = associations,limits\n")
    qos = [
        "Name|Priority|Flags|MaxTRESPU|MaxJobsPU",
        "slow|||cpu=8|",
        "mine||||2",
        "over||OverPartQOS|cpu=16|",
        "low|||cpu=4|",
    ]
    (dumps / "sacctmgr-show-qos.txt").write_text("\n".join(qos))
    assert "QoS" not in (said := backfill("import", "slurm-site", "dumps").out)
    assert "left out" not in said

    def started(part: str, qos: str) -> int:
        """Of six jobs of 4 cpus of one user, those that start in the first minute."""
        head, rows = "job,submit,runtime,walltime,procs,user,partition,qos", range(1, 7)
        jobs = [f"{job},0,1000,1200,4,ann,{part},{qos}" for job in rows]
        (tmp_path / "jobs.csv").write_text("\n".join([head, *jobs, ""]))
        words = ["jobs.csv", "--site", "dumps", "--policy", "slurm", "--schedule", "out.csv", "--verify"]
        done = backfill("simulate", *words)
        assert done.code == 0, done.err
        return sum(float(row["start"]) < 60 for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))

    assert started("main", "mine") == 2, "two limits of different kinds both count"
    assert started("main", "low") == 2, "that of the partition counts, cpu=8"
    assert started("quick", "low") == 1
    assert started("main", "over") == 4, "that of the job counts"


ASSOC = "Cluster|Account|User|Partition|ParentName|Share|Priority|GrpJobs|GrpTRES|GrpTRESMins|GrpTRESRunMins|MaxJobs|"
ASSOC += "MaxTRES|MaxWall|MaxJobsAccrue|GrpJobsAccrue|QOS|Def QOS|MaxTRESMins\n"


def test_minutes_of_a_user_in_one_partition_count_there_alone(backfill, dumps, tmp_path):
    (dumps / "scontrol-show-reservation.txt").unlink()
    with (dumps / "scontrol-show-partition.txt").open("a") as out:
        out.write("PartitionName=quick Nodes=n[1-2]\n")
    (dumps / "scontrol-show-config.txt").write_text(
        "AccountingStorageEnforce = associations,limits\nAccountingStorageType = accounting_storage/slurmdbd\n"
        "PriorityType = priority/multifactor\nPriorityDecayHalfLife = 00:00:00\nSLURM_VERSION = 22.05.8\n"
    )
    people = [("root", "", "", "", ""), ("bio", "", "", "root", ""),
              ("bio", "ann", "", "bio", ""), ("bio", "ann", "quick", "bio", "cpu=60")]  # fmt: skip
    rows = [f"c|{account}|{user}|{part}|{over}|1||||{most}|||||||||\n" for account, user, part, over, most in people]
    (dumps / "sacctmgr-show-assoc.txt").write_text(ASSOC + "".join(rows))
    jobs = [f"{job},{at},1000,1200,4,ann,bio,{part}" for job, at, part in ((1, 0, "quick"), (2, 3600, "quick"),
                                                                           (3, 3600, "main"))]  # fmt: skip
    (tmp_path / "jobs.csv").write_text("\n".join(["job,submit,runtime,walltime,procs,user,group,partition", *jobs, ""]))
    done = backfill("simulate", "jobs.csv", "--site", "dumps", "--policy", "slurm", "--schedule", "out.csv")
    assert done.code == 0, done.err
    table = (tmp_path / "out.csv").read_text().splitlines()
    assert [row.split(",")[4] for row in table[1:]] == ["COMPLETED", "PENDING", "COMPLETED"]
    checked = backfill("verify", "jobs.csv", "out.csv", "--site", "dumps")
    assert (checked.code, checked.out) == (0, "lawful: 3 jobs checked\n")
    lines = [",".join([*row.split(",")[:2], "", "", "PENDING", "", ""]) if row[:2] == "3," else row for row in table]
    (tmp_path / "idle.csv").write_text("\n".join([*lines, ""]))
    checked = backfill("verify", "jobs.csv", "idle.csv", "--site", "dumps")
    assert (checked.code, "state: job 3: is PENDING; expected REJECTED" in checked.out) == (5, True)
