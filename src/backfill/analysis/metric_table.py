"""Every metric of a schedule: its name, unit, direction, heading and explanation; whatever shows metrics reads this."""

from dataclasses import dataclass

LOWER, NEITHER, HIGHER = -1, 0, 1  # which values are better
SHARE, NUMBER = "share", "number"  # units beside s, h and so on


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    name: as in `simulate --json`; of a metric of each resource without the resource. unit: seconds (s), a share, a
    number, or what is counted. better: LOWER or HIGHER if one of them is better whatever the user wants, or NEITHER.
    heading: of a column or row. explanation: a definition in one line.
    """

    name: str
    unit: str
    better: int
    heading: str
    explanation: str

    @property
    def share(self) -> bool:
        """Whether the value is a share, shown in percent."""
        return self.unit == SHARE


TABLE = (
    Metric("jobs", "jobs", NEITHER, "jobs", "jobs that ran to their end or their walltime"),
    Metric("mean_wait_s", "s", LOWER, "mean wait", "start - submit, on average"),
    Metric("median_wait_s", "s", LOWER, "median wait", "half of the jobs wait no longer"),
    Metric("p95_wait_s", "s", LOWER, "p95 wait", "95 of 100 jobs wait no longer"),
    Metric("max_wait_s", "s", LOWER, "max wait", "the longest wait"),
    Metric("mean_response_s", "s", LOWER, "mean response", "end - submit, on average"),
    Metric("mean_slowdown", NUMBER, LOWER, "mean slowdown", "(wait + run) / run"),
    Metric("mean_bounded_slowdown", NUMBER, LOWER, "bounded slowdown",
           "(wait + run) / run, where runs below 10 s count as 10 s"),
    Metric("utilization", SHARE, HIGHER, "utilization", "processor time held / (processors x makespan)"),
    Metric("makespan_s", "s", LOWER, "makespan", "last end - first submit"),
    Metric("throughput_jobs_per_h", "jobs/h", HIGHER, "jobs per hour", "jobs / makespan"),
    Metric("mean_running_jobs", "jobs", NEITHER, "mean running jobs", "jobs that run at a time, on average"),
    Metric("max_queue", "jobs", LOWER, "max queue", "most jobs that wait at one instant"),
    Metric("backfilled_jobs", "jobs", NEITHER, "backfilled jobs", "started while an earlier job stayed waiting"),
    Metric("killed_jobs", "jobs", LOWER, "killed jobs", "ended at their walltime"),
    Metric("rejected_jobs", "jobs", LOWER, "rejected jobs", "can never run on the platform"),
    # of events and preemption
    Metric("lost_cpu_hours", "cpu h", LOWER, "lost cpu hours", "work that has to be done again"),
    Metric("dangling_cpu_hours", "cpu h", LOWER, "dangling cpu hours", "held while waiting for predecessors"),
    Metric("requeues", "runs", LOWER, "requeues", "runs after which the job waited again"),
    Metric("cancelled_jobs", "jobs", NEITHER, "cancelled jobs", "cancelled before they started or while they ran"),
    Metric("failed_jobs", "jobs", LOWER, "failed jobs", "ended when their node was lost"),
    Metric("pending_jobs", "jobs", LOWER, "pending jobs", "never start: what they need never comes back"),
    # of farms
    Metric("out_deadline", SHARE, LOWER, "missed deadlines", "jobs that end after their deadline, of those with one"),
    Metric("system_usage", SHARE, HIGHER, "system usage",
           "cpus held / min(all cpus, cpus of the jobs in the system), to the last submit"),
    Metric("system_usage_to_end", SHARE, HIGHER, "system usage to end", "the same to the last end"),
    Metric("system_usage_printed", SHARE, NEITHER, "system usage printed",
           "cpus held / min(all cpus, jobs in the system), as the paper prints it"),
    Metric("licence_usage", SHARE, HIGHER, "licence usage", "copies held / copies, to the last submit"),
    # of projects
    Metric("projects", "projects", NEITHER, "projects", "projects all of whose jobs ran"),
    Metric("mean_project_turnaround_s", "s", LOWER, "project turn-around", "last end - first submit, on average"),
    Metric("mean_project_wait_s", "s", LOWER, "mean project wait", "first start - first submit, on average"),
    Metric("mean_project_run_s", "s", LOWER, "mean project run", "last end - first start, on average"),
    Metric("mean_project_job_turnaround_s", "s", LOWER, "mean project job turnaround",
           "end - submit of the jobs, on average over projects"),
    Metric("first_projects_turnaround_s", "s", LOWER, "first projects turnaround", "of the first tenth of projects"),
    Metric("last_projects_turnaround_s", "s", LOWER, "last projects turnaround", "of the last tenth of projects"),
    Metric("projects_per_h", "projects/h", HIGHER, "projects per hour", "projects / (last end - first submit)"),
    Metric("idle_while_waiting_cpu_hours", "cpu h", LOWER, "idle while waiting cpu hours",
           "processors that are idle while jobs wait"),
    # of predictions
    Metric("prediction_error_s", "s", LOWER, "prediction error", "distance of the prediction from the run time"),
    Metric("walltime_error_s", "s", NEITHER, "walltime error", "distance of the walltime from the run time"),
    Metric("prediction_accuracy", NUMBER, HIGHER, "prediction accuracy",
           "the smaller of prediction and run time / the larger"),
    Metric("walltime_accuracy", NUMBER, NEITHER, "walltime accuracy",
           "the smaller of walltime and run time / the larger"),
    Metric("underpredicted_share", SHARE, LOWER, "underpredicted", "jobs that ran longer than predicted"),
    # of promised starts
    Metric("promised_jobs", "jobs", NEITHER, "promised jobs", "jobs that ran and had been promised a start"),
    Metric("moved_promises", "changes", LOWER, "moved promises", "changes of a promised start"),
    Metric("moved_jobs", "jobs", LOWER, "moved jobs", "jobs whose promised start changed"),
    Metric("made_way_jobs", "jobs", NEITHER, "made way jobs", "jobs whose promised start changed for another job"),
    Metric("kept_promises", "jobs", NEITHER, "kept promises", "jobs that started no later than first promised"),
    Metric("broken_share", SHARE, LOWER, "promises that slip", "promised jobs that start later than first promised"),
    Metric("mean_slip_s", "s", LOWER, "mean slip", "start - first promise, of the jobs that started later"),
    Metric("max_slip_s", "s", LOWER, "max slip", "the longest of these"),
    # of promised departures
    Metric("promised_projects", "projects", NEITHER, "promised projects", "projects that were promised a departure"),
    Metric("moved_departures", "changes", LOWER, "moved departures", "changes of a promised departure"),
    Metric("moved_projects", "projects", LOWER, "moved projects", "projects whose departure changed"),
    Metric("made_way_projects", "projects", NEITHER, "made way projects",
           "projects whose departure changed for another job"),
    Metric("mean_departure_move_s", "s", LOWER, "mean departure move", "by how much these changes moved a departure"),
    Metric("max_departure_move_s", "s", LOWER, "max departure move", "the largest of these"),
    Metric("kept_departures", "projects", NEITHER, "kept departures", "departed no later than first promised"),
    Metric("kept_last_departures", "projects", NEITHER, "kept last departures", "departed no later than last promised"),
    Metric("mean_departure_slip_s", "s", LOWER, "mean departure slip",
           "departure - first promise, of the projects that departed later"),
    Metric("max_departure_slip_s", "s", LOWER, "max departure slip", "the longest of these"),
    # of grids
    Metric("local_jobs", "jobs", NEITHER, "local jobs", "jobs of one task that are bound to one site"),
    Metric("mean_local_response_s", "s", LOWER, "mean local response", "end - submit of local jobs, on average"),
    Metric("mean_local_slowdown", NUMBER, LOWER, "mean local slowdown", "(end - submit) / run of local jobs"),
    Metric("gangs", "gangs", NEITHER, "gangs", "all other jobs"),
    Metric("weighted_response_s", "s", LOWER, "weighted response", "end - submit of gangs, weighted by processors"),
    Metric("weighted_slowdown", NUMBER, LOWER, "weighted slowdown",
           "(end - submit) / run of gangs, weighted by processors"),
    Metric("completed_gangs", SHARE, HIGHER, "completed gangs", "gangs that ended by the last submit of all"),
    # of several resources
    Metric("imbalance", NUMBER, LOWER, "imbalance", "largest / mean share of the resources that jobs hold"),
    # of two policies, or of two kinds of estimates
    Metric("later_share", SHARE, LOWER, "jobs that start later", "later than under the first"),
    Metric("users_longer", "users", LOWER, "users who wait longer", "longer than under the first, on average"),
)  # fmt: skip
OF_EACH_RESOURCE = (
    Metric("utilization_", SHARE, HIGHER, "utilization", "share of this resource that jobs hold"),
    Metric("fragmentation_", SHARE, LOWER, "fragmentation", "free on nodes where no job can use it"),
)
_NAMED = {metric.name: metric for metric in TABLE}


def described(name: str) -> Metric:
    """Return a metric by its name. Raises KeyError."""
    for each in OF_EACH_RESOURCE:
        if name.startswith(each.name):
            return Metric(name, each.unit, each.better, name.replace("_", " "), each.explanation)
    return _NAMED[name]
