"""The Python interface: simulate a policy on a workload and return a `Result`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from backfill import __version__
from backfill.analysis.departures import Departures, departure_metrics, departures, farthest, project_promises
from backfill.analysis.happened import Happened
from backfill.analysis.metrics import Metrics, Trim, kept, metrics
from backfill.analysis.predictions import errors_by_user, prediction_metrics
from backfill.analysis.promises import Change, history, kept_metrics, promise_metrics
from backfill.analysis.verify import Violation
from backfill.analysis.verify import verify as check
from backfill.core.policy import Policy, json_value
from backfill.core.queue.order import FCFS
from backfill.model import frames, notebook
from backfill.model.errors import PolicyError, UsageError, wrong_type
from backfill.model.events import Events, events_of
from backfill.model.partitions import QUEUED_JOBS
from backfill.model.platform import Platform
from backfill.model.promises import Promises, subject
from backfill.model.schedule import NO_TIME, TEXTS, Runs, Schedule
from backfill.model.units import SECOND, counted, span
from backfill.model.workload import Ints, Workload
from backfill.spec import Chosen, Given, Params, RunSpec, shows_given
from backfill.worlds import simulated
from backfill.worlds.blame import blaming
from backfill.worlds.journal import promises_of
from backfill.worlds.options import Options
from backfill.worlds.rules import with_default_walltimes
from backfill.worlds.simulated import Progress, Simulation

if TYPE_CHECKING:
    from backfill.analysis.explain import Explanation, Record
    from backfill.analysis.replay import Replay
    from backfill.report.outcome import Outcome

_WHOSE = ("user", "partition")  # columns of the jobs that rows of a schedule have as well
SCHEMA = 1  # version of the JSON object


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """The run of one policy over one workload: schedule, metrics, notes.

    >>> import backfill as bf
    >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
    >>> result
    <Result of easy on lublin: 100 jobs on 64 cpus: mean wait 31.3 min, longest 309 min>
    """

    workload: Workload
    platform: Platform
    spec: RunSpec
    metrics: Metrics
    simulation: Simulation

    @property
    def policy(self) -> Policy:
        """The policy, with the settings (order, tried, place) that were given.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.policy.name
        'easy'
        """
        return self.spec.policy

    @property
    def params(self) -> Mapping[str, float | str]:
        """Every parameter, defaults included, and the settings that were given.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> bf.simulate(log, policy="k-reservations").params
        {'k': 4.0}
        """
        return self.policy.in_full(self.spec.params)

    @property
    def options(self) -> Options:
        """The options of the simulation.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.options.overrun
        'kill'
        """
        return self.spec.options

    @property
    def warmup(self) -> Trim:
        """The part at the beginning of the run that is left out of the metrics.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> str(bf.simulate(log, policy="easy", warmup=5).warmup)
        '5'
        """
        return self.spec.warmup

    @property
    def cooldown(self) -> Trim:
        """The part at the end of the run that is left out of the metrics.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> str(bf.simulate(log, policy="easy", cooldown="2h").cooldown)
        '7200s'
        """
        return self.spec.cooldown

    @property
    def watched(self) -> str | None:
        """The job or project whose promises were requested; None if none were.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> bf.simulate(log, policy="conservative", promise="7").watched
        '7'
        """
        return self.spec.watched

    @property
    def schedule(self) -> Schedule:
        """The schedule: when and where each job ran.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.schedule.start[:2].tolist()  # microseconds
        [153000000, 303000000]
        """
        return self.simulation.schedule

    @property
    def seed(self) -> int:
        """The random seed.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.seed
        0
        """
        return self.options.seed

    @property
    def name(self) -> str:
        """The policy with its parameters and the variant of the rules, if they are not the default.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> bf.simulate(log, policy="k-reservations:k=4", estimates="exact").name
        'k-reservations, estimates exact'
        """
        return self.spec.name

    @property
    def variant(self) -> list[str]:
        """The non-default options that change the algorithm of the policy.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> bf.simulate(log, policy="easy", ties="step").variant
        ['ties step']
        """
        return self.options.variant

    @property
    def notes(self) -> list[str]:
        """Notes that limit the meaning of the metrics, one sentence each.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> bf.simulate(log, bf.Platform.pool(16), "easy").notes
        ['rejected 2 of 20 jobs, which can never run here: cpus (2)']
        """
        remarks = []
        if causes := Counter(cause for cause in self.schedule.rejected_for if cause):
            remarks.append(rejected_note(causes, len(self.workload)))
        if "memory" in self.workload.resources and not self.platform.bounds("memory"):
            remarks.append("memory is not limited: the platform does not state how much it has")
        if self.workload.jobs.constraint.names and not self.platform.features:
            remarks.append(
                "the features that jobs ask for are not checked: the platform does not state those of its nodes"
            )
        if self.policy.projects and not self.workload.jobs.project.names:
            remarks.append(f"no job has a project: {self.policy.name} treats each job as a project of its own")
        if self.schedule.shares:
            remarks.append(
                f"{self.name}: runs share processors in turns, so they take longer than alone; compare responses and "
                "slowdowns, not waits"
            )
        predict = self.options.predict
        if predict is not None and predict.of_users and not self.workload.jobs.user.names:
            remarks.append(f"no job has a user: {predict.rule} predicts the walltime of each job")
        if self.schedule.ran.any() and not self.metrics["jobs"]:
            remarks.append(f"warmup {self.warmup} and cooldown {self.cooldown} leave no job in the metrics")
        if self.happened is not None:
            remarks += self.happened.notes
        if self.no_bounds:
            remarks.append(
                "no lower bounds: events raise a capacity or change walltimes, which the bounds do not consider"
            )
        return remarks

    @cached_property
    def events(self) -> Events | None:
        """The events of this run: given events that concern its jobs, and departures of jobs. None if there are none.

        >>> import backfill as bf
        >>> events = [{"time": 0, "event": "down", "node": "n1"}, {"time": 600, "event": "up", "node": "n1"}]
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> result = bf.simulate(log, bf.Platform.pool(64, nodes=2), "easy", events=events)
        >>> len(result.events)
        2
        """
        return events_of(self.workload, self.options.events)

    @cached_property
    def happened(self) -> Happened | None:
        """The events of this run, counted, and their effects; None without events.

        >>> import backfill as bf
        >>> events = [{"time": 0, "event": "down", "node": "n1"}, {"time": 600, "event": "up", "node": "n1"}]
        >>> log = bf.generate("lublin?jobs=20&cpus=64")
        >>> result = bf.simulate(log, bf.Platform.pool(64, nodes=2), "easy", events=events)
        >>> result.happened.sentence
        '1 outage; no run lost'
        """
        if self.events is None:
            return None
        bound, given = self.events.bind(self.workload, self.platform), self.options.events
        number = 0 if given is None else len(given)
        return Happened.of(bound, self.workload, self.platform, self.schedule, self.metrics, number)

    @property
    def no_bounds(self) -> bool:
        """Return whether events make lower bounds from the platform and the log alone invalid.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.no_bounds
        False
        """
        return self.happened is not None and self.happened.bound_breaks

    @property
    def runs(self) -> Runs:
        """Every run of every job: a job that was requeued has several.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> len(result.runs)
        100
        """
        return self.schedule.all_runs

    @property
    def promises(self) -> list[tuple[float, float]]:
        """The promises to the job or project given as `promise`: (time of the promise, promised time), in seconds.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> result = bf.simulate(log, policy="conservative", promise="100")
        >>> result.promises[0]
        (78840.0, 90777.0)
        """
        changes = [] if self.watched is None else self.promise_history(self.watched)
        return [(each.at / SECOND, each.until / SECOND) for each in changes if each.until != NO_TIME]

    def promise_history(self, name: str) -> list[Change]:
        """Return every promise to a job or a project, when and why it was made, in order; times in microseconds.

        Policies such as `2tsb` record all jobs and projects; others only the one given as `promise`. Raises UsageError
        for a name that is neither.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> result = bf.simulate(log, policy="conservative", promise="100")
        >>> first = result.promise_history("100")[0]
        >>> first.sentence(log, project=False)
        'at day 0 21:54:00 promised to start at day 1 01:12:57'
        """
        job, rows = subject(self.workload, name)
        if job is not None:
            return history(self.simulation.promises, job)
        return departures(self.simulation.promises, rows, len(self.workload))

    @cached_property
    def departures(self) -> Departures | None:
        """Every departure that a project was promised; None if the policy records none, or no job has a project.

        >>> import backfill as bf
        >>> log = bf.generate("two-tier?projects=5")
        >>> len(bf.simulate(log, policy="2tsb").departures)
        5
        """
        return _departures(self.workload, self.spec, self.simulation)

    def project_promises(self, codes: Ints) -> dict[str, Any]:
        """Return the promises to the projects of these codes, for JSON; empty if no departures are promised.

        >>> import backfill as bf
        >>> import numpy as np
        >>> result = bf.simulate(bf.generate("two-tier?projects=5"), policy="2tsb")
        >>> result.project_promises(np.array([0]))["promised"]
        5
        """
        assert self.departures is not None
        return project_promises(self.departures, self.workload, self.schedule, codes)

    def explain(self, job: object) -> "Explanation":
        """Explain the wait of a job: what it lacked and which jobs held that, which jobs passed it, and its promises.

        job: its id. `print` shows the explanation as text, `as_dict()` is the same for `--json`. A result without a
        record of promises is simulated once more. Raises UsageError for an unknown id.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> print(result.explain("1").sentence)
        Job 1 did not wait: it started at once, because it was first in the queue.
        """
        from backfill.analysis.explain import Rules, explain
        from backfill.core.policy import NO_JOB

        row = self.workload.row_of(str(job), "explain")
        policy = self.policy
        if self.schedule.shares:
            problem = "jobs share processors in turns, and nothing tells what a job lacked"
            raise UsageError(f"policy {policy.name}: {problem}; expected mpl=1, or a policy without rows")
        idle = policy.reserve == policy.fill == NO_JOB
        rules = Rules(policy.name, in_order=idle and policy.orders == (FCFS,) and not policy.sorts)
        return explain(self._record, row, rules, self._promised, self.unit)

    @cached_property
    def _record(self) -> "Record":
        from backfill.report.explained import record_of

        seen = self._seen
        events = None if self.events is None else self.events.bind(self.workload, self.platform)
        more: Any = {"place": self.policy.place, "overhead": self.policy.overhead(self.params)}
        return record_of(self.workload, self.platform, self.schedule, seen, events, **more)

    @cached_property
    def _promised(self) -> Promises:
        """Return every promise of the run."""
        journal = self.simulation.journal
        if self.options.predict is not None:
            return self.simulation.promises  # there are none
        if not len(journal):
            again = _simulation(self.workload, self.platform, self.spec, journal=True)
            if not np.array_equal(again.schedule.start, self.schedule.start):
                raise PolicyError(
                    f"policy {self.policy.name} made other decisions when it ran again; expected the same ones"
                )
            journal = again.journal
        return promises_of(journal, self.workload.jobs.submit, self.policy.keeps)

    def summary(self) -> str:
        """Return the headline metrics as a text table.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> print(result.summary())
        lublin: 100 jobs on 64 cpus
        <BLANKLINE>
                    mean        p95   bounded                 max
        policy      wait       wait  slowdown  utilization  queue
        ─────────────────────────────────────────────────────────
        easy    31.3 min  214.3 min     34.03        50.0%     21
        """
        from backfill.report.terminal import as_text, result_table, used_table

        rows = [(self.name, self.metrics)]
        used = used_table(rows)
        more = [] if used is None else [f"{used[0]}\n{as_text(used[1])}"]
        more += [] if self.happened is None else [self.happened.sentence]
        return "\n\n".join([self.title, as_text(result_table(rows)), *more])

    @property
    def title(self) -> str:
        """The workload and the platform in one line.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.title
        'lublin: 100 jobs on 64 cpus'
        """
        return f"{self.workload.name}: {counted(len(self.workload), 'job')} on {self.platform.size_text}"

    @property
    def unit(self) -> str:
        """The unit of every wait in the texts: `d`, `h`, `min` or `s`.

        >>> import backfill as bf
        >>> bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy").unit
        'min'
        """
        from backfill.report.values import wait_unit

        return wait_unit([self.metrics])

    @cached_property
    def replay(self) -> "Replay | None":
        """The comparison of this run with the recorded waits; None if the log has none.

        >>> import backfill as bf
        >>> arrays = {"job": [1, 2], "submit": [0, 5], "runtime": [60, 90], "waited": [0, 55]}
        >>> log = bf.Workload.from_arrays(arrays)
        >>> bf.simulate(log, bf.Platform.pool(1), "fcfs").replay.against()
        'mean wait 27.5 s against 27.5 s in reality (+0%)'
        """
        from backfill.analysis.replay import replay

        return replay(self)

    def outcome(self, command: str = "") -> "Outcome":
        """Return the data that a page shows and a folder stores. command: the command line that reproduces it.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.outcome().data["policy"]
        'easy'
        """
        from backfill.report.outcome import Outcome

        return Outcome.of([self], command, self.to_dict())

    def report(self, path: str | Path, command: str = "") -> None:
        """Write the result as one HTML page. command: the command line that reproduces it.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.report("easy.html")
        """
        from backfill.report.write import write_report

        write_report(path, self.outcome(command))

    def save(self, folder: str | Path, command: str = "") -> None:
        """Write the result into a folder, from which `backfill report` makes its page again.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.save("saved")
        """
        from backfill.report.saved import save

        save(folder, self.outcome(command))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of `simulate --json`.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.to_dict()["policy"]
        'easy'
        """
        loop = self.simulation.elapsed_s
        chosen, clock = self.workload.chosen, self.workload.calendar
        result: dict[str, Any] = {
            "schema": SCHEMA,
            "backfill": __version__,
            "policy": self.policy.name,
            "params": {name: json_value(value) for name, value in self.params.items()},
            "workload": {
                "name": self.workload.name,
                "sha256": self.workload.sha256,
                "jobs": len(self.workload),
                "cpus": self.workload.cpus,
                "dropped": self.workload.dropped,
                "notes": list(self.workload.notes),
                "calendar": None if clock is None else {"epoch_s": clock.epoch, "zone": clock.zone},
            },
            "platform": self.platform.as_dict(),
            "seed": self.options.seed,
            "options": {
                **self.options.to_dict(),
                **({"lost": self.options.lost} if self.events is not None else {}),
                **({"dangles": True} if self.policy.dangles else {}),
                **{name: chosen[name] for name in ("cancelled", "think") if name in chosen},
                "jobs": chosen.get("jobs"),
                "load": chosen.get("load", 1.0),
                **({"dead_time_s": self.workload.dead_time / SECOND} if self.workload.dead_time else {}),
                "zero_run": chosen.get("zero_run", "keep"),
                "warmup": str(self.warmup),
                "cooldown": str(self.cooldown),
            },
            "notes": self.notes,
            "metrics": self.metrics,
            "elapsed_s": round(loop, 6),
            "jobs_per_s": round(len(self.workload) / loop) if loop > 0 else None,
        }
        if self.replay is not None:
            result["replay"] = self.replay.to_dict()
        if self.departures is not None:
            result["projects"] = self.project_promises(farthest([(self.departures, self.schedule)], self.workload))
        if self.simulation.predicted is not None:
            result["predictions"] = errors_by_user(self.workload, self.schedule, self.simulation.predicted)
        if self.watched is not None:
            project = subject(self.workload, self.watched)[0] is None
            history = [each.to_dict(self.workload, project) for each in self.promise_history(self.watched)]
            result["promise"] = {"project" if project else "job": self.watched, "history": history}
        if self.spec.explained is not None:
            result["explanation"] = self.explain(self.spec.explained).as_dict()
        return result

    def to_polars(self, runs: bool = False) -> Any:
        """Return the schedule as a polars DataFrame, times in seconds: one row per job, or per run.

        Needs the extra `data`.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.to_polars().shape
        (100, 12)
        """
        return frames.to_polars(self._columns(runs), (*TEXTS, *_WHOSE))

    def to_pandas(self, runs: bool = False) -> Any:
        """Return the schedule as a pandas DataFrame, times in seconds: one row per job, or per run. Needs pandas.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> len(result.to_pandas())
        100
        """
        return frames.to_pandas(self._columns(runs), (*TEXTS, *_WHOSE))

    def _columns(self, runs: bool) -> frames.Columns:
        if runs:
            return self.schedule.run_columns()
        jobs, ran = self.workload.jobs, self.schedule.ran
        wait = np.where(ran, self.schedule.start - self.schedule.eligible, NO_TIME)
        length = np.where(ran, self.schedule.end - self.schedule.start, NO_TIME)
        return {
            **self.schedule.columns(),
            "wait": frames.seconds(wait.tolist(), NO_TIME),
            "runtime": frames.seconds(length.tolist(), NO_TIME),
            "cpus": jobs.procs.tolist(),
            **{name: [jobs[name][row] for row in range(len(jobs))] for name in _WHOSE},
        }

    def plot(self, kind: str = "utilization", ax: Any = None, colour: str = "why") -> Any:
        """Draw `gantt`, `utilization`, `queue`, `jobs`, `wait` or `slowdown` with matplotlib; return the axes.

        ax: axes to draw on, perhaps shared by several results; None makes a figure. colour: the meaning of the colours
        of `gantt`: `why` a job started, its `user`, or its `project`. Needs the extra `plot`.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.plot("queue").get_ylabel()
        'jobs waiting'
        """
        from backfill.report.figures import figure

        trims = (self.warmup, self.cooldown)
        return figure(kind, self.workload, self.platform, self.schedule, ax, self.name, trims, colour)

    def gantt(self, ax: Any = None, colour: str = "why") -> Any:
        """Draw every job as a box over time and processors, pale and hatched while it makes no progress.

        colour: by `why` it started, its `user`, or its `project`. Needs the extra `plot`.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.gantt().get_ylabel()
        'processors'
        """
        return self.plot("gantt", ax, colour)

    def __repr__(self) -> str:
        mean, most = (span(self.metrics.get(name) or 0, self.unit) for name in ("mean_wait_s", "max_wait_s"))
        return f"<Result of {self.name} on {self.title}: mean wait {mean}, longest {most}>"

    def _repr_html_(self) -> str:
        from backfill.report.values import columns, headline

        cells = columns(headline([self.metrics]), [self.metrics], self.unit)
        return notebook.table(
            self.title, ["policy", *(head for head, _ in cells)], [[self.name, *(c for _, (c,) in cells)]]
        )

    def _walltimes_hold(self) -> bool:
        """Return whether no job held its nodes for longer than the policy had to expect."""
        ran, schedule = self.schedule.ran, self.schedule
        return bool((schedule.end[ran] - schedule.start[ran] <= self._seen[ran]).all())

    @cached_property
    def _seen(self) -> Ints:
        """The walltimes that the policy has seen: the predictions, if there are any."""
        predicted = self.simulation.predicted
        return self.options.estimates.of(self.workload.jobs, self.seed) if predicted is None else predicted

    def verify(self) -> list[Violation]:
        """Return the violations that the independent checker finds; empty for a valid schedule.

        >>> import backfill as bf
        >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
        >>> result.verify()
        []
        """
        overrun: Any = self.options.overrun
        ties: Any = self.options.ties
        alone = not len(self.workload.jobs.after.items)  # otherwise a job may enter the queue before one with a promise
        lost: Any = self.options.lost
        events = self.events
        binds = self.policy.binds and alone and events is None and self._walltimes_hold()
        more: dict[str, Any] = {"overhead": self.policy.overhead(self.params), "dangles": self.policy.dangles}
        more |= {"place": self.policy.place, "sharing": self.policy.sharing(self.params)}
        if events is not None:
            more |= {"events": events, "lost": lost, "seen": self._seen}
        more["predicted"] = self.options.predict is not None
        return check(
            self.workload, self.platform, self.schedule, overrun=overrun, ties=ties, promises_bind=binds, **more
        )


@shows_given
def simulate(
    log: Workload,
    pool: Platform | None = None,
    policy: Chosen = "easy",
    *,
    params: Params | None = None,
    promise: str | None = None,
    explain: str | None = None,
    progress: Progress | None = None,
    **given: Unpack[Given],
) -> Result:
    """Run one policy over one workload.

    pool:      None takes the size of the machine from the log.
    policy:    a name, `name:key=value,...`, `file.py:name[:key=value,...]`, a Policy, or a plain Python function that
               of the State, which runs without compilation.
    estimates: what policies see instead of the walltime: `requested`, `exact`, `inflate:F`, `uniform:F`, `within:E`,
               `lognormal:S`, `over:S`, `under:S` or `user-bias:S`.
    predict:   what policies plan by instead: `average2`, `regression`, `history` or `file.py:function`, each with
               `:correct=reqtime`, `incremental` or `doubling`. Jobs are still killed at their walltime, and such
               plans are not promises.
    warmup, cooldown: jobs left out of the metrics: a number of jobs or a span such as `2d`.
    events:    further events: a file, an Events, or a table with the columns of such a file.
    lost:      fate of a job whose run is lost with its node: `requeue` (it waits again) or `fail`.
    promise:   a job whose promised starts, or a project whose departures, are recorded: Result.promise_history.
    explain:   id of a job whose wait is explained in JSON and on the page, see Result.explain.
    progress:  called from time to time with the number of jobs submitted.

    >>> import backfill as bf
    >>> log = bf.generate("lublin?jobs=100&cpus=64")
    >>> bf.simulate(log, policy="easy")
    <Result of easy on lublin: 100 jobs on 64 cpus: mean wait 31.3 min, longest 309 min>
    >>> bf.simulate(log, bf.Platform.pool(128), "k-reservations:k=4", estimates="exact").name
    'k-reservations, estimates exact'
    """
    return run_spec(log, pool, RunSpec.of(policy, params, promise=promise, explain=explain, **given), progress)


def check_inputs(log: object, pool: object) -> None:
    """Raise UsageError unless these are a Workload, and a Platform or None."""
    if not isinstance(log, Workload):
        called = type(log).__name__
        hint = (
            f"read({log!r})"
            if isinstance(log, str | Path)
            else "read(file), Workload.from_pandas(frame), from_polars(frame) or from_arrays(columns)"
        )
        raise UsageError(f"log is {called}; expected a Workload: use {hint}")
    if pool is not None and not isinstance(pool, Platform):
        called = type(pool).__name__
        hint = f"read_platform({pool!r})" if isinstance(pool, str | Path) else "Platform.pool(cpus)"
        hint = f"Platform.pool({pool})" if isinstance(pool, int) else hint
        raise UsageError(f"platform is {called}; expected a Platform: use {hint}")


def run_spec(log: Workload, pool: Platform | None, spec: RunSpec, progress: Progress | None = None) -> Result:
    """Run a spec over one workload. The other arguments are those of `simulate`."""
    check_inputs(log, pool)
    pool = Platform.of(log) if pool is None else pool
    log = with_default_walltimes(log, pool)
    if spec.watched is not None and subject(log, spec.watched)[0] is None and not spec.policy.keeps:
        promising = "projects are promised departures by 2tsb, 2tfb, 2tfb-sf, 2tpb, slack and conservative"
        raise UsageError(f"policy {spec.policy.name} promises no departures; {promising}")
    done = _simulation(log, pool, spec, progress, journal=spec.explained is not None)
    numbers = metrics(log, pool, done.schedule, warmup=spec.warmup, cooldown=spec.cooldown)
    there = kept(log.jobs.submit, spec.warmup, spec.cooldown)
    if done.predicted is not None:
        numbers |= prediction_metrics(log, done.schedule, np.flatnonzero(there), done.predicted)
    elif spec.policy.booked:
        numbers |= promise_metrics(done.promises, done.schedule, there)
    elif (done.schedule.promise != NO_TIME).any():
        numbers |= kept_metrics(done.schedule, there)
    if (promised := _departures(log, spec, done)) is not None:
        numbers |= departure_metrics(promised, log, done.schedule, there)
    found = Result(workload=log, platform=pool, spec=spec, metrics=numbers, simulation=done)
    found.__dict__["departures"] = promised  # saves the same check in `Result.departures`
    return found


def _simulation(
    log: Workload, pool: Platform, spec: RunSpec, progress: Progress | None = None, *, journal: bool = False
) -> Simulation:
    policy, options = spec.policy, spec.options
    if (events := events_of(log, options.events)) is not options.events:
        options = replace(options, events=events)
    more: Any = {"watched": spec.watched, "journal": journal, "progress": progress}
    with blaming(policy):
        return simulated.simulate(log, pool, policy, spec.params, options, **more)


def rejected_note(causes: Mapping[str, int], jobs: int) -> str:
    """Return a note about rejected jobs, of so many in all. causes: their number by cause."""
    why = ", ".join(f"{cause} ({count})" for cause, count in causes.items())
    for_ever = "" if any(QUEUED_JOBS in cause for cause in causes) else ", which can never run here"
    return f"rejected {sum(causes.values()):,} of {jobs:,} jobs{for_ever}: {why}"


def _departures(log: Workload, spec: RunSpec, done: Simulation) -> Departures | None:
    codes = log.jobs.project.codes
    if spec.options.predict is not None or not spec.policy.booked or not (codes >= 0).any():
        return None
    departures = Departures.of(done.promises, codes)
    return departures if len(departures) else None


def verify(result: Result) -> list[Violation]:
    """Return the violations that the independent checker finds in a result; empty for a valid schedule.

    >>> import backfill as bf
    >>> result = bf.simulate(bf.generate("lublin?jobs=100&cpus=64"), policy="easy")
    >>> bf.verify(result)
    []
    """
    if not isinstance(result, Result):
        raise wrong_type("result", result, "a Result, such as that of simulate(log)")
    return result.verify()
