"""The lines of slurm.conf that turn a site's configuration into one with other parameters."""

from collections.abc import Mapping

from backfill.model.slurm_site import SlurmSite
from backfill.policies.slurm.facts import KEYS, SCHEDULER, SITE, SPANS

# of SchedulerParameters, without a value
FLAGS = ("bf_continue", "assoc_limit_stop", "bf_one_resv_per_job", "pack_serial_at_end")


def lines_of(site: SlurmSite, params: Mapping[str, float | str]) -> list[str]:
    """Return the lines of slurm.conf with these parameters of the policy instead of the site's; those that differ.

    Parameters that slurm.conf does not have, such as phases, yield no line.
    """
    given = {name: float(value) for name, value in params.items() if name in KEYS and float(value) != SITE}
    stated = [part.strip() for part in site.config.get("schedulerparameters", "").split(",")]
    listed = [part for part in stated if part and part != "(null)"]
    before = list(listed)
    for name, value in given.items():
        if KEYS[name][4] == SCHEDULER:
            listed = _with(listed, name, value)
    lines = [f"SchedulerParameters={','.join(listed)}"] if listed != before else []
    for name, value in given.items():
        if KEYS[name][4] != SCHEDULER:
            lines.append(f"{name}={_clock(value) if name in SPANS else f'{value:.15g}'}")
    return lines


def _with(listed: list[str], name: str, value: float) -> list[str]:
    """Return a list of SchedulerParameters with another value, in the place of the old one."""
    flag = name in FLAGS
    new = (name if flag else f"{name}={value:.15g}") if value or not flag else ""
    found = [new if part.partition("=")[0].strip().lower() == name else part for part in listed]
    if new and new not in found:
        found.append(new)
    return [part for part in found if part]


def _clock(minutes: float) -> str:
    """Return minutes as slurm.conf writes a span: D-HH:MM:SS."""
    seconds = round(minutes * 60)
    return f"{seconds // 86_400}-{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
