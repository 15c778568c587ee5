"""A job finds its own variables, also if another job has submitted it."""

import sys

import pytest

from backfill.client import sbatch
from backfill.daemon.notices import Notices
from backfill.pools.local.pool import attempt_spec
from backfill.queue import slurm as slurm_variables
from backfill.queue.job import Attempt, Job, Run
from tests.patience import until

MIB = 1 << 20


def job(number, **more):
    return Job(number, name="fit", user="ana", walltime=60_000_000, **{"need": {"cpus": 2}, **more})


def env_of(tmp_path, one, env, attempt=None, **spec):
    run = Run(one, attempt or Attempt(1, 0))
    return attempt_spec(tmp_path, run, {"argv": ["true"], "cwd": "/", "env": env, **spec})["env"]


@pytest.fixture
def outer(tmp_path):
    """The environment of a job that submits others: a task of an array, with all variables that there are."""
    need = {"cpus": 4, "memory": 64 * MIB, "gpus": 1}
    one = job(9, array=7, index=2, need=need, project="lab", restarts=1, partition="short", qos="urgent")
    attempt = Attempt(1, 0, gpu_ids=[3], nodes=[["n1", 1]])
    mine = {"HOME": "/home/ana", "SLURM_CONF": "/etc/it", "BACKFILL_MINE": "1"}
    slurm = sbatch.submitted({"array": ([1, 2], 0)}, "/here")
    found = env_of(tmp_path, one, mine, attempt, slurm=slurm)
    assert {"SLURM_ARRAY_TASK_ID", "SLURM_JOB_GPUS", "BACKFILL_ARRAY_INDEX", "CUDA_VISIBLE_DEVICES"} <= found.keys()
    return found


def test_no_variable_of_slurm_is_unknown(tmp_path, outer):
    slurm = {name for name in outer if name.startswith("SLURM")} - {"SLURM_CONF"}
    assert {*slurm_variables.NAMES} - slurm == {"SLURM_MEM_PER_CPU"}, "the other one of a job is SLURM_MEM_PER_NODE"
    assert not slurm - {*slurm_variables.NAMES}


def test_a_job_has_nothing_of_the_job_that_submitted_it(tmp_path, outer):
    alone = env_of(tmp_path, job(11), {"HOME": "/home/ana", "SLURM_CONF": "/etc/it", "BACKFILL_MINE": "1"})
    inner = env_of(tmp_path, job(11), outer)
    assert inner == alone
    assert (inner["OMP_NUM_THREADS"], inner["BACKFILL_JOB_ID"]) == ("2", "11")


def test_a_script_of_slurm_has_nothing_of_the_job_that_submitted_it(tmp_path, outer):
    slurm = sbatch.submitted({}, "/here")
    found = env_of(tmp_path, job(11), outer, slurm=slurm)
    assert (found["SLURM_JOB_ID"], found["SLURM_CPUS_ON_NODE"]) == ("11", "2")
    assert not {"SLURM_ARRAY_TASK_ID", "SLURM_JOB_GPUS", "SLURM_RESTART_COUNT", "BACKFILL_ARRAY_ID"} & found.keys()


def test_what_a_job_sets_itself_is_handed_on(tmp_path, outer):
    found = env_of(tmp_path, job(11), {**outer, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "5"})
    assert (found["OMP_NUM_THREADS"], found["CUDA_VISIBLE_DEVICES"]) == ("1", "5")


def test_variables_of_an_allocation_of_slurm_stay(tmp_path):
    """A queue may be started in one, and its jobs may call srun."""
    allocation = {"SLURM_JOB_ID": "4711", "SLURM_NODELIST": "n[1-4]"}
    first = env_of(tmp_path, job(9), allocation)
    assert allocation.items() <= first.items()
    assert allocation.items() <= env_of(tmp_path, job(10), first).items()


def test_the_command_of_notify_is_no_process_of_the_job_that_submitted(tmp_path, outer):
    """By these variables it would be ended with that job."""
    done = job(11, state="COMPLETED", notify="env > said")
    notices = Notices(str(tmp_path))
    notices.start(done, {"env": {**outer, "PATH": "/usr/bin:/bin"}, "cwd": str(tmp_path)})
    until(lambda: not notices.look())
    told = (tmp_path / "said").read_text()
    assert "BACKFILL_JOB=11" in told
    assert "BACKFILL_ATTEMPT" not in told
    assert "BACKFILL_ARRAY" not in told


def test_a_job_that_a_task_of_an_array_submits_has_no_index(live):
    submit = "backfill submit -q -- sh -c 'env | grep -e BACKFILL_ -e SLURM_ > inner; mv inner told'"
    array = live.submit("--array", "3", "--", "sh", "-c", f"export PATH; {sys.executable} -m {submit}")
    live.run("wait", array)
    told = until(lambda: (live.folder / "told").exists() and (live.folder / "told").read_text())
    assert "BACKFILL_ARRAY" not in told
    assert f"BACKFILL_JOB_ID={array + 1}\n" in told
