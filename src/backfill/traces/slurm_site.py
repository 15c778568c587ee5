"""A site's own Slurm as a folder of what its commands print: `scontrol show config`, `sacctmgr show assoc`, ...

Source: the manual pages of scontrol, sacctmgr, sshare and slurm.conf, and what 22.05 prints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backfill.model.errors import PlatformError, at, check_path, quote
from backfill.model.partitions import Limit, Rules
from backfill.model.platform import Platform
from backfill.model.slurm_site import (
    DEFAULT_VERSION,
    PARENT,
    Accrual,
    Association,
    Minutes,
    SitePartition,
    SiteQos,
    SlurmSite,
    tres_weights,
)
from backfill.model.units import MIB, counted
from backfill.traces.accounting.slurm import memory_of, tres_of
from backfill.traces.broken import BrokenLine, BrokenLines, Field, whole
from backfill.traces.files import Source
from backfill.traces.inventory.nodes import Inventory, Terms
from backfill.traces.inventory.slurm import nodes_of_scontrol
from backfill.traces.slurm_limits import assoc_limits, most, qos_limits
from backfill.traces.slurm_moment import Moment, read_reservations, read_sdiag, read_sprio, read_squeue
from backfill.traces.slurm_requests import Requests, read_requests

Row = dict[str, str]
Rows = list[Row]
_SUFFIXES = (".txt", "", ".out", ".txt.gz")
CONFIG, PARTITIONS, NODES = "scontrol-show-config", "scontrol-show-partition", "scontrol-show-node"
ASSOC, QOS, SSHARE, LICENCES = "sacctmgr-show-assoc", "sacctmgr-show-qos", "sshare", "scontrol-show-license"
SACCT = "sacct"
SPRIO, SQUEUE, SDIAG, RESERVATIONS = "sprio", "squeue", "sdiag", "scontrol-show-reservation"
REQUIRED = (PARTITIONS, NODES)
FLAT_TOPOLOGIES = ("topology/none", "topology/default", "topology/flat")  # one setting, as versions name it
MISSING = {  # what counts without a dump
    CONFIG: f"every key has the default of Slurm, version {DEFAULT_VERSION}",
    ASSOC: "no association has shares or limits; the fair-share factor of every job is 0",
    QOS: "no quality of service has a priority or a limit, and each is charged in full",
    SSHARE: "usage is 0 at the begin of the log",
    LICENCES: "there are no licences",
    SACCT: "a job may run on any number of nodes that hold its tasks",
}
FIELDS = {  # columns in the order of docs/reference/slurm.md, for dumps without a header
    ASSOC: "cluster account user partition parentname share priority grpjobs grptres grptresmins grptresrunmins "
    "maxjobs maxtres maxwall maxjobsaccrue grpjobsaccrue qos defqos maxtresmins",
    QOS: "name priority usagefactor flags grptres grpjobs maxtrespu maxjobspu maxtrespa maxjobspa maxtres maxwall "
    "minpriothres maxjobsaccruepu preempt grptresmins grptresrunmins maxtresmins grpjobsaccrue maxjobsaccruepa",
    SSHARE: "account user rawshares normshares rawusage normusage effectvusage fairshare levelfs "
    "grptresmins tresrunmins",
}
_MAY_LACK = {ASSOC: 1, QOS: 5}  # columns at the end that a dump without a header may lack
_FIRST = {ASSOC: ("cluster", "account"), QOS: ("name", "priority"), SSHARE: ("account", "user")}  # of a header
_NOT_KEPT = {  # columns whose limits are left out
    ASSOC: ("maxtres", "maxwall"),
    QOS: ("maxtres", "maxwall", "preempt"),
}
_IGNORED = ("bf_busy_nodes", "defer", "max_rpc_cnt", "reduce_completing_frag", "bf_hetjob_prio")  # fmt: skip


@dataclass(frozen=True)
class ReadSite:
    """A platform with the site's own Slurm, and what its dumps said and did not say."""

    platform: Platform
    found: Mapping[str, str]  # file -> its content, in words
    missing: Mapping[str, str]  # name of a dump -> what counts without it
    left_out: tuple[str, ...]  # what the configuration has and the policy `slurm` does not
    notes: tuple[str, ...]  # damaged lines
    requests: Requests | None = None  # of the jobs in sacct.txt
    moment: Moment = Moment()  # noqa: RUF009 (it is frozen)

    @property
    def remarks(self) -> list[str]:
        """Return what is missing, damaged or left out, one sentence each."""
        return [
            *(f"no {name}.txt: {what}" for name, what in self.missing.items()),
            *self.notes,
            *(["left out by policy slurm: " + "; ".join(self.left_out)] if self.left_out else []),
        ]

    @property
    def site(self) -> SlurmSite:
        """The site's own Slurm."""
        assert self.platform.slurm is not None
        return self.platform.slurm


def read_slurm_site(folder: str | Path) -> ReadSite:
    """Read a folder of dumps; docs/reference/slurm.md lists their names.

    Raises PlatformError with file, line, value and what was expected.
    """
    check_path("site", folder)
    return _Reader(Path(folder)).read()


def dump_of(folder: Path, name: str) -> Source | None:
    """Return the dump of this name in a folder; None if it has none. Raises PlatformError."""
    for suffix in _SUFFIXES:
        path = folder / f"{name}{suffix}"
        if path.is_file():
            return Source.of(path, PlatformError)
    return None


@dataclass
class _Reader:
    folder: Path
    found: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def read(self) -> ReadSite:
        if not self.folder.is_dir():
            raise PlatformError(at(str(self.folder), None, "is not a folder; expected one with the dumps of a site"))
        sources = {name: self.source(name) for name in (CONFIG, PARTITIONS, NODES, ASSOC, QOS, SSHARE, LICENCES)}
        for name in REQUIRED:
            if sources[name] is None:
                called = name.replace("-", " ")
                raise PlatformError(at(str(self.folder), None, f"has no {name}.txt; expected what `{called}` prints"))
        config = self.config(sources[CONFIG])
        inventory = self.inventory(sources)
        partitions = tuple(self.partition(sources[PARTITIONS], name, t) for name, t in inventory.partitions.items())
        rows = {name: self.rows(name, sources[name]) for name in (ASSOC, QOS, SSHARE)}
        usage = {
            (row["account"], row["user"]): _number(row["rawusage"], "RawUsage") for row in rows[SSHARE]
        }  # fmt: skip
        associations = self.associations(rows[ASSOC], config, usage)
        qos = tuple(_qos(row) for row in rows[QOS])
        platform = inventory.platform(config.get("clustername", self.folder.name or "site"))
        site = SlurmSite(
            version=config.get("slurm_version", DEFAULT_VERSION),
            config=config,
            partitions=tuple(p for p in partitions if p.name in {each.name for each in platform.partitions}),
            weights=tuple(inventory.nodes[name].weight for name in platform.nodes),
            associations=associations,
            qos=qos,
        )
        platform = replace(platform, slurm=site, qos=tuple(Rules(name=each.name) for each in qos))
        asked = None
        if (jobs := self.source(SACCT)) is not None:
            asked = self.requests(jobs)
            asked, platform = asked.on(platform)
            site = asked.on_site(site)
            platform = replace(platform, slurm=site)
        lists = [each.name for each in platform.partitions[len(site.partitions) :]]
        of_qos = [*qos_limits(rows[QOS], site.partitions, lists)] if site.enforces_limits else []
        limits = [limit for limit, _ in of_qos]
        limits += assoc_limits(rows[ASSOC], associations) if site.enforces_limits else ()
        site = replace(site, spared=tuple(_on(platform, each) for _, spared in of_qos for each in spared))
        platform = replace(platform, slurm=site, limits=tuple(_on(platform, limit) for limit in limits))
        self.judge(site, rows, inventory)
        if asked is not None and (said := asked.left_out(bool(platform.licences))):
            self.left_out.append(said)
        moment = self.moment()
        return ReadSite(platform, self.found, self.missing, tuple(self.left_out), tuple(self.notes), asked, moment)

    def moment(self) -> Moment:
        """Return what sprio, squeue --start and sdiag said, and how many reservations there are."""
        found: dict[str, Any] = {}
        for name, read, what in (
            (SPRIO, read_sprio, "waiting job"),
            (SQUEUE, read_squeue, "waiting job"),
            (SDIAG, read_sdiag, ""),
            (RESERVATIONS, read_reservations, "reservation"),
        ):
            if (source := self.source(name)) is not None:
                found[name], notes = read(source)
                self.notes += notes
                self.found[source.file] = counted(len(found[name]), what) if what else str(found[name] or "nothing")
        ranked, expected, reserved = (tuple(found.get(name, ())) for name in (SPRIO, SQUEUE, RESERVATIONS))
        return Moment(ranked, expected, found.get(SDIAG), reserved)

    def source(self, name: str) -> Source | None:
        """Return the dump of this name; None if it is missing."""
        found = dump_of(self.folder, name)
        if found is None and name in MISSING:
            self.missing[name] = MISSING[name]
        return found

    def config(self, source: Source | None) -> dict[str, str]:
        """Return the keys of `scontrol show config` in lower case, with their values."""
        if source is None:
            return {}
        found, broken = dict[str, str](), BrokenLines(source.file)
        for number, line in enumerate(source.lines(), 1):
            key, equals, value = line.partition("=")
            if equals and " " not in key.strip():
                found.setdefault(key.strip().lower(), value.strip())
            elif equals:
                broken.add(number, f"is {quote(line)}; expected a key, = and its value")
        if not found:
            raise PlatformError(at(source.file, None, "has no line with a key, = and its value"))
        self.notes += broken.notes
        self.found[source.file] = f"{counted(len(found), 'key')}, Slurm {found.get('slurm_version', 'of no version')}"
        return found

    def inventory(self, sources: Mapping[str, Source | None]) -> Inventory:
        """Return the nodes, partitions and licences."""
        nodes, partitions, licences = (sources[name] for name in (NODES, PARTITIONS, LICENCES))
        assert nodes is not None
        assert partitions is not None
        found = nodes_of_scontrol(nodes.file, _text(nodes))
        if not found.nodes:
            raise PlatformError(at(nodes.file, None, "has no NodeName=; expected what `scontrol show node` prints"))
        found.partitions = nodes_of_scontrol(partitions.file, _text(partitions)).partitions
        if not found.partitions:
            expected = "has no PartitionName=; expected what `scontrol show partition` prints"
            raise PlatformError(at(partitions.file, None, expected))
        if licences is not None:
            found.licences = nodes_of_scontrol(licences.file, _text(licences)).licences
            self.found[licences.file] = counted(len(found.licences), "licence")
        self.found[nodes.file] = counted(len(found.nodes), "node")
        self.found[partitions.file] = counted(len(found.partitions), "partition")
        return found

    def partition(self, source: Source | None, name: str, terms: Terms) -> SitePartition:
        assert source is not None
        stated = terms.stated
        try:
            factor = whole("PriorityJobFactor", stated.get("PriorityJobFactor", "1"))
            billing = _BILLING[stated.get("TRESBillingWeights", "")]
        except BrokenLine as problem:
            raise PlatformError(at(source.file, None, f"partition {name}: {problem}")) from None
        least_loaded = stated.get("LLN") == "YES"
        qos = "" if (said := stated.get("QoS", "N/A")) in ("N/A", "(null)") else said
        return SitePartition(name, round(terms.priority) + 1, factor, terms.max_walltime, least_loaded, billing, qos)

    def rows(self, name: str, source: Source | None) -> Rows:
        """Return the rows of a table with | between its cells, keys in lower case; with a header or without."""
        if source is None:
            return []
        names, rows, broken = FIELDS[name].split(), Rows(), BrokenLines(source.file)
        trailing, lacking = False, _MAY_LACK.get(name, 0)
        for number, line in enumerate(source.lines(), 1):
            cells = line.rstrip("\r\n").split("|")
            keys = [cell.strip().replace(" ", "").lower() for cell in cells]
            if tuple(keys[:2]) == _FIRST[name]:
                names, trailing, lacking = [key for key in keys if key], keys[-1] == "", 0
                continue
            cells = cells[:-1] if trailing and cells[-1] == "" else cells
            if not line.strip():
                continue
            if lacking and len(cells) == len(names) - lacking:
                names, lacking = names[: len(cells)], 0
            if len(cells) != len(names):
                broken.add(number, f"{counted(len(cells), 'cell')}; expected {len(names)}: {'|'.join(names)}")
                continue
            row = dict.fromkeys(FIELDS[name].split(), "") | dict(zip(names, map(str.strip, cells), strict=True))
            try:
                _check(name, row)
            except BrokenLine as problem:
                broken.add(number, problem)
                continue
            rows.append(row)
        if not rows:
            broken.refuse_all(PlatformError)
        self.notes += broken.notes
        self.found[source.file] = counted(len(rows), "row")
        return rows

    def associations(
        self, rows: Rows, config: Mapping[str, str], usage: Mapping[tuple[str, str], float]
    ) -> tuple[Association, ...]:
        """Return the tree of associations, each account before what is below it."""
        cluster = config.get("clustername", "")
        mine = [row for row in rows if not cluster or row["cluster"] in ("", cluster)]
        accounts = {row["account"]: row for row in mine if not row["user"]}
        place: dict[str, int] = {}
        found: list[Association] = []

        def add(account: str, above: tuple[str, ...]) -> int:
            if account in place:
                return place[account]
            row = accounts[account]
            parent = row["parentname"]
            known = parent in accounts and parent not in above
            over = add(parent, (*above, account)) if known else (-1 if account == "root" else add_root())
            place[account] = len(found)
            found.append(_association(row, over, usage, found))
            return place[account]

        def add_root() -> int:
            if "root" not in place:
                if "root" in accounts:
                    return add("root", ())
                place["root"] = len(found)
                found.append(Association("root", usage=usage.get(("root", ""), 0.0)))
            return place["root"]

        if mine:
            add_root()
        for account in accounts:
            add(account, ())
        for row in mine:
            if row["user"]:
                found.append(_association(row, place.get(row["account"], 0), usage, found))
        return tuple(found)

    def requests(self, source: Source) -> Requests:
        """Return the jobs as they were requested, from their command lines."""
        asked = read_requests(source)
        self.notes += asked.notes
        self.found[source.file] = counted(len(asked.nodes), "job")
        return asked

    def judge(self, site: SlurmSite, rows: Mapping[str, Rows], inventory: Inventory) -> None:
        """Note what the configuration has and the policy `slurm` leaves out."""
        says = self.left_out.append
        if (preempts := site.value("PreemptType", "preempt/none")) != "preempt/none":
            says(f"PreemptType={preempts}: nothing is preempted")
        if "linear" in site.value("SelectType"):
            says(
                f"SelectType={site.value('SelectType')}: nodes are shared as by select/cons_tres; use --place exclusive"
            )
        if (topology := site.value("TopologyPlugin", "topology/none")) not in FLAT_TOPOLOGIES:
            says(f"TopologyPlugin={topology}: nodes are chosen as by topology/default")
        for key in _IGNORED:
            if key in site.scheduler:
                says(f"SchedulerParameters={key}")
        for name, terms in inventory.partitions.items():
            share = terms.stated.get("OverSubscribe", "NO")
            if share.startswith(("FORCE", "YES")):
                says(f"partition {name}: OverSubscribe={share}: cores are not shared")
        used_up = sum(bool(each.group) for each in site.minutes)
        if used_up and site.enforces_limits and not site.enforces_safely:
            says(f"GrpTRESMins of {counted(used_up, 'owner')}: jobs that Slurm ends when these are used up run on")
        for name, columns in _NOT_KEPT.items():
            for column in columns:
                if (many := sum(row[column] not in ("", "0") for row in rows[name])) and site.enforces_limits:
                    says(f"{column} of {counted(many, 'association' if name == ASSOC else 'QOS')}")


def _text(source: Source) -> str:
    return "".join(source.pieces())


def _number(text: str, name: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise BrokenLine(name, text, "a number") from None


def _minutes(text: str) -> dict[str, int]:
    """Parse `cpu=6000,mem=100G`: minutes by resource, those of memory in MB. Raises ValueError."""
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        amount = memory_of(value)[0] // MIB if name == "mem" else int(value)
        if not equals or amount < 0:
            raise ValueError(text)
        found[name] = amount
    return found


def _check(name: str, row: Row) -> None:
    """Raise BrokenLine if a cell that is used later has an invalid value."""
    numbers = {
        ASSOC: ("priority", "grpjobs", "maxjobs", "grpjobsaccrue", "maxjobsaccrue"),
        QOS: ("priority", "grpjobs", "maxjobspu", "maxjobspa", "grpjobsaccrue", "maxjobsaccruepu", "maxjobsaccruepa"),
    }
    for column in numbers.get(name, ()):
        whole(column, row[column] or "0")
    for column in ("grptresmins", "grptresrunmins", "maxtresmins") if name in (ASSOC, QOS) else ():
        _MINUTES[row[column]]
    for column in {ASSOC: ("grptres",), QOS: ("grptres", "maxtrespu", "maxtrespa")}.get(name, ()):
        _TRES[row[column]]
    if name == ASSOC and row["share"] != "parent":
        whole("share", row["share"] or "1")
    if name == QOS:
        _number(row["usagefactor"], "UsageFactor")
    if name == SSHARE:
        _number(row["rawusage"], "RawUsage")


_TRES = Field("amounts of resources", tres_of, "such as cpu=8,mem=32G")
_MINUTES = Field("minutes of resources", _minutes, "such as cpu=6000,gres/gpu=60")
_BILLING = Field("TRESBillingWeights", lambda text: tres_weights(text, MIB), "such as CPU=1.0,Mem=0.25G")


def _association(
    row: Row, parent: int, usage: Mapping[tuple[str, str], float], above: Sequence[Association]
) -> Association:
    """above: those before it, with its account among them, whose limits on one job and one user it inherits."""
    over = above[parent] if parent >= 0 else Association("root")
    mine = _minutes_of(row)
    old = over.accrual.user if row["maxjobsaccrue"] == "" else int(row["maxjobsaccrue"])
    shares = PARENT if row["share"] == "parent" else int(row["share"] or 1)
    priority = int(row["priority"] or 0)
    used = usage.get((row["account"], row["user"]), 0.0)
    return Association(
        *(row["account"], row["user"], row["partition"]),
        parent,
        shares,
        priority,
        used,
        replace(mine, job={**over.minutes.job, **mine.job}),
        Accrual(group=most(row["grpjobsaccrue"]), user=old),
    )


def _qos(row: Row) -> SiteQos:
    return SiteQos(
        row["name"],
        int(row["priority"] or 0),
        float(row["usagefactor"] or 1),
        frozenset(flag.strip().upper() for flag in row["flags"].split(",") if flag.strip()),
        _minutes_of(row),
        Accrual(most(row["grpjobsaccrue"]), most(row["maxjobsaccruepa"]), most(row["maxjobsaccruepu"])),
        most(row["minpriothres"]) or 0,
    )


def _minutes_of(row: Row) -> Minutes:
    return Minutes(_MINUTES[row["grptresmins"]], _MINUTES[row["grptresrunmins"]], _MINUTES[row["maxtresmins"]])


def _on(platform: Platform, limit: Limit) -> Limit:
    """Return a limit on what the platform has."""
    return replace(limit, running={name: most for name, most in limit.running.items() if name in platform.resources})
