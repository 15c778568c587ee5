"""The dumps of a Slurm site without names: no word gets through, and the policy slurm sees no difference."""

import json
import re
from pathlib import Path

from backfill import simulate
from backfill.traces.slurm_site import read_slurm_site
from tests import schemas

HERE = Path(__file__).parents[1] / "traces"
NAMES = ("bio", "physics", "optics", "ann", "bob", "dan", "cyd", "normal", "high", "low", "main", "short", "whole")


def test_the_model_makes_the_same_schedule_of_the_copy(backfill, tmp_path):
    for folder in ("slurm_site", "slurm_moment"):
        done = backfill(
            "anonymize", str(HERE / folder), "--out", f"{folder}.copy", "--aliases", f"{folder}.csv", "--json"
        )
        told = schemas.check("anonymize-site", done.out)
        assert told["names"]["node"] == 4
        mine, copy = read_slurm_site(HERE / folder), read_slurm_site(tmp_path / f"{folder}.copy")
        assert (copy.notes, copy.missing.keys()) == ((), mine.missing.keys())
        log, other = (each.requests.workload for each in (mine, copy))
        starts, same = (
            simulate(*each, "slurm").schedule.start for each in ((log, mine.platform), (other, copy.platform))
        )
        assert (starts == same).all()
        assert [each.factors for each in copy.moment.ranked] == [each.factors for each in mine.moment.ranked]
        assert copy.moment.expected == mine.moment.expected
        assert mine.left_out[1:] == copy.left_out[1:]


def test_no_name_of_the_site_gets_through(backfill, tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    for dump in (HERE / "slurm_moment").glob("*.txt"):
        text = dump.read_text()
        text = text.replace(
            "--wrap", "--comment=secret --chdir=/home/secret -w n1 -L lic:2 -C fast --job-name=secret --wrap"
        )
        (folder / dump.name).write_text(text.replace("COMPLETED", "CANCELLED by 4711"))
    (folder / "notes.txt").write_text("secret")
    done = backfill("anonymize", "dumps", "--out", "copy")
    assert done.code == 0
    assert "replaced: group 4, node 4" in done.out
    words = set(re.findall(r"[\w/]+", "\n".join(f.read_text() for f in (tmp_path / "copy").iterdir())))
    assert not words & {*NAMES, "secret", "/home/secret", "4711", "lic", "fast", "x86", "test", "root_1"}
    assert {f.name for f in (tmp_path / "copy").iterdir()} == {f.name for f in folder.iterdir()} - {"notes.txt"}
    sacct = (tmp_path / "copy" / "sacct.txt").read_text()
    assert re.search(r"sbatch .*--nodelist=n1 --licenses=lic1:2 --constraint=feature1\n", sacct)


def test_a_folder_without_dumps_is_refused(backfill, tmp_path):
    (tmp_path / "empty").mkdir()
    done = backfill("anonymize", "empty", "--out", "copy")
    assert (done.code, done.err) == (3, "backfill: empty: has no dump of a Slurm site\n")
    done = backfill("anonymize", "empty", "--out", "empty")
    assert (done.code, "is also the folder of the dumps" in done.err) == (2, True)
    done = backfill("anonymize", "empty", "--out", "copy", "--platform", "x.toml")
    assert (done.code, "--platform cannot be combined with a folder" in done.err) == (2, True)
    assert json.dumps(sorted(f.name for f in tmp_path.iterdir())) == '["empty", "tiny.csv"]'


def test_gpus_licences_and_least_limits_are_asked_for_as_before(backfill, tmp_path):
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "scontrol-show-partition.txt").write_text("PartitionName=secret Nodes=n1 MaxTime=UNLIMITED State=UP\n")
    (dumps / "scontrol-show-node.txt").write_text("NodeName=n1 CPUTot=16 RealMemory=1000 Gres=gpu:a100:8 State=IDLE\n")
    (dumps / "scontrol-show-license.txt").write_text("LicenseName=matlab\n    Total=4 Used=0 Free=4 Remote=no\n")
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    line = "|a|u|secret|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00|00:10:00|"
    (dumps / "sacct.txt").write_text(
        f"{head}1{line}cpu=4|sbatch -n 4 --gres=nvme:1,gpu:a100:2 x\n2{line}cpu=2|sbatch -n 2 --gpus-per-task=a100 x\n"
        f"3{line}cpu=1|sbatch -G a100:3 -L matlab:2 x\n4{line}cpu=1|sbatch --time-min=5 -t 1:00:00 x\n"
    )
    done = backfill("anonymize", "dumps", "--out", "copy")
    assert done.code == 0, done.err
    copy = (tmp_path / "copy" / "sacct.txt").read_text()
    assert not {"matlab", "a100", "nvme", "secret"} & {*re.findall(r"\w+", copy)}
    mine, theirs = (read_slurm_site(tmp_path / name) for name in ("dumps", "copy"))
    one, other = mine.requests.workload.jobs, theirs.requests.workload.jobs
    for name in ("tasks", "demand", "walltime", "spread"):
        assert (getattr(one, name) == getattr(other, name)).all(), name
    assert one.demand[:, -1].tolist() == [2, 1, 3, 0]
    assert one.licences.counts.tolist() == other.licences.counts.tolist() == [2]
    assert mine.site.least_limits == theirs.site.least_limits == {"4": 300_000_000}


def test_a_number_of_gpus_that_cannot_be_read_is_left_out(backfill, tmp_path):
    (tmp_path / "dumps").mkdir()
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    line = "1|a|u|p|2026-01-01T00:00:00|Unknown|Unknown|00:10:00|cpu=1|"
    (tmp_path / "dumps" / "sacct.txt").write_text(f"{head}{line}sbatch -n 1 --gpus={'9' * 25} x\n")
    done = backfill("anonymize", "dumps", "--out", "copy")
    assert done.code == 0, done.err
    assert (tmp_path / "copy" / "sacct.txt").read_text().endswith("|sbatch --ntasks=1\n")
