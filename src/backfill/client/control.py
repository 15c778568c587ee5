"""Checks of `backfill doctor` for a queue that starts the jobs of Slurm.

They cover its rights, how jobs come to it, how they are given back, and whether Slurm's settings fit.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from backfill.client.finding import FAIL, OK, SETUP, WARN, Finding
from backfill.daemon.config import Config, preempts_by
from backfill.model.units import counted
from backfill.pools.conclude import KILLED_US
from backfill.pools.controlled import GUARDED, LOOKED
from backfill.pools.marks import mark_of
from backfill.pools.seen import WAITING, Down, JobNow
from backfill.pools.slurm import NOW, admin_level, settings
from backfill.queue.job import REQUEUE
from backfill.system.home import user_name

Settings = Mapping[str, str]
AGE_S = 60.0  # seconds since the last look, with a margin for a busy machine
GUARD_S = 3600.0  # a watchdog that runs less often does not count
APART_S = 2.0  # seconds by which the clocks of Slurm and of this machine may differ
LOOKS_S = 60  # least seconds for which Slurm must remember ended jobs: a queue looks at least every half minute


def controlled(config: Config, jobs: Sequence[JobNow]) -> Iterator[Finding]:
    """Yield the findings of all checks of such a queue. jobs: as the batch system shows them."""
    folder = config.file.parent
    if config.pool == "htcondor":
        from backfill.client import control_htcondor  # its bindings are an optional dependency

        yield from control_htcondor.controlled(config)
        yield watchdog(folder)
        return
    try:
        asked, conf = time.time(), settings()
    except Down:  # reported by another check
        return
    yield rights(conf)
    yield handed(conf, config, jobs)
    yield watchdog(folder)
    for check in SETTINGS:
        yield check(conf)
    yield requeue(conf, config.policy)
    yield clock(conf, asked)


def rights(conf: Settings) -> Finding:
    """Check whether this account may change and mark the jobs of all users."""
    account, slurm = user_name(os.getuid()), conf.get("SlurmUser", "").partition("(")[0]
    if os.getuid() == 0 or account == slurm:
        return Finding(OK, "rights", f"{account} may change all jobs of Slurm")
    try:
        level = admin_level(account) if _stored(conf) else ""
    except Down as down:
        return Finding(WARN, "rights", f"what {account} may do in Slurm is not known: {down}", f"{SETUP} rights")
    if level == "Administrator":
        return Finding(OK, "rights", f"{account} is an administrator of Slurm")
    what = f"{account} has the rights of {level or 'a user'} in Slurm, and may not mark the jobs of others"
    return Finding(FAIL, "rights", what, f"{SETUP} rights")


def handed(conf: Settings, config: Config, jobs: Sequence[JobNow]) -> Finding:
    """Check how jobs come to the queue: by a submit filter, or by adoption."""
    mark, plugins = mark_of(config.file.parent), conf.get("JobSubmitPlugins", "").split(",")
    file = Path(conf.get("SLURM_CONF", "/etc/slurm/slurm.conf")).with_name("job_submit.lua")
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    free = [job for job in jobs if job.state == WAITING and not (job.managed or job.blocked or job.own)]
    hint = f"{SETUP} filter, and {SETUP} conf"
    if "lua" in plugins and mark in text:
        return Finding(OK, "filter", f"{file} marks and holds jobs for this queue as they come")
    if config.adopt is not None:
        some = " and ".join(f"{kind} {', '.join(names)}" for kind, names in config.adopt.items()) or "all"
        return Finding(OK, "filter", f"no submit filter of this queue was found; it adopts the jobs of {some}")
    if "lua" in plugins and any(job.managed for job in jobs):
        return Finding(OK, "filter", "a submit filter is in use, and jobs of this queue are there")
    what = f"no submit filter of this queue was found at {file}, and it adopts no job"
    waiting = f"; {counted(len(free), 'job')} that only Slurm starts wait" if free else ""
    return Finding(FAIL, "filter", what + waiting, f"{hint}; or adopt = true in config.toml")


def watchdog(folder: Path) -> Finding:
    """Check whether jobs are given back if the daemon dies for good."""
    looked, guarded = _age(folder / LOOKED), _age(folder / GUARDED)
    last = "no daemon has looked yet" if looked is None else f"the last look was {looked:.0f} s ago"
    if guarded is None or guarded > GUARD_S:
        ran = "has never run" if guarded is None else f"last ran {guarded / 3600:.0f} h ago"
        message = f"{last}; the watchdog {ran}: if the daemon dies, jobs of the queue stay held"
        return Finding(WARN, "watchdog", message, f"{SETUP} watchdog")
    message = f"{last}; the watchdog ran {guarded:.0f} s ago"
    if looked is not None and looked > AGE_S:
        return Finding(
            WARN, "watchdog", message, "backfill serve --detach; or backfill pool release-all gives jobs back"
        )
    return Finding(OK, "watchdog", message)


def limits(conf: Settings) -> Finding:
    """Check how late a job is killed at its limit, which promises take into account."""
    over, wait = conf.get("OverTimeLimit", "0 min"), conf.get("KillWait", "30 sec")
    late = 30 + _number(wait) + 60 * _number(over)  # Slurm checks every half minute
    if "UNLIMITED" in over.upper() or late > KILLED_US / 1e6:
        what = f"OverTimeLimit={_first(over)}, KillWait={_first(wait)}: jobs may run longer over their limits than the "
        message = f"{what}{KILLED_US // 1_000_000} s that promises allow for"
        return Finding(WARN, "limits", message, "OverTimeLimit=0 and KillWait=30 in slurm.conf; else promises are late")
    return Finding(OK, "limits", f"a job is killed at most {late} s after its limit; promises allow for that")


def select(conf: Settings) -> Finding:
    """Check whether Slurm allocates parts of nodes, as the queue does."""
    kind, what = conf.get("SelectType", ""), conf.get("SelectTypeParameters", "")
    if kind in ("select/cons_tres", "select/cons_res"):
        return Finding(OK, "select", f"{kind} gives jobs parts of nodes ({what})")
    message = f"{kind} gives whole nodes, and the queue plans with parts of them"
    return Finding(FAIL, "select", message, "SelectType=select/cons_tres in slurm.conf")


def memory_of_ends(conf: Settings) -> Finding:
    """Check whether the end of a job is known if it was not seen in time."""
    age, stored = _number(conf.get("MinJobAge", "300 sec")), _stored(conf)
    known = "accounting knows them later" if stored else "later they are lost (LostByPool)"
    what = f"MinJobAge={age}: Slurm reports ends for {age} s; {known}"
    if 0 < age < LOOKS_S:
        return Finding(WARN, "ends", what, "MinJobAge=300 in slurm.conf")
    if not stored:
        return Finding(WARN, "ends", what, "AccountingStorageType=accounting_storage/slurmdbd in slurm.conf")
    return Finding(OK, "ends", what)


def requeue(conf: Settings, policy: str) -> Finding:
    """Check whether Slurm requeues jobs, which some policies need."""
    if conf.get("JobRequeue", "1") != "0":
        return Finding(OK, "requeue", "JobRequeue=1: a job whose node fails waits again")
    if preempts_by(policy) != REQUEUE:
        return Finding(OK, "requeue", "JobRequeue=0: a job whose node fails is over")
    what = f"JobRequeue=0: Slurm requeues only jobs whose users ask for it, and policy {policy} preempts by requeueing"
    return Finding(WARN, "requeue", what, "JobRequeue=1 in slurm.conf, or a policy that does not preempt")


def delay(conf: Settings) -> Finding:
    """Check how soon a released job starts."""
    pairs = dict(one.partition("=")[::2] for one in conf.get("SchedulerParameters", "").split(","))
    if pairs.get("batch_sched_delay") == "0" and pairs.get("sched_min_interval") == "0":
        return Finding(OK, "delay", "Slurm starts a released job at once")
    what = "Slurm may start a released job some seconds late, as batch_sched_delay and sched_min_interval are not 0"
    return Finding(WARN, "delay", what, f"{SETUP} conf")


def clock(conf: Settings, asked: float) -> Finding:
    """Check whether the clock of the controller agrees with this machine's."""
    now = conf.get(NOW, "")
    if not now.isdecimal():
        return Finding(WARN, "clocks", "Slurm does not tell its time")
    off = abs(int(now) + 0.5 - asked)
    what = f"the clocks of Slurm and of this machine are {off:.0f} s apart"
    if off > APART_S:
        return Finding(WARN, "clocks", what, "have both machines follow NTP")
    return Finding(OK, "clocks", "the clocks of Slurm and of this machine agree")


SETTINGS: Sequence[Callable[[Settings], Finding]] = (limits, select, memory_of_ends, delay)


def _stored(conf: Settings) -> bool:
    return conf.get("AccountingStorageType", "") == "accounting_storage/slurmdbd"


def _age(file: Path) -> float | None:
    """Return the seconds since a file was last modified; None if it does not exist."""
    try:
        return max(time.time() - file.stat().st_mtime, 0.0)
    except OSError:
        return None


def _number(text: str) -> int:
    """Return the first number in a setting such as `300 sec`."""
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0


def _first(text: str) -> str:
    return text.partition(" ")[0]
