"""The environment of a job: the variables of its submitter, and its own."""

from __future__ import annotations

import time

from backfill.queue import slurm
from backfill.system.processes import ATTEMPT, JOB, KEEPER, marks

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from collections.abc import Mapping

    from backfill.queue.job import Run
    from backfill.queue.shapes import Spec

OWN = (  # variables of a job, or of the command of --notify
    JOB, ATTEMPT, KEEPER, "BACKFILL_JOB_NAME", "BACKFILL_ARRAY_ID", "BACKFILL_ARRAY_INDEX", "BACKFILL_CPUS",
    "BACKFILL_GPUS", "BACKFILL_NODES", "BACKFILL_NTASKS",
    "BACKFILL_WALLTIME_S", "BACKFILL_END_TIME", "BACKFILL_JOB", "BACKFILL_STATE", "BACKFILL_REASON",
    "BACKFILL_EXIT_CODE",
)  # fmt: skip
ALIKE = {"OMP_NUM_THREADS": "BACKFILL_CPUS", "CUDA_VISIBLE_DEVICES": "BACKFILL_GPUS"}  # set by the queue from others


def inherited(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job inherits from its submitter.

    If the submitter is a job itself, the variables that the queue set for that job are left out. Variables of Slurm
    stay if they belong to an allocation in which the queue was started.
    """
    left = {name: value for name, value in env.items() if name not in OWN}
    for name, own in ALIKE.items():
        if own in env and env.get(name) == env[own]:
            del left[name]
    if JOB in env and env.get("SLURM_JOB_ID") == env[JOB]:
        left = {name: value for name, value in left.items() if name not in slurm.NAMES}
    return left


def of_job(home: str, run: Run, spec: Spec) -> dict[str, str]:
    """Return the environment of the attempt of a job that begins now."""
    job, attempt = run.job, run.attempt
    walltime = job.walltime / 1e6
    env = inherited(spec.get("env", {}))
    if spec.get("slurm"):
        env = {name: value for name, value in env.items() if name not in (*slurm.NAMES, *slurm.OTHERS)}
        env |= slurm.variables(run, spec["slurm"])
    env |= {
        **marks(home, f"{job.id}.{attempt.number}"),
        KEEPER: f"{home}/keeper.sock",
        "BACKFILL_JOB_NAME": job.name,
        "BACKFILL_CPUS": str(job.need["cpus"]),
        "BACKFILL_WALLTIME_S": f"{walltime:g}",
        "BACKFILL_END_TIME": str(int(time.time() + walltime)),
    }
    env.setdefault("OMP_NUM_THREADS", str(job.need["cpus"]))
    if job.index is not None:
        env |= {"BACKFILL_ARRAY_ID": str(job.array), "BACKFILL_ARRAY_INDEX": str(job.index)}
    if nodes := slurm.nodes_of(attempt):
        env["BACKFILL_NODES"] = ";".join(f"{name}*{tasks}" for name, tasks in nodes)
        env["BACKFILL_NTASKS"] = str(job.ntasks or job.tasks)
    if attempt.gpu_ids:
        env["CUDA_VISIBLE_DEVICES"] = env["BACKFILL_GPUS"] = ",".join(map(str, attempt.gpu_ids))
    return env
