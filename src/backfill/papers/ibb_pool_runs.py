"""Runs of the 54 jobs on a pool, beside their simulation, and the numbers for the comparison."""

from dataclasses import replace

from backfill.api import run_spec
from backfill.gang_run import Ran
from backfill.model.units import SECOND
from backfill.model.workload import Workload
from backfill.papers import nas
from backfill.papers.ibb_claims import IBB, IBB_CYCLE
from backfill.papers.ibb_logs import RESPONSE, SLOWDOWN, WAIT
from backfill.papers.ibb_models import of_times
from backfill.papers.sweep import Numbers
from backfill.spec import RunSpec

WIDE = nas.PROCESSES[-1]  # cpus of the jobs whose wait is reported separately
DEAD, LAUNCH, WIDE_WAIT = "dead_time_s", "launch_s", "wait_of_wide_s"
MAKESPAN, BUSY, AT_ONCE = "makespan_s", "busy", "mean_running_jobs"
LARGEST_WAIT, UNEVEN = "wait_of_largest", "unevenness"


def policy_of(name: str) -> str:
    """Return the policy for a display name."""
    return IBB if name == IBB_CYCLE else name


def simulated(log: Workload, name: str, dead: int, ran: Ran, cycle: int) -> Ran:
    """Simulate the same run with the measured mean dead time. dead, cycle: see gang_run.run.

    If passes happen only at multiples of the cycle, a job waits, and a run holds its nodes, until the next multiple.
    """
    held, launch = ran.dead(log), ran.launch
    jobs = log.jobs
    runtime, submit = jobs.runtime + held, jobs.submit
    if cycle:
        runtime, submit = (-(-each // cycle) * cycle for each in (runtime, submit))
    longer = replace(log, jobs=jobs.replace(submit=submit, runtime=runtime, walltime=jobs.walltime + dead))
    schedule = run_spec(longer, None, RunSpec.of(policy_of(name), overrun="extend")).schedule
    running = schedule.start + launch
    return Ran(schedule.start, running, running + jobs.runtime, schedule.start + jobs.runtime + held)


def numbers(log: Workload, ran: Ran) -> Numbers:
    """Return the reported numbers of a run."""
    jobs, cpus = log.jobs, int(log.platform.capacity[:, 0].sum())
    wait, response, span = ran.running - jobs.submit, ran.ended - jobs.submit, ran.ended - ran.running
    makespan = int(ran.ended.max() - jobs.submit.min())
    values = {
        WAIT: wait.mean() / SECOND,
        RESPONSE: response.mean() / SECOND,
        SLOWDOWN: (response / jobs.runtime).mean(),
        WIDE_WAIT: wait[jobs.tasks == WIDE].mean() / SECOND,
        MAKESPAN: makespan / SECOND,
        BUSY: (span * jobs.tasks).sum() / (makespan * cpus),
        AT_ONCE: span.sum() / makespan,
        DEAD: ran.dead(log) / SECOND,
        LAUNCH: ran.launch / SECOND,
    }
    return {name: float(value) for name, value in values.items()} | of_times(jobs, ran.running, ran.ended)
