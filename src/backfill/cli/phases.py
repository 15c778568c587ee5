"""The fidelity of policy slurm on a site's own log: phases of its clocks, other policies, re-synchronised hours."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backfill.analysis.phases import Fidelity
    from backfill.api import Result
    from backfill.spec import RunSpec
    from backfill.traces.slurm_site import ReadSite
    from backfill.worlds.slurm_resync import Resynchronised
    from backfill.worlds.slurm_story import Story
    from backfill.worlds.slurm_truth import Agreement

LIMITS = ("QOS", "Assoc")  # reasons of jobs whose start in squeue is not that of a plan
OTHERS = ("conservative", "easy-priority")


@dataclass(frozen=True, slots=True)
class Judged:
    """How far a run of policy slurm is from the log and the dumps of its site."""

    fidelity: "Fidelity"
    again: "Resynchronised | None"  # if sacct.txt says where jobs ran
    alike: "Agreement | None"  # with sprio.txt and squeue.txt

    @property
    def sentences(self) -> list[str]:
        """The judgement in sentences."""
        said = [*self.fidelity.sentences, *([self.again.sentence] if self.again else [])]
        if self.alike is not None:
            said += [f"{kind}: {self.alike.alike[kind]:,} of {n:,} alike" for kind, n in self.alike.total.items()]
            said += self.alike.differences
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            **self.fidelity.to_dict(),
            **({"resynchronised": self.again.to_dict()} if self.again else {}),
            **({"moment": self.alike.to_dict()} if self.alike else {}),
        }


def judged(result: "Result", site: str | None) -> Judged | None:
    """Return how far a run of policy slurm is from the log of its site; None for another run, or without a site."""
    if result.policy.name != "slurm" or site is None or result.replay is None:
        return None

    from backfill.analysis.phases import fidelity
    from backfill.cli.inputs import site_again
    from backfill.cli.run import run
    from backfill.settings import PHASES, in_phases
    from backfill.spec import RunSpec

    workload, platform, spec, read = result.workload, result.platform, result.spec, site_again(site)
    phases = [result, *(run(workload, platform, each) for each in in_phases(spec, platform, PHASES)[1:])]
    others = [
        run(workload, platform, RunSpec(named=name, given={}, options=spec.options, warmup=spec.warmup,
                                        cooldown=spec.cooldown)) for name in OTHERS
    ]  # fmt: skip
    loops = {job: each.loop for job, each in read.requests.logged.items()} if read.requests else None
    found = fidelity(phases, others, loops)
    return None if found is None else Judged(found, *_by_the_dumps(read, spec))


def in_slurms_words(result: "Result") -> "Story | None":
    """Return why the explained job waited, in Slurm's words; None for another policy or without a site."""
    if result.policy.name != "slurm" or result.platform.slurm is None or result.spec.explained is None:
        return None

    from backfill.worlds.slurm_story import story

    row = result.workload.row_of(result.spec.explained, "explain")
    if not result.schedule.ran[row]:
        return None
    return story(result.workload, result.platform, result.spec.params, result.options, row)


def _by_the_dumps(read: "ReadSite", spec: "RunSpec") -> "tuple[Resynchronised | None, Agreement | None]":
    """Return the agreement in re-synchronised hours, and with sprio and squeue."""
    from dataclasses import replace

    import numpy as np

    from backfill.worlds.slurm_resync import Happened, Window, planned_alike, ranked_alike, resynchronised
    from backfill.worlds.slurm_story import reasons_alike

    if read.requests is None:
        return None, None
    workload, said = read.requests.workload, read.moment
    logged = [read.requests.logged[str(job)] for job in workload.jobs.job.tolist()]
    start, end = (np.array(each, np.int64) for each in zip(*((one.start, one.end) for one in logged), strict=True))
    reserved = [Window(each.begin, each.end, each.nodes) for each in said.reserved]
    happened = Happened(start, end, [one.nodes for one in logged], reserved)
    # a job is in the queue, and its age counts, from the time at which it is eligible
    since = np.maximum(workload.jobs.submit, np.array([one.eligible for one in logged], np.int64))
    workload = replace(workload, jobs=workload.jobs.replace(submit=since))
    again = resynchronised(workload, read.platform, spec.params, happened)
    now = said.diagnosed.last_cycle if said.diagnosed else 0
    if not now:
        return again, None
    alike = None
    if said.ranked:
        ranked = {each.job: (each.priority, each.factors) for each in said.ranked}
        alike = ranked_alike(workload, read.platform, spec.params, happened, ranked, now)
    if said.expected:
        free = {each.job: each.start for each in said.expected if not each.reason.startswith(LIMITS)}
        plans = planned_alike(workload, read.platform, spec.params, happened, free, now)
        codes = {each.job: each.reason for each in said.expected}
        plans = plans.plus(reasons_alike(workload, read.platform, spec.params, happened, codes, now))
        alike = plans if alike is None else alike.plus(plans)
    return again, alike
