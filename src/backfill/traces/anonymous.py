"""Anonymous copies of workloads and platforms, for sharing.

Everything that a policy sees stays: times, sizes, which jobs share a name, and the order in which names first appear.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from backfill.model.errors import BadArgument, UsageError, at
from backfill.model.partitions import Limit, Rules
from backfill.model.platform import Platform
from backfill.model.workload import RESOURCES, Labels, Workload
from backfill.traces.accounting import slurm
from backfill.traces.alibaba import PHASES
from backfill.traces.alibaba import RESOURCES as ALIBABA
from backfill.traces.files import written_text
from backfill.traces.swf_lines import STATUS

PEOPLE = ("user", "group", "project")  # kinds of names that are always replaced
OTHERS = (
    "partition",
    "queue",
    "qos",
    "reservation",
    "site",
    "node",
    "feature",
    "licence",
    "resource",
    "status",
)  # kinds of names that may be kept
_LABELS = (
    "user",
    "group",
    "project",
    "partition",
    "queue",
    "qos",
    "reservation",
    "site",
    "status",
)  # columns with such names
_HARMLESS = {
    "status": {*STATUS.values(), *map(slurm.status_of, slurm.STATES), *PHASES},
    "resource": {*RESOURCES, *ALIBABA},
}
_PREFIX = {"partition": "part", "licence": "lic", "node": "n"}
_HEADER = ("kind", "name", "alias")


@dataclass(slots=True)
class Aliases:
    """The alias of each name, by kind; equal names of a kind always get the same alias."""

    known: dict[str, dict[str, str]] = field(default_factory=dict)
    keep: Sequence[str] = ()  # kinds of OTHERS that have no aliases
    met: set[tuple[str, str]] = field(default_factory=set)  # kinds and names that were looked up

    def __post_init__(self) -> None:
        """Raise UsageError if a kind in `keep` may not be kept."""
        if bad := next((kind for kind in self.keep if kind not in OTHERS), None):
            raise BadArgument("keep", bad, ", ".join(OTHERS))

    @classmethod
    def read(cls, path: str | Path, keep: Sequence[str] = ()) -> "Aliases":
        """Read aliases from a CSV with the columns kind, name and alias. Raises UsageError."""
        aliases = cls(keep=keep)
        try:
            with open(path, encoding="utf-8", newline="") as lines:
                rows = [*csv.reader(lines)]
        except (OSError, UnicodeDecodeError, csv.Error) as problem:
            raise UsageError(at(str(path), None, f"cannot be read: {problem}")) from None
        for line, row in enumerate(rows, start=1):
            if line == 1 and tuple(row) == _HEADER:
                continue
            if line == 1 or len(row) != 3 or row[0] not in ("job", *PEOPLE, *OTHERS):
                raise UsageError(at(str(path), line, f"expected the columns {','.join(_HEADER)}, and a kind of names"))
            aliases.known.setdefault(row[0], {})[row[1]] = row[2]
        return aliases

    def write(self, path: str | Path) -> None:
        """Write the CSV that `read` reads. It allows anybody to undo the replacement."""
        with written_text(path) as out:
            sheet = csv.writer(out, lineterminator="\n")
            sheet.writerow(_HEADER)
            sheet.writerows((kind, name, alias) for kind, names in self.known.items() for name, alias in names.items())

    def hides(self, kind: str, name: str) -> bool:
        """Return whether a name of a kind is replaced: not kept, not a number, and not a word common to all logs."""
        if kind in PEOPLE:
            return True
        return not (kind in self.keep or _is_number(name) or name in _HARMLESS.get(kind, ()))

    def of(self, kind: str, name: str) -> str:
        """Return the alias of a name (user1, user2, ... in order of lookup), or the name if it may be shown."""
        self.met.add((kind, name))
        if not self.hides(kind, name):
            return name
        if kind == "status" and name.lower().startswith("cancel"):
            return "cancelled"  # a simulation distinguishes no other status
        names = self.known.setdefault(kind, {})
        if name not in names:
            names[name] = f"{_PREFIX.get(kind, kind)}{len(names) + 1}"
        return names[name]

    def of_either(self, kind: str, other: str, name: str) -> str:
        """Return the alias of a name as one of `kind` if it was met as such, else as one of `other`."""
        return self.of(kind if (kind, name) in self.met else other, name)


@dataclass(frozen=True, slots=True)
class Replaced:
    """The number of replaced names of a kind."""

    kind: str
    names: int  # different ones
    jobs: int  # that have one


def anonymous(workload: Workload, aliases: Aliases) -> tuple[Workload, list[Replaced]]:
    """Return the workload with aliases in place of names, and the counts of replaced names.

    The workload's own name, the hash of its file and an unknown time zone are removed too. aliases: shared with the
    platform, if there is one.
    """
    jobs, replaced = workload.jobs, list[Replaced]()
    columns: dict[str, object] = {}
    ids = [str(job) for job in jobs.job]
    if count := sum(aliases.hides("job", job) for job in ids):
        columns["job"] = np.array([aliases.of("job", job) for job in ids], object)
        replaced.append(Replaced("job", count, count))
    for kind in _LABELS:
        labels: Labels = jobs[kind]
        columns[kind] = Labels(labels.codes, tuple(aliases.of(kind, name) for name in labels.names))
        replaced.append(_replaced(kind, labels, [aliases.hides(kind, name) for name in labels.names]))
    licences = tuple(aliases.of_either("resource", "licence", name) for name in workload.licences)
    hidden = np.array([new != old for new, old in zip(licences, workload.licences, strict=True)], np.bool_)
    holders = np.unique(jobs.licences.jobs[hidden[jobs.licences.items]])
    replaced.append(Replaced("licence", int(hidden.sum()), len(holders)))
    texts = tuple(_terms(text, aliases) for text in jobs.constraint.names)
    columns["constraint"] = Labels(jobs.constraint.codes, texts)
    changed = [new != old for new, old in zip(texts, jobs.constraint.names, strict=True)]
    replaced.append(_replaced("feature", jobs.constraint, changed))
    resources = tuple(aliases.of_either("licence", "resource", name) for name in workload.resources)
    for k, (new, old) in enumerate(zip(resources, workload.resources, strict=True)):
        if new != old:
            replaced.append(Replaced("resource", 1, int((jobs.demand[:, k] > 0).sum())))
    copy = replace(
        workload,
        jobs=jobs.replace(**columns),
        licences=licences,
        resources=resources,
        clock=None if workload.clock is None else replace(workload.clock, zone=workload.clock.name),
        name="anonymous",
        sha256="",
        notes=(),  # they may quote lines of the file
        platform=None,
    )
    return copy, [each for each in replaced if each.jobs]


def _replaced(kind: str, labels: Labels, hidden: Sequence[bool]) -> Replaced:
    return Replaced(kind, sum(hidden), int(np.array([*hidden, False], np.bool_)[labels.codes].sum()))


def anonymous_platform(platform: Platform, aliases: Aliases) -> Platform:
    """Return the platform with the same aliases, including its rules."""

    def names(kind: str, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(aliases.of(kind, name) for name in given)

    resource = {name: aliases.of("resource", name) for name in platform.resources}
    resource |= {name: aliases.of("licence", name) for name in platform.node_licences}

    def amounts(given: dict[str, int]) -> dict[str, int]:
        return {resource.get(name) or aliases.of("resource", name): amount for name, amount in given.items()}

    def rules(each: Rules, kind: str) -> Rules:
        return replace(
            each,
            name=aliases.of(kind, each.name),
            max_size=amounts(each.max_size),
            users=names("user", each.users),
            groups=names("group", each.groups),
        )

    def limit(number: int, each: Limit) -> Limit:
        return replace(
            each,
            name=f"limit{number}",  # the name is free text of the site
            partitions=names("partition", each.partitions),
            qos=names("qos", each.qos),
            users=names("user", each.users),
            groups=names("group", each.groups),
            projects=names("project", each.projects),
            running=amounts(each.running),
        )

    return replace(
        platform,
        name="anonymous",
        nodes=names("node", platform.nodes),
        features=tuple(
            tuple(aliases.of_either("node", "feature", name) for name in each) for each in platform.features
        ),
        sites=names("site", platform.sites) if platform.sites != ("",) else platform.sites,
        licences=names("licence", platform.licences),
        resources=tuple(resource.values()),
        node_licences=tuple(resource[name] for name in platform.node_licences),
        partitions=tuple(rules(each, "partition") for each in platform.partitions),  # type: ignore[misc]
        qos=tuple(rules(each, "qos") for each in platform.qos),
        limits=tuple(limit(number, each) for number, each in enumerate(platform.limits, start=1)),
        targets=tuple(replace(each, name=aliases.of(each.per, each.name)) for each in platform.targets),
    )


def _is_number(name: str) -> bool:
    """Return whether a name reveals nothing: digits, and the marks of array tasks, components and further runs."""
    return not set(name) - set("0123456789_.[]+#-")


def _terms(text: str, aliases: Aliases) -> str:
    """Return a constraint with aliases in place of its terms."""

    def alias(term: str) -> str:
        mark, name = ("!", term[1:]) if term.startswith("!") else ("", term)
        return mark + aliases.of_either("node", "feature", name)

    return "|".join("&".join(alias(term.strip()) for term in part.split("&")) for part in text.split("|"))
