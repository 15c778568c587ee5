"""The effect of other settings of a site's scheduler, paired by job, beside the noise floor of the model.

Each configuration runs with the same phases of its clocks. What two phases of one configuration differ by is noise; an
effect counts if it is the same way in all phases and larger than that.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from backfill.analysis.groups import RUNS, SIZES, class_of
from backfill.model.units import SECOND, counted, times
from backfill.model.workload import Floats, Ints, Labels, Workload

LOSERS = 20  # jobs that lose most
KINDS = {"account": "group", "QOS": "qos", "partition": "partition"}  # Slurm's name -> that of the labels
GROUPS = 12  # of each kind, those with most jobs


@dataclass(frozen=True, slots=True)
class Loser:
    """A job that waits longer. Times in seconds; waits are medians over the phases."""

    job: str
    user: str
    account: str
    qos: str
    partition: str
    cpus: int
    walltime_s: float
    before_s: float  # wait under the baseline
    after_s: float
    own_s: float  # largest distance between its waits in two phases of the baseline

    @property
    def later_s(self) -> float:
        """How much longer it waits."""
        return self.after_s - self.before_s


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """The mean waits of the jobs of an account, QOS, partition, size or limit, means over the phases, in seconds."""

    by: str
    name: str
    jobs: int
    before_s: float
    after_s: float
    floor_s: float  # largest distance between the mean waits in two phases of the baseline


@dataclass(frozen=True, slots=True)
class Effect:
    """One configuration against the baseline."""

    policy: str
    baseline: str
    jobs: int  # that ran under both, in all phases
    changes_s: tuple[float, ...]  # of the mean wait, by phase
    floor_s: float  # largest distance between the mean waits of two phases of one of the two
    later: int  # jobs that wait longer, by more than their waits differ between phases of the baseline
    earlier: int
    losers: tuple[Loser, ...]  # the largest delay first
    groups: tuple[GroupWaits, ...]
    lines: tuple[str, ...]  # of slurm.conf

    @property
    def change_s(self) -> float:
        """The mean change of the mean wait."""
        return float(np.mean(self.changes_s))

    @property
    def is_clear(self) -> bool:
        """Return whether the change has one sign in all phases, and exceeds the noise floor."""
        return abs(self.change_s) > self.floor_s and (min(self.changes_s) > 0 or max(self.changes_s) < 0)

    @property
    def sentence(self) -> str:
        """The change of the mean wait, its range and the noise floor."""
        low, high, floor = times([min(self.changes_s), max(self.changes_s), self.floor_s])
        phases = len(self.changes_s)
        if phases < 2:
            return f"{self.policy} changes the mean wait by {low}; one phase of the clocks has no noise floor"
        verdict = "clear" if self.is_clear else "no clear difference"
        return (
            f"{self.policy} changes the mean wait by {low} to {high} over {counted(phases, 'phase')} of the clocks; "
            f"phases of the same configuration differ by up to {floor}: {verdict}"
        )

    @property
    def who(self) -> str:
        """How many jobs wait longer and shorter."""
        return (
            f"{self.later:,} of {counted(self.jobs, 'job')} wait longer and {self.earlier:,} shorter, by more than "
            f"their waits differ between phases of {self.baseline}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        names = ("policy", "baseline", "jobs", "floor_s", "later", "earlier", "sentence")
        return {
            **{name: getattr(self, name) for name in names},
            "changes_s": list(self.changes_s),
            "clear": self.is_clear,
            "losers": [asdict(each) | {"later_s": each.later_s} for each in self.losers],
            "groups": [asdict(each) for each in self.groups],
            "slurm_conf": list(self.lines),
        }


def effect(
    workload: Workload,
    names: tuple[str, str],
    rows: Ints,
    before: Sequence[Ints],
    after: Sequence[Ints],
    lines: Sequence[str] = (),
) -> Effect:
    """Compare a configuration with the baseline.

    names: of the configuration and of the baseline. rows: of the jobs that count. before, after: the waits of all
    jobs of the workload in each phase, in microseconds, of the baseline and of the configuration.
    """  # fmt: skip
    waits = [np.array([each[rows] / SECOND for each in runs]) for runs in (before, after)]
    means = [each.mean(axis=1) for each in waits]
    old, new = np.median(waits[0], axis=0), np.median(waits[1], axis=0)
    own = np.ptp(waits[0], axis=0)
    order = np.argsort(old - new, kind="stable")[:LOSERS]
    return Effect(
        policy=names[0],
        baseline=names[1],
        jobs=len(rows),
        changes_s=tuple((means[1] - means[0]).tolist()),
        floor_s=max(_widest(each) for each in means),
        later=int(np.count_nonzero(new - old > own)),
        earlier=int(np.count_nonzero(old - new > own)),
        losers=tuple(
            _loser(workload, int(rows[i]), float(old[i]), float(new[i]), float(own[i]))
            for i in order.tolist()
            if new[i] > old[i]
        ),
        groups=tuple(_groups(workload, rows, waits[0], waits[1])),
        lines=tuple(lines),
    )


def _widest(values: Floats) -> float:
    return float(np.ptp(values))


def _loser(workload: Workload, row: int, before: float, after: float, own: float) -> Loser:
    jobs = workload.jobs
    return Loser(
        job=str(jobs.job[row]),
        user=jobs.user[row],
        account=jobs.group[row],
        qos=jobs.qos[row],
        partition=jobs.partition[row],
        cpus=int(jobs.procs[row]),
        walltime_s=int(jobs.walltime[row]) / SECOND,
        before_s=before,
        after_s=after,
        own_s=own,
    )


def _groups(workload: Workload, rows: Ints, before: Floats, after: Floats) -> list[GroupWaits]:
    """Return the waits by account, QOS, partition, size and limit. before, after: [phase][job] in seconds."""
    found = []
    for by, labels, most in _kinds(workload, rows):
        count = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
        order = np.argsort(-count, kind="stable")[:GROUPS] if most else np.arange(len(count))
        for code in order.tolist():
            if count[code]:
                mine = labels.codes == code
                means = before[:, mine].mean(axis=1)
                found.append(GroupWaits(by, labels.names[code], int(count[code]), float(means.mean()),
                                        float(after[:, mine].mean()), _widest(means)))  # fmt: skip
    return found


def _kinds(workload: Workload, rows: Ints) -> list[tuple[str, Labels, bool]]:
    """Return the kinds of groups, the group of each of these jobs, and whether those with most jobs come first."""
    jobs = workload.jobs
    named = [(by, getattr(jobs, column).take(rows), True) for by, column in KINDS.items()]
    sizes, limits = class_of(jobs.procs[rows], SIZES), class_of(jobs.walltime[rows], RUNS)
    return [*named, ("size", sizes, False), ("time limit", limits, False)]
