"""Scripts of Slurm: what their options become here, and the variables that they find."""

import os
import re
import subprocess

import pytest

from backfill.client import sbatch
from backfill.client.sbatch import of_script
from backfill.pools.local.pool import attempt_spec
from backfill.queue.files import named
from backfill.queue.job import Attempt, Job, Run
from backfill.queue.parts import parts_of
from backfill.queue.words import Unreadable

MIB = 1 << 20


def settled(line, **given):
    found, is_slurm = of_script(f"#!/bin/sh\n#SBATCH {line}\n")
    assert is_slurm
    found, ignored = sbatch.settled(found, given)
    return found, ignored


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("-N 1 --ntasks-per-node=4", {"need": {"cpus": 4}, "ntasks": 4}),
        ("--nodes=1-3 -n 3 --tasks-per-node 8", {"need": {"cpus": 1}, "tasks": 3}),
        ("--mem-per-cpu 2G -n2", {"need": {"cpus": 1, "memory": 2 << 30}, "tasks": 2}),
        ("--gpus-per-node=a100:2 --cpus-per-gpu=3", {"need": {"cpus": 6, "gpus": 2}, "gpu_type": "a100"}),
        ("--gpus-per-task=2 -n 3", {"need": {"cpus": 1, "gpus": 2}, "tasks": 3}),
        ("--gpus 2 --mem-per-gpu=1G", {"need": {"cpus": 1, "memory": 2 << 30, "gpus": 2}}),
        ("--mincpus=3 -n 2", {"need": {"cpus": 4}, "ntasks": 2}),
        ("--requeue --no-requeue --kill-on-invalid-dep=yes", {"need": {"cpus": 1}}),
        (f"-w {os.uname().nodename}", {"need": {"cpus": 1}}),
    ],
)
def test_an_option_that_changes_what_a_job_needs_is_translated(line, becomes):
    found, ignored = settled(line)
    assert (parts_of(found), ignored) == (becomes, [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--nodes=two", "--nodes: 'two' is not a whole number"),
        ("-N 4-2", "--nodes: '4-2' is not a number of nodes"),
        ("--exclusive=user -n 1", "--exclusive takes no value"),
        ("-C [rack1|rack2]", "--constraint: '[rack1|rack2]'; expected features"),
        ("--gres gpu:a100:2,gpu:v100:1", "--gres: 'gpu:a100:2,gpu:v100:1' is not a number of gpus"),
        ("--threads-per-core=1", "--threads-per-core: the queue does not choose among sockets"),
        ("--tmp=5G", "--tmp: the queue does not count disk space"),
        ("-w node17", "--nodelist: node17 is not this machine"),
        ("--kill-on-invalid-dep=no", "--kill-on-invalid-dep: 'no'"),
        ("--cpu-per-task=4", "unknown option --cpu-per-task"),
    ],
)
def test_one_that_cannot_be_translated_is_refused_by_its_name(line, said):
    with pytest.raises(Unreadable, match=re.escape(said)):
        settled(line)


def test_one_that_changes_nothing_is_ignored_by_name():
    line = "-p short -q normal --reservation x --nice=5 -x node1 -s -c 3"
    names = ["--nice", "--exclude", "--oversubscribe"]
    assert settled(line) == ({"cpus": 3, "partition": "short", "qos": "normal", "reservation": "x"}, names)


def test_mail_is_sent_by_the_program_mail_or_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert settled("--mail-type=NONE --mail-user a@b.org")[0] == {"notify": ""}
    with pytest.raises(Unreadable, match="there is no program mail here"):
        settled("--mail-type END")
    with pytest.raises(Unreadable, match="sends no mail for BEGIN"):
        settled("--mail-type END,BEGIN")
    (tmp_path / "mail").write_text('#!/bin/sh\n/bin/echo "$@" >> sent\n')
    (tmp_path / "mail").chmod(0o700)
    for types, states in (("END,FAIL", ["COMPLETED", "FAILED"]), ("FAIL", ["FAILED"])):
        command = settled(f"--mail-type {types} --mail-user a@b.org")[0]["notify"]
        for state in ("COMPLETED", "FAILED"):
            env = {"BACKFILL_JOB": "7", "BACKFILL_JOB_NAME": "fit", "BACKFILL_STATE": state, "PATH": str(tmp_path)}
            subprocess.run(["/bin/sh", "-c", command], env=env, cwd=tmp_path, check=True)
        sent = (tmp_path / "sent").read_text().splitlines()
        assert sent == [f"-s backfill: job 7, fit: {state} a@b.org" for state in states]
        (tmp_path / "sent").unlink()


def test_the_command_line_takes_precedence():
    assert settled("--mem-per-cpu 2G", memory=MIB)[0] == {"memory": MIB}
    assert settled("--mem 2G", memory_per_cpu=MIB)[0] == {"memory_per_cpu": MIB}
    assert settled("--no-requeue", requeue=True)[0] == {"requeue": True}
    assert settled("--gres gpu:2", gpus=(1, "a100"))[0] == {"gpus": (1, "a100")}
    assert parts_of(settled("--ntasks-per-node 4", tasks=2)[0]) == {"need": {"cpus": 1}, "tasks": 2}


def variables(tmp_path, job, given, nodes=(), **env):
    spec = {"argv": ["true"], "cwd": "/here", "env": env, "slurm": sbatch.submitted(given, "/here")}
    return attempt_spec(tmp_path, Run(job, Attempt(1, 0, nodes=[*nodes])), spec)["env"]


def test_a_script_finds_the_variables_of_slurm(tmp_path):
    job = Job(7, name="fit", user="ana", need={"cpus": 6, "memory": 64 * MIB}, walltime=60_000_000)
    found = variables(tmp_path, job, {"tasks": 2}, SLURM_ARRAY_TASK_ID="9", SLURM_JOB_ID="1", SLURM_CONF="/etc/it")
    known = {name: found.get(f"SLURM_{name}") for name in ("JOB_ID", "NTASKS", "CPUS_PER_TASK", "CPUS_ON_NODE")}
    assert known == {"JOB_ID": "7", "NTASKS": "2", "CPUS_PER_TASK": "3", "CPUS_ON_NODE": "6"}
    assert (found["SLURM_MEM_PER_NODE"], found["SLURM_JOB_NUM_NODES"], found["SLURM_JOB_USER"]) == ("64", "1", "ana")
    assert (found["SLURM_SUBMIT_DIR"], found["SLURM_CONF"]) == (os.getcwd(), "/etc/it")
    assert not {"SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_PARTITION"} & found.keys()
    job.restarts = 2
    assert variables(tmp_path, job, {})["SLURM_RESTART_COUNT"] == "2"


def test_a_script_finds_how_its_tasks_lie_on_nodes(tmp_path):
    asked = {"need": {"cpus": 4, "memory": 64 * MIB}, "tasks": 3, "ntasks": 6, "partition": "gpu"}
    job = Job(7, walltime=60_000_000, **asked)
    found = variables(tmp_path, job, {"tasks": 6}, [["n1", 2], ["n4", 1]])
    names = ("NNODES", "JOB_NODELIST", "NTASKS", "TASKS_PER_NODE", "CPUS_PER_TASK", "JOB_CPUS_PER_NODE", "CPUS_ON_NODE")
    assert [found[f"SLURM_{name}"] for name in names] == ["2", "n1,n4", "6", "4,2", "2", "8,4", "8"]
    assert (found["SLURM_MEM_PER_NODE"], found["SLURM_JOB_PARTITION"]) == ("128", "gpu")
    assert (found["SLURMD_NODENAME"], found["BACKFILL_NODES"], found["BACKFILL_NTASKS"]) == ("n1", "n1*2;n4*1", "6")
    nodes = [["n1", 1], ["n2", 1], ["n3", 1]]
    assert variables(tmp_path, job, {"tasks": 6}, nodes)["SLURM_TASKS_PER_NODE"] == "2(x3)"


@pytest.mark.parametrize(("indexes", "step"), [([2, 4, 6], "2"), ([1, 2, 9], "1"), ([5], "1")])
def test_a_task_of_an_array_finds_its_index_and_its_array(tmp_path, indexes, step):
    job = Job(9, array=7, index=indexes[-1], need={"cpus": 1}, walltime=1)
    found = variables(tmp_path, job, {"array": (indexes, 0), "memory_per_cpu": 3 * MIB})
    names = ("ARRAY_JOB_ID", "ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "ARRAY_TASK_MIN", "ARRAY_TASK_MAX", "ARRAY_TASK_STEP")
    last = str(indexes[-1])
    expected = ["7", last, str(len(indexes)), str(indexes[0]), last, step]
    assert [found[f"SLURM_{name}"] for name in names] == expected
    assert (found["SLURM_MEM_PER_CPU"], "SLURM_MEM_PER_NODE" in found) == ("3", False)


def test_file_names_have_the_patterns_of_slurm():
    job = Job(128, name="a/b", user="ana", array=120, index=8)
    here = os.uname().nodename.partition(".")[0]
    assert named("%x-%A_%a.%j", job) == "a_b-120_8.128"
    assert named("%4j %3a %N %n %t %J %u", job) == f"0128 008 {here} 0 0 128 ana"
    assert named("100%% %q %", job) == "100% %q %"


def test_an_array_script_of_slurm_runs_with_its_indexes(live):
    (live.folder / "fit.sh").write_text(
        "#!/bin/sh\n#SBATCH -p short --array=3-5:2 --mem-per-cpu=1M -c 2\n#SBATCH -o part%a.txt\n"
        'echo "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MAX $SLURM_CPUS_PER_TASK $SLURM_SUBMIT_DIR"\n'
    )
    done = live.run("submit", "--parsable", "fit.sh")
    assert done.stderr == "backfill: fit.sh: ignored options, which this queue does not have: --partition\n"
    array = int(done.stdout)
    live.run("wait", array)
    for index in (3, 5):
        assert (live.folder / f"part{index}.txt").read_text() == f"{array} {index} 5 2 {live.folder}\n"
    assert live.job(f"{array}_3")["need"]["memory"] == 2 * MIB
    (live.folder / "wide.sh").write_text("#!/bin/sh\n#SBATCH --nodes=2\n")
    refused = live.run("submit", "wide.sh", check=2)
    assert refused.stderr == "backfill: the queue has one machine, the job asks for 2 nodes; expected 1\n"
    refused = live.run("submit", "--exclusive", "--", "true", check=3)
    assert refused.stderr.startswith("backfill: --exclusive: jobs share the machine")
    assert "no features" in live.run("submit", "-C", "gpu", "--", "true", check=2).stderr
    assert "cannot be combined" in live.run("submit", "--mem", 1, "--mem-per-cpu", 1, "--", "true", check=2).stderr
