"""The slow world: time passes, jobs are submitted and end, and the policy is asked. Plain and in full view."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, inf
from typing import Any

from .balance import backfill_lowest, bb, best_fit, ibb
from .conservative import conservative
from .depth import reservation_depth
from .easy import ALL, easy
from .fairshare import Shares, fairshare
from .farm import Weights, bf_mod, bf_unmod
from .fcfs import fcfs
from .flexible import Weights as Priorities
from .flexible import flexible
from .gangmatrix import gang_matrix
from .gangs import gang_site, gang_span
from .lanes import FUTURE
from .limits import is_full, with_accounts
from .lookahead import combinational, lookahead
from .machine import Machine, with_presence
from .multiqueue import multi_queue
from .orders import SCORES
from .partitions import dynamic_partitions, partitions
from .placement import held, minus, place, plus, whole
from .predict import Average2
from .preemptive import preemptive
from .relaxed import dynamic, relaxed
from .roundrobin import round_robin
from .selective import selective
from .slack import slack
from .slurm import Keys, slurm
from .threads import thread_matrix
from .twotier import project_of, two_tier
from .words import (
    Decision,
    Event,
    Job,
    Placement,
    Platform,
    Policy,
    Preempted,
    Reservation,
    Room,
    Running,
    Start,
    Time,
    View,
)

POLICIES: dict[str, Policy] = {
    "fcfs": fcfs,
    "easy": easy(),
    **{f"easy-{order}": easy(order) for order in SCORES if order != "fcfs"},
    "easy-sjbf": easy(tried="sjf"),
    "first-fit": easy(reservations=0),
    "k-reservations": easy(reservations=4),
    "k-reservations:k=2": easy(reservations=2),
    "k-reservations:k=inf": easy(reservations=ALL),
    "k-reservations:k=3,order=lxf,tried=saf": easy("lxf", "saf", 3),
    "easy:order=saf,tried=ljf": easy("saf", "ljf"),
    "first-fit:order=sjf": easy("sjf", reservations=0),
    "conservative": conservative(),
    "conservative:every=7": conservative(every=7),
    "reservation-depth": reservation_depth(),
    "reservation-depth:k=2": reservation_depth(2),
    "reservation-depth:k=3,every=7": reservation_depth(3, 7),
    "reservation-depth:k=1,order=lxf": reservation_depth(1, order="lxf"),
    "reservation-depth:k=inf,every=7": reservation_depth(inf, 7),
    "bf-fcfs": easy(),
    "bf-mod": bf_mod(),
    "bf-unmod": bf_unmod(),
    "bf-mod:age_factor=0,k=2,w_licences=3": bf_mod(Weights(age_factor="0", k="2", w_licences="3")),
    "bf-mod:w_aging=0,w_licences=0,w_wait=0": bf_mod(Weights(w_aging="0", w_licences="0", w_wait="0")),
    "bf-mod:w_aging=0,w_deadline=0,w_wait=0": bf_mod(Weights(w_aging="0", w_deadline="0", w_wait="0")),
    "flexible": flexible(),
    "flexible:w_admin=-2,w_wait=0,w_xf=3,w_bypass=1.5": flexible(
        Priorities(w_admin="-2", w_wait="0", w_xf="3", w_bypass="1.5")
    ),
    "flexible:w_user=10,w_wait=0,w_bypass=4": flexible(Priorities(w_user="10", w_wait="0", w_bypass="4")),
    "flexible:w_wait=30,w_procs=-1,w_walltime=-600": flexible(Priorities(w_wait="30", w_procs="-1", w_walltime="-600")),
    "flexible:backfill=best-fit": flexible(backfill="best-fit"),
    "flexible:backfill=greedy": flexible(backfill="greedy"),
    "flexible:w_wait=0,w_target_wait=1,target_wait=1": flexible(
        Priorities(w_wait="0", w_target_wait="1", target_wait="1")
    ),
    "flexible:w_wait=0,w_pe=1": flexible(Priorities(w_wait="0", w_pe="1")),
    "flexible:w_target_wait=5,target_wait=0.1,w_pe=3,res=-2,backfill=best-fit": flexible(
        Priorities(w_target_wait="5", target_wait="0.1", w_pe="3", res="-2"), "best-fit"
    ),
    "flexible:w_target_xf=2,target_xf=3,w_bypass=4,serv=0.5,cred=3,backfill=greedy,depth=3": flexible(
        Priorities(w_target_xf="2", target_xf="3", w_bypass="4", serv="0.5", cred="3"), "greedy", 3
    ),
    "flexible-fairshare": fairshare(),
    "flexible-fairshare:w_wait=0,fs_interval=0.001,fs_depth=3,fs_decay=0.5": fairshare(
        Shares(fs_interval="0.001", fs_depth=3, fs_decay="0.5"), Priorities(w_wait="0")
    ),
    "flexible-fairshare:w_fs_account=300,fs_account_target=60,fs_interval=0.002,fs_by=ratio,fs_mode=floor,w_bypass=1": (
        fairshare(
            Shares(w_fs_account="300", fs_account_target="60", fs_interval="0.002", fs_by="ratio", fs_mode="floor"),
            Priorities(w_bypass="1"),
        )
    ),
    "flexible-fairshare:w_fs_account=7,fs_account_target=5,fs_mode=ceiling,fs_policy=dedicated-pes,fs=0.5": fairshare(
        Shares(w_fs_account="7", fs_account_target="5", fs_mode="ceiling", fs_policy="dedicated-pes", fs="0.5")
    ),
    "bb": bb(),
    "bb:per_event=until_empty": bb("until_empty"),
    "backfill-lowest": backfill_lowest(),
    "ibb": ibb(),
    "ibb:test=balance": ibb("balance"),
    "ibb:refresh=false": ibb(refresh="false"),
    "best-fit": best_fit(),
    "best-fit:fit=tightest": best_fit("tightest"),
    "bf-unmod:w_deadline=0,boost=40": bf_unmod(Weights(w_deadline="0", boost="40")),
    "preemptive": preemptive(),
    "preemptive:how=checkpoint": preemptive("checkpoint"),
    "preemptive:how=checkpoint,overhead=2": preemptive("checkpoint", "2"),
    "preemptive:how=checkpoint,overhead=0": preemptive("checkpoint", "0"),
    "preemptive:how=suspend": preemptive("suspend"),
    "relaxed": relaxed(),
    "relaxed:omega=0": relaxed(0),
    "relaxed:omega=inf": relaxed(inf),
    "relaxed:omega=2,base=walltime,tried=wfp3": relaxed(2, "walltime", tried="wfp3"),
    "relaxed:order=sjf": relaxed(order="sjf"),
    "dynamic": dynamic(),
    "dynamic:delta=2,gain=0.4": dynamic(2, 0.4),
    "dynamic:delta=1,gain=0,order=lxf,tried=saf": dynamic(1, 0, "lxf", "saf"),
    "lookahead": lookahead(),
    "lookahead:depth=3": lookahead(3),
    "lookahead:depth=3,objective=processor_seconds": lookahead(3, "processor_seconds"),
    "lookahead:depth=inf,order=lxf,tried=saf": lookahead(inf, order="lxf", tried="saf"),
    "combinational": combinational(),
    "combinational:depth=3,order=sjf,tried=laf": combinational(3, "sjf", "laf"),
    "multi-queue": multi_queue(),
    "multi-queue:bound1=3,bound2=10,bound3=30": multi_queue((3, 10, 30)),
    "multi-queue:bound1=20,bound2=5,bound3=inf,high=0.5": multi_queue((5, 20), 0.5),
    "selective": selective(),
    "selective:rule=fixed": selective("fixed"),
    "selective:rule=fixed,threshold=1": selective("fixed", 1),
    "selective:rule=fixed,threshold=inf": selective("fixed", inf),
    "selective:rule=differential,order=lxf": selective("differential", order="lxf"),
    "slack": slack(),
    "slack:sf=0": slack(0),
    "slack:sf=1,slack_base=walltime,best=3,compress=false": slack(1, "walltime", 3, False),
    "slack:sf=0.5,slack_base=turnaround,best=inf": slack(0.5, "turnaround", inf),
    "thread-matrix": thread_matrix(),
    "thread-matrix:eager=true": thread_matrix(eager=True),
    "thread-matrix:n_max=1": thread_matrix(n_max=1),
    "thread-matrix:n_max=3,eager=true": thread_matrix(3, eager=True),
    "partition-fixed": partitions("fixed"),
    "partition-fixed:partitions=2": partitions("fixed", 2),
    "partition-variable": partitions("variable"),
    "partition-variable:free=thread": partitions("variable", free="thread"),
    "partition-variable:backfill=first-fit": partitions("variable", backfill="first-fit"),
    "partition-variable:backfill=easy": partitions("variable", backfill="easy"),
    "partition-variable:backfill=easy,free=thread": partitions("variable", backfill="easy", free="thread"),
    "partition-adaptive": partitions("adaptive"),
    "partition-adaptive:free=thread": partitions("adaptive", free="thread"),
    "partition-dynamic": dynamic_partitions,
    "round-robin": round_robin(),
    "round-robin:quantum=2": round_robin(2),
    "round-robin:quantum=2,overhead=1": round_robin(2, 1),
    "2tsb": two_tier(),
    "2tsb:compress=true": two_tier(compress=True),
    "2tfb": two_tier(moves=True, pl=0),
    "2tfb:compress=true,victims=any": two_tier(moves=True, pl=0, compress=True, victims="any"),
    "2tfb-sf": two_tier(moves=True, sf=0.5),
    "2tfb-sf:sf=0.2": two_tier(moves=True, sf=0.2),
    "2tfb-sf:sf=2,pl=1": two_tier(moves=True, sf=2, pl=1),
    "2tfb-sf:sf=1,victims=any,rebook=later_only": two_tier(moves=True, sf=1, victims="any", rebook="later_only"),
    "2tfb-sf:sf=1,victims=one,compress=true": two_tier(moves=True, sf=1, victims="one", compress=True),
    "2tfb-sf:sf=1,slack=job,movable=unstarted": two_tier(moves=True, sf=1, slack="job", movable="unstarted"),
    "2tfb:movable=unstarted": two_tier(moves=True, pl=0, movable="unstarted"),
    "2tpb": two_tier(moves=True, sf=0.5, high_at=0.5),
    "2tpb:sf=2,high=fixed,slack=job": two_tier(moves=True, sf=2, high_at=0.5, high="fixed", slack="job"),
    "gang-site": gang_site(),
    "gang-site:tolerance=2,delay=bounded": gang_site(2, "bounded"),
    "gang-span": gang_span(),
    "gang-span:tolerance=3": gang_span(3),
    "gang-span:tolerance=inf,cross=idle": gang_span(inf, cross="idle"),
    "gang-matrix": gang_matrix(),
    "gang-matrix:mpl=1": gang_matrix(1),
    "gang-matrix:mpl=2,quantum=60,switch=7,alternative=false": gang_matrix(2, "60", "7", alternative=False),
    "gang-matrix:mpl=2": gang_matrix(2),
    "gang-matrix:mpl=2,switch=0": gang_matrix(2, switch="0"),
    "gang-matrix:mpl=2,switch=0,alternative=false": gang_matrix(2, switch="0", alternative=False),
    "gang-matrix:mpl=2,switch=0,repack=false,alternative=false": gang_matrix(
        2, switch="0", repack=False, alternative=False
    ),
    "gang-matrix-backfill:mpl=2,switch=0": gang_matrix(2, switch="0", backfill=True),
    "gang-matrix-backfill": gang_matrix(backfill=True),
    "gang-matrix-backfill:mpl=3,repack=false,switch=0": gang_matrix(3, switch="0", repack=False, backfill=True),
    "gang-matrix-backfill:mpl=1": easy(),
    "2tpb:sf=3,pl=2,high_at=0.25": two_tier(moves=True, sf=3, pl=2, high_at=0.25),
    "slurm": slurm(),
    "slurm:bf_interval=2,bf_resolution=1,sched_interval=7,batch_sched_delay=0,epilog=1,estimates=1,"
    "pack_serial_at_end=1": slurm(
        Keys(
            bf_interval=2,
            bf_resolution=1,
            sched_interval=7,
            batch_sched_delay=0,
            epilog=True,
            estimates=True,
            pack_serial_at_end=True,
        )
    ),
    "slurm:bf_interval=1,bf_resolution=3,version=24.11,tick_phase=0.5,bf_phase=0.75,bf_test_cost=700,"
    "estimates=1": slurm(
        Keys(
            bf_interval=1,
            bf_resolution=3,
            version=24.11,
            tick_phase=0.5,
            bf_phase=0.75,
            bf_test_cost=700,
            estimates=True,
        )
    ),
    "slurm:bf_interval=3,version=26.05,bf_resolution=2,bf_job_part_count_reserve=1,bf_max_job_test=3,"
    "bf_max_job_assoc=2,default_queue_depth=1": slurm(
        Keys(
            bf_interval=3,
            version=26.05,
            bf_resolution=2,
            bf_job_part_count_reserve=1,
            bf_max_job_test=3,
            bf_max_job_assoc=2,
            bf_node_space_size=3,
            default_queue_depth=1,
        )
    ),
    "slurm:bf_window=1,bf_interval=1,bf_max_job_part=2,bf_max_job_user=2,bf_min_age_reserve=3,partition_job_depth=2,"
    "bf_max_job_start=1,sched_max_job_start=1,assoc_limit_stop=1,bf_window_linear=10": slurm(
        Keys(
            bf_window=1,
            bf_interval=1,
            bf_max_job_part=2,
            bf_max_job_user=2,
            bf_min_age_reserve=3,
            partition_job_depth=2,
            bf_max_job_start=1,
            sched_max_job_start=1,
            assoc_limit_stop=True,
            bf_window_linear=10,
        )
    ),
}


@dataclass(frozen=True)
class Stay:
    """One run of a job, over: COMPLETED, TIMEOUT, CANCELLED, NODE_FAIL (lost), or PREEMPTED by the policy."""

    start: Time
    end: Time
    nodes: Placement
    how: str


@dataclass
class Row:
    """What became of a job; start, end, reason and nodes are those of its last run.

    state: COMPLETED, TIMEOUT, CANCELLED, NODE_FAIL, or REJECTED: no room, or it comes after one without room. None
    where it waits for ever, since the capacity that it lacks never returns.
    """

    name: str
    eligible: Time | None = None  # when nothing but resources held it back
    promise: Time | None = None  # the first start that the policy promised
    start: Time | None = None
    end: Time | None = None
    reason: str | None = None
    nodes: Placement = ()
    state: str | None = None
    runs: list[Stay] = field(default_factory=list)


@dataclass(eq=False)
class Run:
    """A run that is not over."""

    row: int
    start: Time
    placement: Placement
    held: Room
    preemptible: bool
    speed: float  # of its slowest node
    since: Time | None  # when it began to make progress; None while it dangles: it holds what it holds, and waits
    end: Time = 0  # FUTURE while it dangles
    how: str = ""  # COMPLETED or TIMEOUT
    paced: Time = 0  # since when it has its pace
    pace: Fraction = Fraction(1)
    made: Fraction = Fraction(0)  # its progress before that
    limit_event: Time | None = None  # with overrun=extend: when it reaches its limit


def run(
    jobs: list[Job],
    platform: Platform,
    policy: Policy,
    ties: str = "batch",
    overrun: str = "kill",
    events: Sequence[Event] = (),
    lost: str = "requeue",
    predictor: Average2 | None = None,
) -> list[Row]:
    """One row per job, in file order.

    ties: `batch` - all ends at t, limits, timers, events, all submits, then one pass; `step` - a pass after each event.
    overrun: a job that reaches its walltime is killed, or with `extend` runs on; then its limit is an event.
    lost: what becomes of a job whose run is lost: it waits again (`requeue`), or is over (`fail`).
    predictor: what says which run times policies go by.
    """
    if ties not in ("batch", "step") or overrun not in ("kill", "extend") or lost not in ("requeue", "fail"):
        raise ValueError(f"no such ties, overrun or lost: {ties}, {overrun}, {lost}")
    if ties == "step" and (overrun == "extend" or events):
        raise ValueError("ties=step is for reproducing published schedules; not with extend, and not with events")
    assert [job.row for job in jobs] == list(range(len(jobs)))
    resources = len(platform.nodes[0].capacity)
    if events:
        jobs, platform = with_presence(jobs, platform)
    world = World(*with_accounts(jobs, platform), policy, overrun, events, lost)
    world.balanced, world.predictor = frozenset(range(resources)), predictor
    work_through = world.batch if ties == "batch" else world.step
    while (now := world.next_instant()) is not None:
        work_through(now)
    return world.rows


class World:
    def __init__(
        self, jobs: list[Job], platform: Platform, policy: Policy, overrun: str, events: Sequence[Event], lost: str
    ):
        self.platform, self.policy, self.overrun, self.lost = platform, policy, overrun, lost
        self.dangles = getattr(
            policy, "dangles", False
        )  # jobs wait, and may start, before what they come after is over
        self.mpl, self.switching = getattr(policy, "sharing", (1, Fraction(0)))  # rows that may take turns
        self.now = 0
        self.known: set[int] = set()  # rows that have joined the queue, or are over
        self.machine = Machine(platform)
        self.events = deque(sorted(events, key=lambda event: event.time))  # of equal times in file order
        self.greatest = self.greatest_room()
        self.jobs = list(jobs)  # as they are now: events change walltimes and priorities
        self.done = [0] * len(jobs)  # how much of its run time a preempted job need not do again
        self.used = [0] * len(jobs)  # how much of its walltime, less what it costs to go on
        self.owed = [0] * len(jobs)  # what it costs to go on: time of its next run without progress
        self.paused: dict[int, Placement | None] = {}  # preempted with its progress kept -> its place, None = anywhere
        self.rows = [Row(job.name) for job in jobs]
        self.to_come = deque(sorted(range(len(jobs)), key=lambda row: (jobs[row].submit, row)))
        self.submitted: list[int] = []  # all that have been
        self.balanced: frozenset[int] | None = None  # the resources that the platform states; None all
        self.asked: frozenset[int] = frozenset()  # resources that these ask for, the rejected left out
        self.left_early: list[int] = []  # cancelled before their submit
        self.left: list[int] = []  # cancelled while they waited, since the last pass
        self.dropped: set[int] = set()  # rejected, or cancelled before they waited
        self.held_back: list[int] = []  # submitted; a job that they come after has not ended
        self.queue: list[int] = []
        self.runs: list[Run] = []  # in the order in which they started
        self.gone: set[int] = set()  # rows that have ended
        self.rejected: set[int] = set()
        self.promises: dict[int, Reservation] = {}
        self.timers: set[Time] = set()
        self.memory: dict[str, Any] = {}  # the policy's own
        self.ended_since: list[Running] = []  # the last pass
        self.changed = False  # in this instant something other than a submit or an end
        self.predictor: Average2 | None = None
        self.counted = 0  # events that changed nothing, since their job had ended

    def greatest_room(self) -> Room:
        """The most that there ever is of everything, by the platform and by all events."""
        room = whole(self.platform)
        for event in self.events:
            if event.kind == "capacity":
                for slot in self.machine.slots(event):
                    room[slot] = max(room[slot], event.value)
        return room

    def job(self, row: int) -> Job:
        """The job as it is now. Of a preempted one that keeps its progress only the rest is seen."""
        job, done, used = self.jobs[row], self.done[row], self.used[row]
        if not done and not used:
            return job
        return replace(
            job,
            runtime=max(job.runtime - done, 0),
            walltime=max(job.walltime - used, 0),
            estimate=max(job.estimate - used, 0),
        )

    def seen(self, row: int) -> Job:
        """Return what a policy sees of a job that waits."""
        return replace(self.job(row), ready=self.gone.issuperset(self.jobs[row].after))

    def next_instant(self) -> Time | None:
        """Return when the next pass is made; events before it that no policy can notice are applied on the way."""
        other = self.next_of_others()
        while self.events and self.unnoticed(self.events[0]) and (other is None or self.events[0].time < other):
            event = self.events.popleft()
            self.happen(event, event.time)
        times = [other] if other is not None else []
        return min([*times, *(event.time for event in list(self.events)[:1])], default=None)

    def unnoticed(self, event: Event) -> bool:
        """It is about a job that is to come, and no other job can come sooner for it."""
        if event.kind not in ("cancel", "walltime", "priority"):
            return False
        followed = event.kind == "cancel" and any(event.job in job.after for job in self.jobs)
        return event.job in self.to_come and event.job not in self.gone and not followed

    def next_of_others(self) -> Time | None:
        """Return when something happens next that is no event of the file."""
        submits = [self.jobs[self.to_come[0]].submit] if self.to_come else []
        windows = [window.until if window.begun else window.value for window in self.machine.windows]
        limits = [r.limit_event for r in self.runs if r.limit_event is not None]
        return min(
            [*submits, *windows, *limits, *(r.end for r in self.runs if r.since is not None), *self.timers],
            default=None,
        )

    def batch(self, now: Time) -> None:
        """All ends of this instant, limits and timers, windows and events, all submits, then one pass.

        A job of zero run time that starts in this pass ends in a batch of its own at the same instant.
        """
        self.changed, self.now = False, now
        ended = False
        while ending := [r for r in self.runs if r.end == now]:
            ended = True
            for r in ending:
                self.over(r)
        self.timers.discard(now)
        for r in self.runs:
            if r.limit_event == now:
                r.limit_event = None
        self.pass_windows(now)
        while self.events and self.events[0].time == now:
            self.happen(self.events.popleft(), now)
        self.correct(now, self.runs)
        while self.to_come and self.jobs[self.to_come[0]].submit == now:
            self.submit()
        self.admit(now)
        self.decide(now, self.runs, ended=ended)

    def step(self, now: Time) -> None:
        """Each submit in file order with a pass, then each end in start order with a pass; or a timer with a pass."""
        self.now = now
        self.timers.discard(now)
        self.correct(now - 1, self.runs)
        self.correct(now, self.not_counted_out(now))
        something_happened = False
        while self.to_come and self.jobs[self.to_come[0]].submit == now:
            self.submit()
            self.admit(now)
            self.decide(now, self.not_counted_out(now), ended=False)
            something_happened = True
        while ending := [r for r in self.runs if r.end == now]:
            self.over(ending[0])
            self.admit(now)
            self.decide(now, self.not_counted_out(now), ended=True)
            something_happened = True
        if not something_happened:
            self.decide(now, self.not_counted_out(now), ended=False)

    def not_counted_out(self, now: Time) -> list[Run]:
        """Without the jobs that end in this instant at their limit: in `step` they count as gone everywhere."""
        return [r for r in self.runs if not (self.running(r).limit <= now and r.end == now)]

    def correct(self, now: Time, runs: list[Run]) -> None:
        """Runs that outlived their prediction by now get another one, until it holds or does not change any more."""
        if self.predictor is None:
            return
        for r in runs:
            while self.running(r).limit <= now:
                before = self.jobs[r.row]
                if before.estimate >= before.walltime and self.predictor.correct != "doubling":
                    break
                self.jobs[r.row] = replace(before, estimate=self.predictor.again(before))
                self.changed = True

    def submit(self) -> None:
        row = self.to_come.popleft()
        if row in self.gone:  # it was cancelled before
            return
        self.submitted.append(row)
        if self.predictor is not None:
            self.jobs[row] = replace(self.jobs[row], estimate=self.predictor.predict(self.jobs[row]))
        if self.platform.limits:
            over = self.gone | self.rejected
            waits_or_runs = [x for x in self.submitted if x not in over and not self.hopeless(x)]
            queued = [self.jobs[other] for other in waits_or_runs if other != row]
            if row in waits_or_runs and any(is_full(limit, self.jobs[row], queued) for limit in self.platform.limits):
                self.reject(row)
                return
        self.asked |= asked(self.jobs[row])
        self.held_back.append(row)

    def over(self, r: Run) -> None:
        """The run ended by itself, or was killed at its walltime."""
        self.ended_since.append(self.running(r))
        if self.predictor is not None:
            self.predictor.learn(self.jobs[r.row], self.length_of(r) + self.used[r.row])
        self.leave(r, r.end, r.how)
        self.finish(r.row, r.how, r.end)

    def length_of(self, r: Run) -> Time:
        """Return how long a run that is over ran, or would have alone on its processors."""
        return r.end - r.start if self.mpl == 1 else floor(r.made + (r.end - r.paced) * r.pace)

    def leave(self, r: Run, now: Time, how: str) -> None:
        self.runs.remove(r)
        self.rows[r.row].end = now
        self.rows[r.row].runs.append(Stay(r.start, now, r.placement, how))

    def finish(self, row: int, state: str, now: Time) -> None:
        self.rows[row].state = state
        self.gone.add(row)
        self.known.add(row)
        self.paused.pop(row, None)
        for r in self.runs:
            if r.since is None and self.gone.issuperset(self.jobs[r.row].after):
                r.since, self.changed = now, True
                self.set_end(r)

    def admit(self, now: Time) -> None:
        """Submitted jobs join the queue when all that they come after has ended; the impossible are rejected."""
        for row in list(self.held_back):
            if self.can_never_run(self.jobs[row]):
                self.held_back.remove(row)
                self.reject(row)
                able = [self.jobs[other] for other in self.submitted if other not in self.rejected]
                self.asked = frozenset().union(*map(asked, able))
                return self.admit(now)  # others may come after it
            if (self.known if self.dangles else self.gone).issuperset(self.jobs[row].after):
                self.held_back.remove(row)
                self.enqueue(row)
                self.rows[row].eligible = now
                self.known.add(row)
                return self.admit(now)  # others may come after it
        return None

    def reject(self, row: int) -> None:
        self.rejected.add(row)
        self.dropped.add(row)
        self.rows[row].state = "REJECTED"

    def enqueue(self, row: int) -> None:
        self.queue.append(row)
        self.queue.sort(key=lambda row: (self.jobs[row].submit, row))

    def can_never_run(self, job: Job) -> bool:
        """There is never room for it, or a job that it comes after was rejected."""
        return place(self.platform, job, self.greatest) is None or not self.rejected.isdisjoint(job.after)

    def hopeless(self, row: int) -> bool:
        """It can never run, or comes after one that can never run."""
        return self.can_never_run(self.jobs[row]) or any(self.hopeless(other) for other in self.jobs[row].after)

    def pass_windows(self, now: Time) -> None:
        """Windows that are over give back what they took, then those whose begin has come take it."""
        over = [window for window in self.machine.windows if window.until <= now]
        self.machine.windows = [window for window in self.machine.windows if window.until > now]
        self.changed |= bool(over)
        for window in self.machine.windows:
            if window.value <= now < window.revoked and not window.begun:  # one that ends as it begins never does
                self.begin(window, now)

    def begin(self, window: Event, now: Time) -> None:
        window.begun = self.changed = True
        if window.whole_nodes:
            self.lose_nodes(window.nodes, now)
        else:
            self.lose_until_it_fits(window, now)

    def happen(self, event: Event, now: Time) -> None:
        if event.kind in ("cancel", "walltime", "priority"):
            if event.job in self.gone | self.rejected:
                self.counted += 1
                return
            self.changed |= event.job in self.queue or any(r.row == event.job for r in self.runs)
        if event.kind == "cancel":
            self.cancel(event.job, now)
        elif event.kind == "walltime":
            self.jobs[event.job] = replace(self.jobs[event.job], walltime=event.value, estimate=event.value)
            for r in [r for r in self.runs if r.row == event.job]:
                self.set_end(r)
                if r.limit_event is not None and r.limit_event <= now:
                    r.limit_event = None
                if r.end <= now:
                    r.end = now
                    self.over(r)
        elif event.kind == "priority":
            self.jobs[event.job] = replace(self.jobs[event.job], priority=event.value)
        elif event.kind == "down":
            fresh = [node for node in event.nodes if node not in self.machine.down]
            self.machine.down |= {*fresh}
            self.changed |= bool(fresh)
            self.lose_nodes(fresh, now)
        elif event.kind == "up":
            self.changed |= not self.machine.down.isdisjoint(event.nodes)
            self.machine.down -= {*event.nodes}
        elif event.kind == "capacity":
            for slot in self.machine.slots(event):
                self.changed |= self.machine.base[slot] != event.value
                self.machine.base[slot] = event.value
            self.lose_until_it_fits(event, now)
            self.lose_paused(now)
        elif event.kind == "revoke":
            self.changed = True
            self.machine.windows = [window for window in self.machine.windows if window.revoked != now]
        elif event.kind == "window" and event.until > now:
            self.changed = True
            window = replace(event)  # a copy of our own
            self.machine.windows.append(window)
            if window.value <= now:
                self.begin(window, now)

    def cancel(self, row: int, now: Time) -> None:
        """A running job ends now; one that waits, or is not yet submitted, never starts again."""
        ran = [r for r in self.runs if r.row == row]
        for r in ran:
            self.leave(r, now, "CANCELLED")
        if row in self.to_come:
            self.left_early.append(row)
        if row in self.queue or (row in self.held_back and self.gone.issuperset(self.jobs[row].after)):
            self.left.append(row)
        elif not ran:
            self.dropped.add(row)
        for rows in (self.held_back, self.queue):
            if row in rows:
                rows.remove(row)
        self.finish(row, "CANCELLED", now)

    def lose_nodes(self, nodes: Sequence[int], now: Time) -> None:
        """All that runs there with any task, and all that is suspended there."""
        for r in [r for r in self.runs if any(node in nodes for node, _ in r.placement)]:
            if r in self.runs:  # else it went with what it comes after
                self.leave(r, now, "NODE_FAIL")
                self.lose(r.row, now)
        for row, placement in list(self.paused.items()):
            if placement is not None and any(node in nodes for node, _ in placement):
                self.lose(row, now)

    def lose_until_it_fits(self, event: Event, now: Time) -> None:
        """Of those that hold some of it, the run that started last (of equals the higher row), again and again."""
        for slot in self.machine.slots(event):
            while sum(r.held[slot] for r in self.runs) > self.machine.room(now)[slot]:
                last = max((r for r in self.runs if r.held[slot]), key=lambda r: (r.start, r.row))
                self.leave(last, now, "NODE_FAIL")
                self.lose(last.row, now)

    def lose_paused(self, now: Time) -> None:
        """A suspended job whose nodes are not large enough any more would wait for them for ever."""
        licences = len(self.platform.copies)
        for row, placement in list(self.paused.items()):
            if placement is not None:
                short = minus(self.machine.base, held(self.platform, self.jobs[row], placement))
                if min(short[: len(short) - licences]) < 0:
                    self.lose(row, now)

    def lose(self, row: int, now: Time) -> None:
        """The job begins anew, with those that hold something until it has ended; or it is over."""
        self.changed = True
        self.done[row] = self.used[row] = self.owed[row] = 0
        self.paused.pop(row, None)
        if self.lost == "fail":
            if row in self.queue:
                self.queue.remove(row)
            self.finish(row, "NODE_FAIL", now)
            return
        if row not in self.queue:
            self.enqueue(row)
        for r in list(self.runs):
            if r in self.runs and r.since is None and row in self.jobs[r.row].after:
                self.leave(r, now, "NODE_FAIL")
                self.lose(r.row, now)

    def decide(self, now: Time, runs: list[Run], ended: bool) -> None:
        """One pass of the policy."""
        capacity = self.machine.steps(now)
        free = capacity[0][1]
        for r in runs:
            free = minus(free, r.held)
        view = View(
            now=now,
            platform=self.platform,
            capacity=capacity,
            free=free,
            queue=[self.seen(row) for row in self.queue],
            running=[self.running(r) for r in runs],
            ended=ended,
            over=self.ended_since,
            changed=self.changed,
            paused=dict(self.paused),
            promises=self.promises,
            unfinished=frozenset(self.submitted) - self.gone,
            submitted=[self.job(row) for row in self.submitted + self.left_early if self.jobs[row].submit <= now],
            left=self.left,
            dropped=frozenset(self.dropped),
            project_submits=self.project_submits(),
            first_submit=self.jobs[self.submitted[0]].submit if self.submitted else 0,
            asked=self.asked if self.balanced is None else self.asked & self.balanced,
            memory=self.memory,
        )
        self.ended_since, self.left = [], []
        self.obey(view, self.policy(view))

    def running(self, r: Run) -> Running:
        """Return what a policy sees of a run."""
        since, job = FUTURE if r.since is None else r.since, self.job(r.row)
        if self.mpl == 1:
            return Running(job, r.start, r.placement, r.held, r.preemptible, since)
        made = r.made + (self.now - r.paced) * r.pace
        return Running(job, r.start, r.placement, r.held, made=made, latest=self.latest(r))

    def latest(self, r: Run) -> Time:
        """The end of a run at the slowest pace from where it stood when its pace changed last."""
        left = (self.jobs[r.row].estimate - r.made) / ((1 - self.switching) / self.mpl)
        return min(r.paced + max(ceil(left), 0), FUTURE)

    def project_submits(self) -> dict[str, Time]:
        """The first submit of each project so far."""
        jobs = [self.jobs[row] for row in reversed(self.submitted)]
        return {project_of(job): job.submit for job in jobs}

    def obey(self, view: View, decision: Decision) -> None:
        for row, promise in {**decision.promises, **decision.given}.items():
            if self.rows[row].promise is None:
                self.rows[row].promise = promise.start
        free = view.free
        for preempted in decision.preempted:
            free = plus(free, self.preempt(preempted, view.now))
        for start in decision.starts:
            free = minus(free, held(self.platform, start.job, start.placement))
            assert self.mpl > 1 or min(free) >= 0, f"job {start.job.name} does not fit at {view.now}"
            self.start(start, view.now)
        for row, turns in decision.turns.items() if self.mpl > 1 else ():
            self.take_turns(next(r for r in self.runs if r.row == row), *turns, view.now)
        self.promises = {row: promise for row, promise in decision.promises.items() if row in self.queue}
        self.timers |= {timer for timer in decision.timers if timer > view.now}

    def take_turns(self, r: Run, rows: frozenset[int], of: int, now: Time) -> None:
        """From now on the run has turns in these rows of so many."""
        pace = Fraction(len(rows), of) * (1 - self.switching if of > 1 else 1)
        if pace != r.pace:
            r.made, r.paced, r.pace = r.made + (now - r.paced) * r.pace, now, pace
            self.set_end(r)

    def start(self, start: Start, now: Time) -> None:
        row = start.job.row
        assert sum(tasks for _, tasks in start.placement) == start.job.tasks
        assert self.paused.pop(row, None) in (None, start.placement), "a suspended job resumes where it was"
        self.queue.remove(row)
        r = Run(
            row,
            now,
            start.placement,
            held(self.platform, start.job, start.placement),
            start.preemptible,
            speed=min(self.platform.nodes[node].speed for node, _ in start.placement),
            since=now if self.gone.issuperset(start.job.after) else None,
            paced=now,
        )
        self.runs.append(r)
        self.set_end(r)
        self.rows[row].start, self.rows[row].reason, self.rows[row].nodes = now, start.reason, start.placement

    def set_end(self, r: Run) -> None:
        """When the run will end, how, and when it reaches its limit."""
        if r.since is None:
            r.end = FUTURE
            return
        job = self.job(r.row)
        length, r.how = ceil(job.runtime / r.speed) + self.owed[r.row], "COMPLETED"
        if self.overrun == "kill" and length > job.walltime:
            length, r.how = job.walltime, "TIMEOUT"
        if self.mpl > 1:
            r.end = max(r.paced + max(ceil((length - r.made) / r.pace), 0), self.now)
            late = self.overrun == "extend" and length > job.estimate and self.latest(r) > self.now
            r.limit_event = self.latest(r) if late else None
            return
        r.end = r.since + length
        limit = r.since + job.estimate  # an event where jobs run on
        r.limit_event = limit if self.overrun == "extend" and limit < r.end else None

    def preempt(self, preempted: Preempted, now: Time) -> Room:
        """The run ends and the job waits again at its place; a suspended one gives back its memory, too."""
        r = next(r for r in self.runs if r.row == preempted.row)
        assert r.preemptible
        self.leave(r, now, "PREEMPTED")
        self.enqueue(r.row)
        length, owed = now - r.start, self.owed[r.row]
        if preempted.how == "requeue":
            self.done[r.row] = self.used[r.row] = self.owed[r.row] = 0
        else:
            self.done[r.row] += floor(max(length - owed, 0) * r.speed)
            self.used[r.row] += length - preempted.overhead
            self.owed[r.row] = max(owed - length, 0) + preempted.overhead
            self.paused[r.row] = r.placement if preempted.how == "suspend" else None
        return r.held


def asked(job: Job) -> frozenset[int]:
    """The resources of which it holds some."""
    return frozenset(k for k, amount in enumerate(job.demand) if amount)
