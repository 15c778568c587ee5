"""Texts that a site installs so that a queue starts the jobs of its batch system."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backfill.pools.comments import KEPT
from backfill.pools.htcondor_setup import htcondor_setup
from backfill.pools.marks import mark_of
from backfill.pools.slurm import SUBMITTED

# Median delay of the start of a released job: 0.8 s with these settings, 1.8 s with the usual ones.
PROMPT = {"batch_sched_delay": "0", "sched_min_interval": "0"}


@dataclass(frozen=True)
class Site:
    """The installation of a queue and its batch system.

    home: the folder of the queue. account, uid: the user who runs it. program: the words of the command `backfill`.
    settings: of the batch system, as it reports them. users, partitions: whose jobs the queue starts; empty for all.
    environment: for the commands of the batch system.
    """

    home: Path
    account: str
    uid: int
    program: Sequence[str]
    settings: Mapping[str, str]
    users: Sequence[str] = ()
    partitions: Sequence[str] = ()
    environment: Mapping[str, str] | None = None


FILTER = """\
-- The submit filter of backfill: jobs come held, and only the queue in {home} starts them.
-- It goes to {file} on each machine that runs slurmctld, which notices the change by itself.
-- If there is such a file already, call these two functions from its own.

local QUEUE = "{mark}" -- how the AdminComment of its jobs begins
local OPERATORS = {operators} -- uids that may release jobs and change priorities
local USERS = {users} -- users whose jobs the queue starts; empty: all
local PARTITIONS = {partitions} -- partitions whose jobs the queue starts; empty: all
local PART = "%[backfill:[^%]]*%]" -- the queue's part of a comment
local HELD, RELEASED = "[backfill:{kept}]", "[backfill:released]"

local function among(set, name)
  return next(set) == nil or set[name] ~= nil
end

local function partition_of(job_desc, part_list)
  if job_desc.partition ~= nil then
    return job_desc.partition:match("^[^,]*")
  end
  for name, part in pairs(part_list) do
    if part.flag_default == 1 then
      return name
    end
  end
end

-- Jobs whose requests policies do not support are left to Slurm: those that name nodes or a reservation, exclude nodes,
-- or give a range of nodes, arrays with a limit of running tasks, and heterogeneous jobs.
local function left_alone(job_desc)
  local offset = job_desc.het_job_offset
  local het = offset ~= nil and offset ~= slurm.NO_VAL
  local named = (job_desc.req_nodes or "") .. (job_desc.exc_nodes or "") .. (job_desc.reservation or "")
  local range = job_desc.max_nodes ~= slurm.NO_VAL and job_desc.max_nodes > math.max(job_desc.min_nodes, 1)
  local throttled = (job_desc.array_inx or ""):find("%", 1, true) ~= nil
  return het or named ~= "" or range or throttled
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  local ours = among(USERS, job_desc.user_name) and among(PARTITIONS, partition_of(job_desc, part_list))
  if not ours or left_alone(job_desc) then
    return slurm.SUCCESS
  end
  if job_desc.priority == 0 then -- held by its user
    job_desc.comment = (job_desc.comment or "") .. HELD
  end
  job_desc.priority = 0
  job_desc.admin_comment = QUEUE .. "{submitted}"
  return slurm.SUCCESS
end

-- A user may hold a job, and release it again: that is noted in its comment, as the queue's own hold stays on it.
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  local mark, comment = job_rec.admin_comment or "", job_rec.comment or ""
  if OPERATORS[modify_uid] ~= nil or mark:sub(1, #QUEUE) ~= QUEUE then
    return slurm.SUCCESS
  end
  if job_desc.admin_comment ~= nil then
    return slurm.ESLURM_ACCESS_DENIED
  end
  local held = comment:find(HELD, 1, true) ~= nil
  if job_desc.priority == 0 then
    held = true
  elseif job_desc.priority ~= slurm.NO_VAL then
    if not held then
      return slurm.ESLURM_ACCESS_DENIED
    end
    held, job_desc.priority = false, slurm.NO_VAL
  elseif job_desc.comment == nil or not held then
    return slurm.SUCCESS
  end
  comment = (job_desc.comment or comment):gsub(PART, "") .. (held and HELD or "")
  job_desc.comment = comment ~= "" and comment or RELEASED -- Slurm ignores an empty comment of a filter
  return slurm.SUCCESS
end

return slurm.SUCCESS
"""

RIGHTS = """\
# The account that runs the queue, {account}, changes the jobs of all users, and their AdminComment. So it must be
# root, SlurmUser ({slurm}), or an administrator in Slurm's accounting; an operator does not suffice.
{command}
"""

CONF = """\
# Lines of slurm.conf, on all machines; then: scontrol reconfigure
JobSubmitPlugins={plugins}
SchedulerParameters={parameters}
"""

UNIT = """\
# /etc/systemd/system/backfill.service, on the machine that has the folder of the queue; then:
#   systemctl daemon-reload; systemctl enable --now backfill
[Unit]
Description=backfill queue in {home}
After=network-online.target munge.service

[Service]
User={account}
{environment}
ExecStart={program} serve
WorkingDirectory=/
Restart=on-failure
# Another daemon serves the queue already.
SuccessExitStatus=75

[Install]
WantedBy=multi-user.target
"""

WATCHDOG = """\
# A line of the crontab of {account}: crontab -e. If no daemon has looked for ten minutes, the batch
# system gets all jobs back.
* * * * * {environment} {program} pool watchdog --after 10m
"""


def slurm_setup(site: Site) -> dict[str, str]:
    """Return the parts of an installation with Slurm, by name; each says where it goes."""
    slurm = site.settings.get("SlurmUser", "root(0)")
    name, _, uid = slurm.rstrip(")").partition("(")
    operators = {0, site.uid, *([int(uid)] if uid.isdecimal() else [])}
    environment = {"BACKFILL_HOME": str(site.home), **(site.environment or {})}
    file = Path(site.settings.get("SLURM_CONF", "/etc/slurm/slurm.conf")).with_name("job_submit.lua")
    add = f"sacctmgr -i add user {site.account} account=root adminlevel=Administrator"
    may = site.uid == 0 or site.account == name
    return {
        "filter": FILTER.format(
            home=site.home,
            file=file,
            mark=mark_of(site.home),
            submitted=SUBMITTED,
            kept=KEPT,
            operators=_set(sorted(operators)),
            users=_set(site.users),
            partitions=_set(site.partitions),
        ),
        "conf": CONF.format(
            plugins=",".join(_with_lua(_value(site.settings, "JobSubmitPlugins"))),
            parameters=",".join(_prompt(_value(site.settings, "SchedulerParameters"))),
        ),
        "rights": RIGHTS.format(
            account=site.account, slurm=name, command="# It is: there is nothing to do." if may else add
        ),
        **by_itself(site, environment),
    }


def condor_setup(site: Site) -> dict[str, str]:
    """Return the parts of an installation with HTCondor, by name."""
    environment = {"BACKFILL_HOME": str(site.home), **(site.environment or {})}
    return htcondor_setup(site.home, site.account, site.users) | by_itself(site, environment)


def by_itself(site: Site, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the unit that runs a daemon permanently, and the watchdog that gives jobs back if no daemon runs."""
    return {
        "unit": UNIT.format(
            home=str(site.home).replace("%", "%%"),
            account=site.account,
            program=" ".join(_systemd(word).replace("$", "$$") for word in site.program),
            environment="\n".join(f"Environment={_systemd(f'{key}={value}')}" for key, value in environment.items()),
        ),
        "watchdog": WATCHDOG.format(
            account=site.account,
            environment=_cron(" ".join(f"{key}={shlex.quote(value)}" for key, value in environment.items())),
            program=_cron(shlex.join(site.program)),
        ),
    }


SETUPS = {"slurm": slurm_setup, "htcondor": condor_setup}  # by batch system


def surroundings() -> dict[str, str]:
    """Return the environment that the commands of the batch system need, taken from this process."""
    folder = os.path.dirname(shutil.which("scontrol") or "/usr/bin/")
    found = {"PATH": ":".join(dict.fromkeys([folder, "/usr/bin", "/bin"]))}
    return found | {name: os.environ[name] for name in ("SLURM_CONF", "CONDOR_CONFIG") if os.environ.get(name)}


def _value(settings: Mapping[str, str], name: str) -> list[str]:
    text = settings.get(name, "(null)")
    return [] if text in ("(null)", "") else text.split(",")


def _with_lua(plugins: list[str]) -> list[str]:
    return [*plugins, *(["lua"] if "lua" not in plugins else [])]


def _prompt(parameters: list[str]) -> list[str]:
    """Return scheduler parameters, with those added that make a released job start at once."""
    kept = [one for one in parameters if one.partition("=")[0] not in PROMPT]
    return [*kept, *(f"{name}={value}" for name, value in PROMPT.items())]


def _set(some: Sequence[str | int]) -> str:
    """Return a set as Lua code."""
    return f"{{ {', '.join(f'[{json.dumps(one, ensure_ascii=False)}] = true' for one in some)} }}" if some else "{}"


def _systemd(word: str) -> str:
    """Quote a word for systemd, if necessary."""
    if re.fullmatch(r"[\w./:=@+-]+", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _cron(text: str) -> str:
    return text.replace("%", "\\%")  # an unescaped % ends the line
