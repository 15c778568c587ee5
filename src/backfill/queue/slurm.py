"""Environment variables that Slurm sets, for jobs whose script was written for Slurm."""

from __future__ import annotations

import os
import time
from itertools import groupby

from backfill.queue.nodes import MACHINE

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from backfill.queue.job import Attempt, Run
    from backfill.queue.shapes import SlurmSpec

NAMES = (  # all variables that a script may find
    "SLURMD_NODENAME", *(f"SLURM_{name}" for name in (
        "JOB_ID", "JOBID", "JOB_NAME", "JOB_USER", "JOB_UID", "JOB_NUM_NODES", "NNODES", "JOB_NODELIST", "NODELIST",
        "NODEID", "PROCID", "LOCALID", "NTASKS", "NPROCS", "TASKS_PER_NODE", "CPUS_PER_TASK", "CPUS_ON_NODE",
        "JOB_CPUS_PER_NODE", "SUBMIT_DIR", "SUBMIT_HOST", "JOB_START_TIME", "JOB_END_TIME", "MEM_PER_CPU",
        "MEM_PER_NODE", "ARRAY_JOB_ID", "ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "ARRAY_TASK_MIN", "ARRAY_TASK_MAX",
        "ARRAY_TASK_STEP", "JOB_ACCOUNT", "JOB_PARTITION", "JOB_QOS", "JOB_GPUS", "GPUS_ON_NODE", "RESTART_COUNT")),
)  # fmt: skip
# Variables inside a job of Slurm itself that have no meaning here.
OTHERS = ("SLURM_CLUSTER_NAME", "SLURM_STEP_ID")


def variables(run: Run, facts: SlurmSpec) -> dict[str, str]:
    """Return the environment variables of sbatch that have the same meaning in this queue. facts: see `submitted`."""
    job, gpu_ids = run.job, run.attempt.gpu_ids
    here, tasks, now = os.uname().nodename, max(int(facts["tasks"]), 1), int(time.time())
    each = max(tasks // job.tasks, 1)  # Slurm's tasks per task of the job
    nodes = nodes_of(run.attempt) or [(here.partition(".")[0], job.tasks)]
    listed = ",".join(name for name, _ in nodes)
    cpus, counts = [count * job.need["cpus"] for _, count in nodes], [count * each for _, count in nodes]
    found: dict[str, object] = {
        "JOB_ID": job.id, "JOBID": job.id, "JOB_NAME": job.name, "JOB_USER": job.user, "JOB_UID": os.getuid(),
        "JOB_NUM_NODES": len(nodes), "NNODES": len(nodes), "JOB_NODELIST": listed, "NODELIST": listed,
        "NODEID": 0, "PROCID": 0, "LOCALID": 0, "NTASKS": tasks, "NPROCS": tasks, "TASKS_PER_NODE": _repeated(counts),
        "CPUS_PER_TASK": max(job.need["cpus"] // each, 1), "CPUS_ON_NODE": cpus[0],
        "JOB_CPUS_PER_NODE": _repeated(cpus), "SUBMIT_DIR": facts["dir"], "SUBMIT_HOST": facts["host"],
        "JOB_START_TIME": now, "JOB_END_TIME": now + job.walltime // 10**6,
    }  # fmt: skip
    if "per_cpu" in facts:
        found["MEM_PER_CPU"] = facts["per_cpu"] >> 20
    elif job.need.get("memory"):
        found["MEM_PER_NODE"] = (job.need["memory"] * nodes[0][1]) >> 20
    if job.index is not None and "array" in facts:
        names = ("ARRAY_TASK_COUNT", "ARRAY_TASK_MIN", "ARRAY_TASK_MAX", "ARRAY_TASK_STEP")
        found |= {
            "ARRAY_JOB_ID": job.array,
            "ARRAY_TASK_ID": job.index,
            **dict(zip(names, facts["array"], strict=True)),
        }
    for name, value in (("ACCOUNT", job.project), ("PARTITION", job.partition), ("QOS", job.qos)):
        if value:
            found[f"JOB_{name}"] = value
    if gpu_ids:
        found |= {"JOB_GPUS": ",".join(map(str, gpu_ids)), "GPUS_ON_NODE": len(gpu_ids)}
    if job.restarts + job.preemptions:
        found["RESTART_COUNT"] = job.restarts + job.preemptions
    return {"SLURMD_NODENAME": nodes[0][0], **{f"SLURM_{name}": str(value) for name, value in found.items()}}


def nodes_of(attempt: Attempt) -> list[tuple[str, int]]:
    """Return the nodes of an attempt with its tasks there, if the queue decides on nodes."""
    return [(name, tasks) for name, tasks, *_ in attempt.nodes if name != MACHINE]


def _repeated(counts: list[int]) -> str:
    """Return counts of successive nodes as Slurm writes them: 4, 2(x3),1."""
    parts = [(count, len([*same])) for count, same in groupby(counts)]
    return ",".join(f"{count}(x{many})" if many > 1 else str(count) for count, many in parts)
