"""A site's own Slurm, as its dumps describe it: configuration, partitions, associations, quality of service, usage.

The terms are Slurm's (slurm.conf, sacctmgr, sshare). Times in microseconds unless a key of slurm.conf says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from backfill.model.clock import Clock
from backfill.model.partitions import Limit

OVER_PART_QOS = "OVERPARTQOS"  # flag of a QOS: its limits go before those of the partition's QOS
PARENT = -1  # shares: those of the parent
DEFAULT_VERSION = "22.05"
RESOURCES = {"cpu": "cpus", "mem": "memory", "gres/gpu": "gpus"}  # Slurm's name -> that of a platform


@dataclass(frozen=True, slots=True)
class SitePartition:
    """The settings of a partition beside its nodes and limits: its place in the queue, and the billing of its jobs."""

    name: str
    tier: int = 1
    job_factor: int = 1
    max_time: int = 0  # 0 = unlimited
    least_loaded: bool = False  # LLN
    billing: Mapping[str, float] = field(default_factory=dict)  # TRESBillingWeights, memory per byte; lower case
    qos: str = ""  # whose limits count the jobs there; empty for none


@dataclass(frozen=True, slots=True)
class Minutes:
    """Limits on minutes of resources, by Slurm's names of these: cpu, node, gres/gpu, billing, and mem, in MB."""

    group: Mapping[str, int] = field(default_factory=dict)  # GrpTRESMins: what all may have used
    running: Mapping[str, int] = field(default_factory=dict)  # GrpTRESRunMins: what is left to all that runs
    job: Mapping[str, int] = field(default_factory=dict)  # MaxTRESMins: one job

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self.group or self.running or self.job)


@dataclass(frozen=True, slots=True)
class Accrual:
    """Limits on the number of waiting jobs that grow old; None for no limit."""

    group: int | None = None  # GrpJobsAccrue
    account: int | None = None  # MaxJobsAccruePA, of a QOS
    user: int | None = None  # MaxJobsAccruePU; of an association MaxJobsAccrue


@dataclass(frozen=True, slots=True)
class Association:
    """An account, or a user in an account. The first one of a site is root."""

    account: str
    user: str = ""  # empty: the account itself
    partition: str = ""  # empty: all
    parent: int = -1  # index of the account above; -1 for root
    shares: int = 1
    priority: int = 0
    usage: float = 0.0  # RawUsage, in seconds of billing, at the begin
    minutes: Minutes = Minutes()
    accrual: Accrual = Accrual()

    @property
    def title(self) -> str:
        """How limits call it: `association bio`, with its user `association bio ann`."""
        return f"association {self.account}{self.user and ' ' + self.user}"


@dataclass(frozen=True, slots=True)
class SiteQos:
    """A quality of service."""

    name: str
    priority: int = 0
    usage_factor: float = 1.0
    flags: frozenset[str] = frozenset()  # in upper case
    minutes: Minutes = Minutes()
    accrual: Accrual = Accrual()
    reserves_from: int = 0  # MinPrioThresh: the priority from which its jobs hold back others; 0: bf_min_prio_reserve


@dataclass(frozen=True, eq=False, kw_only=True)
class SlurmSite:
    """A site's own Slurm. Partitions and weights are those of the platform it belongs to, in the same order.

    Behind these the platform has the lists of partitions, `a,b`, for which jobs asked.
    """

    version: str = DEFAULT_VERSION
    config: Mapping[str, str] = field(default_factory=dict)  # `scontrol show config`, keys in lower case
    partitions: tuple[SitePartition, ...] = ()
    weights: tuple[int, ...] = ()  # of each node
    associations: tuple[Association, ...] = ()  # each account before its children
    qos: tuple[SiteQos, ...] = ()
    # what a workload has no column for: the least and the most nodes of jobs by their ids; 0 = not stated
    nodes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    clock: Clock | None = None  # of the log, for PriorityUsageResetPeriod
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the nodes that jobs named (-w), by their ids
    # of limits of the platform by their names: the jobs that these count and do not stop, as a QOS goes before them
    spared: tuple[Limit, ...] = ()
    throttles: Mapping[str, int] = field(default_factory=dict)  # tasks that may run at once, by the ids of arrays
    least_limits: Mapping[str, int] = field(default_factory=dict)  # --time-min in microseconds, by the ids of jobs
    lowered: Mapping[str, int] = field(default_factory=dict)  # limits that the backfill loop gave them

    @property
    def number(self) -> float:
        """The version as a number: 22.05 for 22.05.8."""
        return float(".".join(self.version.split(".")[:2]))

    @property
    def scheduler(self) -> dict[str, str]:
        """The SchedulerParameters, keys in lower case; one without a value is `1`."""
        return {
            key.strip().lower(): value.strip() or "1"
            for key, _, value in (part.partition("=") for part in self.config.get("schedulerparameters", "").split(","))
            if key.strip() and key.strip() != "(null)"
        }

    def value(self, key: str, missing: str = "") -> str:
        """Return a value of the configuration; `missing` if it has none."""
        found = self.config.get(key.lower(), "")
        return missing if found in ("", "(null)", "None", "NONE", "none") else found

    def flags(self, key: str) -> set[str]:
        """Return a list of the configuration, in upper case."""
        return {part.strip().upper() for part in self.value(key).split(",") if part.strip()}

    @property
    def stored(self) -> bool:
        """Return whether slurmdbd keeps accounts: without it, age and fair share count nothing."""
        return "slurmdbd" in self.value("AccountingStorageType")

    @property
    def enforces_limits(self) -> bool:
        """Return whether limits of associations and QOS count."""
        return bool(self.flags("AccountingStorageEnforce") & {"LIMITS", "SAFE", "ALL"})

    @property
    def enforces_safely(self) -> bool:
        """Return whether a job starts only if GrpTRESMins leaves enough for its whole time limit."""
        return bool(self.flags("AccountingStorageEnforce") & {"SAFE", "ALL"})

    @cached_property
    def _numbers(self) -> dict[tuple[str, str, str], int]:
        people = enumerate(self.associations)
        return {(each.account, each.user, each.partition): i for i, each in people if each.user}

    def association(self, account: str, user: str, partition: str) -> int:
        """Return the number of the association of a user in an account and a partition; -1 if there is none."""
        known = self._numbers
        return known.get((account, user, partition), known.get((account, user, ""), -1))

    def upwards(self, association: int) -> list[int]:
        """Return an association and those above it, up to root; empty for -1."""
        found = []
        while association >= 0:
            found.append(association)
            association = self.associations[association].parent
        return found

    @cached_property
    def minutes(self) -> list[Minutes]:
        """The limits on minutes of all owners: the associations, and behind them the QOS."""
        return [*(each.minutes for each in self.associations), *(each.minutes for each in self.qos)]

    def owners(self, account: str, user: str, partition: str, qos: str) -> list[int]:
        """Return who counts the minutes of a job, by their places in `minutes`; nobody if it has no association."""
        above = self.upwards(self.association(account, user, partition))
        return [*above, *(len(self.associations) + i for i in self.qos_of(partition, qos) if above)]

    def qos_of(self, partition: str, qos: str) -> list[int]:
        """Return the QOS whose limits count a job, by their numbers: first the one whose limits go before."""
        number = {each.name: i for i, each in enumerate(self.qos)}
        there = next((each.qos for each in self.partitions if each.name == partition), "")
        found = list(dict.fromkeys(number[name] for name in (there, qos) if name in number))
        over = qos in number and OVER_PART_QOS in self.qos[number[qos]].flags
        return found[::-1] if over else found

    def counts_minutes(self, account: str, user: str, partition: str, qos: str) -> bool:
        """Return whether a limit on minutes counts a job."""
        every = self.minutes
        return self.enforces_limits and any(every[owner] for owner in self.owners(account, user, partition, qos))

    @property
    def limits_minutes(self) -> bool:
        """Return whether any limit on minutes counts, so that a job may wait for ever."""
        return self.enforces_limits and any(self.minutes)


def tres_weights(text: str, memory: float) -> dict[str, float]:
    """Parse weights of resources, `CPU=1.0,Mem=0.25G`, to numbers by name in lower case; that of memory per byte.

    memory: the bytes in the unit of a weight of memory without a letter. Raises ValueError.

    >>> tres_weights("CPU=2,Mem=1G", 1.0) == {"cpu": 2.0, "mem": 2.0**-30}
    True
    """
    found: dict[str, float] = {}
    for part in text.split(",") if text not in ("", "(null)") else ():
        name, _, value = part.strip().partition("=")
        unit = memory
        if value[-1:].upper() in "KMGTP" and value[:-1]:
            unit, value = 1024.0 ** ("KMGTP".index(value[-1].upper()) + 1), value[:-1]
        found[name.lower()] = float(value) / (unit if name.lower() == "mem" else 1.0)
    return found
