"""An independent checker of any schedule. It shares no code with the simulator, so it cannot share its mistakes.

| rule | requirement |
| --- | --- |
| `jobs` | every job of the workload is in the schedule, exactly once, and no other |
| `submit` | a submit in the schedule equals the workload's |
| `start` | no start before the submit, before `eligible`, or before the end (and think time) of a predecessor |
| `end` | end = start + held time: run time / speed, longer on several sites, cut at the walltime |
| `state` | TIMEOUT exactly for killed jobs (not if run time = walltime), REJECTED without a start |
| `reason` | the reason of a start is one of the closed list |
| `rejected` | a job without a start could not run even alone at full capacity, or depends on such a job |
| `pending` | jobs never start only if one could not run even alone at the end, or a limit on minutes is used up |
| `runs` | runs of a job do not overlap; it reruns exactly after a loss or preemption; its row is the last run |
| `progress` | a lost run keeps nothing, no run keeps more than its length, and a completed job has run entirely |
| `lost` | a run is lost exactly if capacity that it holds goes away; if some can stay, the last started go |
| `cancel` | a job is CANCELLED exactly if an event cancels it: it ends then, and never starts later |
| `window` | no job starts that, by its walltime, would hold resources of a window announced before |
| `node` | the nodes exist, and the tasks on them are all the job's tasks |
| `spread` | a gang keeps to one node, to one site, or to different nodes, if it must |
| `site` | a job bound to a site runs there |
| `constraint` | a job runs only on nodes with the features that it requests |
| `partition` | a job runs on nodes of its partition, and obeys it, its quality of service and all limits |
| `reservation` | only jobs that request a reservation, and may use it, run in it: in its time, on its resources |
| `whole` | a job on whole nodes shares none of them with a job that holds resources there |
| `limit` | the jobs that a limit counts never hold more in total than it allows |
| `queued` | no job runs whose submit exceeded a limit on queued jobs |
| `host` | a node holds no job with a licence that it may not host |
| `turns` | a run that shares processors has turns from its start on, in rows of a number common to all jobs |
| `capacity` | no resource of a node is held beyond its capacity at any instant, less outages and windows |
| `capacity` | the same for the cpus in each row, if rows take turns |
| `capacity` | a job without a demand starts on no closed node |
| `licence` | no floating licence is held beyond its copies at any instant, less windows |
| `promise` | no job starts later than the first start promised to it (only with `promises_bind`) |
| `promise` | no job is promised a start if the policy planned by predictions (`predicted`) |

A job holds resources on [start, end): one that starts when another ends may take its place. Without events, and
if each job ran once, a job and its run are the same. Events change walltimes and capacities; the checker
interprets them independently (`analysis/outages.py`).

Where each rule is checked:

* `reading.py`: `jobs`, while it lays the schedule out as a `Case` (`case.py`)
* `times.py`: `submit`, `start`, `promise`, `end`, `state`, `reason`, `runs`, `progress`, `lost`, `cancel`
* `dangling.py`: how long runs wait for others, if jobs may start before their predecessors end
* `turns.py`: `turns`, and the duration of runs that share processors
* `minutes.py`: jobs that a limit on minutes keeps from starting
* `alone.py`: `rejected`, `pending`, `cancel` of a job that could never run, and `capacity` of a run of 0 s
* `rules.py`: `partition`, `whole`, `limit`, `queued`
* `reserved.py`: `reservation`
* `capacity.py`: `node`, `spread`, `site`, `constraint`, `host`, `window`, `capacity`, `licence`
"""

from dataclasses import replace

from backfill.analysis.verify.alone import check_moments, check_pending, check_rejected, refused
from backfill.analysis.verify.capacity import check_capacity, check_hosts, check_licences, check_nodes, check_windows
from backfill.analysis.verify.case import SHOWN, Lost, Overrun, RunColumns, ScheduleColumns, Ties, Violation
from backfill.analysis.verify.dangling import dangling, lose_with
from backfill.analysis.verify.minutes import held_by_minutes
from backfill.analysis.verify.reading import read, with_events, with_node_licences
from backfill.analysis.verify.reserved import check_reservations, on_parts
from backfill.analysis.verify.rules import Membership, check_rules, on_whole_nodes
from backfill.analysis.verify.times import (
    check_after,
    check_cancelled,
    check_ends,
    check_lost,
    check_progress,
    check_runs,
    check_starts,
    check_states,
    lengths_of,
    lost_suspended,
    outcomes,
)
from backfill.analysis.verify.turns import Turns, check_turns, in_turns
from backfill.model.events import BoundEvents, Events
from backfill.model.platform import Platform
from backfill.model.reservations import divide
from backfill.model.schedule import Schedule
from backfill.model.workload import Ints, Workload

__all__ = ["SHOWN", "RunColumns", "ScheduleColumns", "Violation", "verify"]


def verify(
    workload: Workload,
    platform: Platform,
    schedule: Schedule | ScheduleColumns,
    *,
    overrun: Overrun = "kill",
    ties: Ties = "batch",
    promises_bind: bool = False,
    predicted: bool = False,
    events: Events | BoundEvents | None = None,
    lost: Lost = "requeue",
    place: str = "power",
    overhead: int = 0,
    dangles: bool = False,
    sharing: tuple[int, int] = (1, 0),
    seen: Ints | None = None,
) -> list[Violation]:
    """Return the violated rules; empty for a valid schedule. At most 20 violations of each in full, then their count.

    Columns that the schedule does not have are not checked: an end is then computed, and without nodes only the sums
    over the platform are compared (which is everything on a platform of one node). A resource or licence that the
    platform does not name counts as absent, but memory that it does not name is unlimited. A licence bound to nodes
    is a resource there: a job of one task may request it like any licence, a gang by a column, per task.
    If a speed is not 1, an end may differ by a microsecond for each run, the rounding of a division.

    ties: whether the submits of an instant come after its ends (batch) or before them (step), which matters if queued
    jobs are limited. events: those of the run. lost: the fate of a job whose run is lost. place: with
    `exclusive` a job is alone on its nodes, as in a partition with this rule. overhead: microseconds by which a run is
    longer after a preemption of its job. dangles: whether a job may start before its predecessors end;
    its run makes progress only after that. sharing: the number of rows of runs that may take turns on the processors,
    and the millionths of a turn that a switch takes; the walltime of a job then counts its progress. seen: the
    walltimes shown to the policy, if they are not those of the workload; by them a job must fit beside windows.
    predicted: whether these are predictions.
    """
    if isinstance(events, Events):
        events = events.bind(workload, platform)
    divided = divide(workload, platform, events)
    if platform.has_rules:
        workload = replace(workload, jobs=workload.jobs.replace(walltime=Membership(workload, platform).walltimes()))
    asked = with_node_licences(workload, platform)
    stated = undivided = read(asked, platform, schedule)
    if divided is not None:
        stated = on_parts(stated, divided)
        asked, platform, events = stated.workload, divided.platform, divided.events
    members = Membership(asked, platform, place)
    case = on_whole_nodes(stated, members)
    if events is not None:
        case = with_events(case, schedule, events)
    held = held_by_minutes(case, schedule.state)
    case = replace(case, pending=case.pending | held)
    if dangles:
        progress, lengths = dangling(case, overrun, overhead)
        if case.replay is not None and lost == "requeue":
            lose_with(case, case.replay)
    else:
        progress = lengths = lengths_of(case, overrun, overhead)
    turns = None
    if sharing[0] > 1:
        turns = check_turns(case, Turns.of_schedule(case, schedule, *sharing))
        lengths = in_turns(case, lengths, turns)
    outcome = outcomes(case, lengths, schedule.runs is not None)
    check_starts(case, schedule, promises_bind, predicted)
    until = check_ends(case, schedule, lengths, outcome)
    waited = lost_suspended(case, outcome, lost)
    check_states(case, schedule, lengths, outcome, lost, waited)
    if schedule.runs is not None or case.outages is not None:
        check_runs(case, schedule, outcome, lost, waited)
        check_progress(case, lengths, outcome)
    if case.outages is not None:
        check_pending(case, members, held)
        check_lost(case)
        check_cancelled(case, until)
        since = case.runs.start + (lengths.longest - progress.longest if dangles else 0)
        check_windows(case, until, case.workload.jobs.walltime if seen is None else seen, progress, since)
    if not dangles:
        check_after(case, until)
    full = refused(case, until, ties, lost, members)
    check_rejected(case, schedule, full, members)
    check_rules(case, until, members, full)
    if case.placed:
        check_nodes(stated)
        check_hosts(case if divided is None else undivided)
    if divided is not None:
        at_first = replace(undivided, report=case.report, outages=case.outages)
        check_reservations(at_first, until, list(divided.division.reservations))
    check_capacity(case, until, turns)
    check_moments(case, until, members)
    check_licences(case, until)
    return case.report.violations()
