"""The reasons that the policy `slurm` keeps of waiting jobs (policies/slurm/reasons.py), by Slurm's reason codes."""

from typing import Any

from backfill.model.partitions import RUNNING_JOBS
from backfill.model.platform import Platform
from backfill.policies.slurm.allowances import KINDS
from backfill.policies.slurm.reasons import (
    LICENCES,
    LIMIT,
    MINUTES,
    NO_REASON,
    PRIORITY,
    RESOURCES,
    TAKEN,
    THROTTLED,
    UNAVAILABLE,
)

NONE = "None"  # of a job that no loop has looked at
_CODES = {
    NO_REASON: NONE,
    PRIORITY: "Priority",
    RESOURCES: "Resources",
    UNAVAILABLE: "ReqNodeNotAvail",
    TAKEN: "ReqNodeNotAvail",  # a log says Resources, `squeue` that nodes are reserved for higher partitions
    LICENCES: "Licenses",
    THROTTLED: "JobArrayTaskLimit",
}
_PER = {"each user": "Max{}PerUserLimit", "each account": "Max{}PerAccount", "all": "Grp{}Limit"}
_WHAT = {RUNNING_JOBS: "Jobs", "running cpus": "Cpu", "running memory": "Memory", "running gpus": "GRES"}
_OF_MINUTES = {"GrpTRESMins": "Grp{0}Minutes{2}", "GrpTRESRunMins": "Grp{0}RunMinutes{2}",
               "MaxTRESMins": "Max{1}MinutesPerJob{2}"}  # fmt: skip
_KINDS = {
    "cpu": ("CPU", "Cpu", "Limit"),
    "mem": ("Mem", "Mem", ""),
    "node": ("Node", "Node", ""),
    "gres/gpu": ("GRES", "GRES", ""),
    "billing": ("Billing", "Billing", ""),
}


def code_of_reason(reason: int, own: Any, platform: Platform) -> str:
    """Return Slurm's code for a reason in the memory of the policy. platform: as a run counts it."""
    return code_of(name) if (name := name_of_limit(reason, own, platform)) else _CODES[reason]


def name_of_limit(reason: int, own: Any, platform: Platform) -> str:
    """Return the name of the limit that a reason is; empty if it is none."""
    if reason >= MINUTES:
        return name_of_minutes(reason - MINUTES, own, platform)
    return tuple(platform.licences)[reason - LIMIT] if reason >= LIMIT else ""


def name_of_minutes(limit: int, own: Any, platform: Platform) -> str:
    """Return the name of a limit on minutes by its place in `minute_limit`: `QOS low: GrpTRESMins of cpu`."""
    kinds, site = own.minute_kinds.tolist(), platform.slurm
    assert site is not None
    owner, which, kind = limit // (3 * len(kinds)), limit // len(kinds) % 3, KINDS[kinds[limit % len(kinds)]]
    if owner < len(site.associations):
        name = site.associations[owner].title
    else:
        name = f"QOS {site.qos[owner - len(site.associations)].name}"
    return f"{name}: {('GrpTRESMins', 'GrpTRESRunMins', 'MaxTRESMins')[which]} of {kind}"


def code_of(limit: str) -> str:
    """Return Slurm's reason code for a limit by its name here.

    >>> code_of("QOS low, each user: running cpus of ann")
    'QOSMaxCpuPerUserLimit'
    >>> code_of("association bio: running_jobs")
    'AssocGrpJobsLimit'
    >>> code_of("association bio: MaxTRESMins of cpu")
    'AssocMaxCpuMinutesPerJobLimit'
    """
    name, _, rest = limit.partition(": ")
    if " of " in rest and (form := _OF_MINUTES.get(rest.partition(" of ")[0])):
        return ("QOS" if name.startswith("QOS ") else "Assoc") + form.format(*_KINDS[rest.partition(" of ")[2]])
    what = next((code for text, code in _WHAT.items() if rest.startswith(text)), "Resource")
    if name.startswith("QOS "):
        form = _PER.get(name.rpartition(", ")[2], "Grp{}Limit")
        prefix = "" if "Account" in form else "QOS"
        return prefix + form.format(what)
    return ("AssocMax{}Limit" if name.endswith("MaxJobs") else "AssocGrp{}Limit").format(what)
