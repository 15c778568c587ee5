"""Workloads and platforms without the names of people, so that they can be shared.

All that a policy sees stays: times, sizes, who shares a name with whom, and the order in which names first appear.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from backfill.model.errors import BadArgument, UsageError, at
from backfill.model.partitions import Limit, Rules
from backfill.model.platform import Platform
from backfill.model.workload import Jobs, Labels, Workload
from backfill.traces.files import written_text

PEOPLE = ("job", "user", "group", "project")  # columns that are replaced by themselves
PLACES = ("partition", "queue", "qos", "site", "node", "feature", "licence")  # that can be replaced as well
_PREFIX = {"partition": "part", "feature": "f", "licence": "lic", "node": "n"}
_HEADER = ("kind", "name", "alias")


@dataclass(slots=True)
class Aliases:
    """The alias of each name, by kind; the same name of a kind gets the same alias for ever."""

    known: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> "Aliases":
        """The aliases in a CSV with the columns kind, name and alias. Raises UsageError."""
        aliases = cls()
        try:
            with open(path, encoding="utf-8", newline="") as lines:
                rows = [*csv.reader(lines)]
        except (OSError, UnicodeDecodeError, csv.Error) as problem:
            raise UsageError(at(str(path), None, f"cannot be read: {problem}")) from None
        for line, row in enumerate(rows, start=1):
            if line == 1 and tuple(row) == _HEADER:
                continue
            if line == 1 or len(row) != 3 or row[0] not in (*PEOPLE, *PLACES):
                raise UsageError(at(str(path), line, f"expected the columns {','.join(_HEADER)}, and a kind of names"))
            aliases.known.setdefault(row[0], {})[row[1]] = row[2]
        return aliases

    def write(self, path: str | Path) -> None:
        """Write the CSV that `read` reads. Whoever has it can undo the replacement."""
        with written_text(path) as out:
            sheet = csv.writer(out, lineterminator="\n")
            sheet.writerow(_HEADER)
            sheet.writerows((kind, name, alias) for kind, names in self.known.items() for name, alias in names.items())

    def of(self, kind: str, name: str) -> str:
        """The alias of a name: user1, user2, ... in the order in which they are asked for."""
        names = self.known.setdefault(kind, {})
        if name not in names:
            names[name] = f"{_PREFIX.get(kind, kind)}{len(names) + 1}"
        return names[name]


@dataclass(frozen=True, slots=True)
class Replaced:
    """The number of replaced names of a kind."""

    kind: str
    names: int  # different ones
    jobs: int  # that have one


def check_kinds(kinds: Sequence[str]) -> None:
    """Raise UsageError unless all are kinds of names that can be replaced as well."""
    if bad := next((kind for kind in kinds if kind not in PLACES), None):
        raise BadArgument("also", bad, ", ".join(PLACES))


def anonymous(workload: Workload, aliases: Aliases, also: Sequence[str] = ()) -> tuple[Workload, list[Replaced]]:
    """The workload with aliases in place of names, and what was replaced.

    Users, groups, projects and ids that are no numbers are; `also` names further kinds, of PLACES. Its own name and
    the hash of its file go too. Raises UsageError.
    """
    check_kinds(also)
    jobs, replaced = workload.jobs, list[Replaced]()
    columns: dict[str, object] = {}
    for kind in ("user", "group", "project", *(k for k in ("partition", "queue", "qos", "site") if k in also)):
        labels: Labels = jobs[kind]
        columns[kind] = Labels(labels.codes, tuple(aliases.of(kind, name) for name in labels.names))
        replaced.append(Replaced(kind, len(labels.names), int((labels.codes >= 0).sum())))
    ids = [str(job) for job in jobs.job]
    named = np.array([not _is_number(job) for job in ids], np.bool_)
    if named.any():
        columns["job"] = np.array(
            [aliases.of("job", job) if no else job for job, no in zip(ids, named, strict=True)], object
        )
    replaced.insert(0, Replaced("job", int(named.sum()), int(named.sum())))
    licences = workload.licences
    if "licence" in also:
        licences = tuple(aliases.of("licence", name) for name in licences)
        replaced.append(Replaced("licence", len(licences), int((np.diff(jobs.licences.first) > 0).sum())))
    if {"node", "feature"} & set(also):
        constraint = jobs.constraint
        nodes = set(aliases.known.get("node", {}))
        texts = tuple(_terms(text, aliases, nodes, also) for text in constraint.names)
        columns["constraint"] = Labels(constraint.codes, texts)
        replaced.append(Replaced("feature", len(texts), int((constraint.codes >= 0).sum())))
    changed: Jobs = jobs.replace(**columns)
    # Notes may quote lines of the file.
    copy = replace(workload, jobs=changed, licences=licences, name="anonymous", sha256="", notes=(), platform=None)
    return copy, [each for each in replaced if each.jobs]


def anonymous_platform(platform: Platform, aliases: Aliases, also: Sequence[str] = ()) -> Platform:
    """The platform with the same aliases; users and groups in its rules are replaced by themselves."""
    check_kinds(also)

    def names(kind: str, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(aliases.of(kind, name) for name in given) if kind in (*PEOPLE, *also) else tuple(given)

    def rules(each: Rules, kind: str) -> Rules:
        name = names(kind, (each.name,))[0]
        return replace(each, name=name, users=names("user", each.users), groups=names("group", each.groups))

    def limit(number: int, each: Limit) -> Limit:
        return replace(
            each,
            name=f"limit{number}",  # a text of the site's own
            partitions=names("partition", each.partitions),
            qos=names("qos", each.qos),
            users=names("user", each.users),
            groups=names("group", each.groups),
            projects=names("project", each.projects),
        )

    licences = names("licence", platform.licences)
    locked = dict(zip(platform.node_licences, names("licence", platform.node_licences), strict=True))
    return replace(
        platform,
        name="anonymous",
        nodes=names("node", platform.nodes),
        features=tuple(names("feature", each) for each in platform.features),
        sites=names("site", platform.sites) if platform.sites != ("",) else platform.sites,
        licences=licences,
        resources=tuple(locked.get(name, name) for name in platform.resources),
        node_licences=tuple(locked.values()),
        partitions=tuple(rules(each, "partition") for each in platform.partitions),  # type: ignore[misc]
        qos=tuple(rules(each, "qos") for each in platform.qos),
        limits=tuple(limit(number, each) for number, each in enumerate(platform.limits, start=1)),
    )


def _is_number(job: str) -> bool:
    """Whether an id tells nothing: digits, with the marks of array tasks, components and further runs."""
    return bool(job) and not set(job) - set("0123456789_.[]+#-")


def _terms(text: str, aliases: Aliases, nodes: set[str], also: Sequence[str]) -> str:
    """A constraint with aliases."""

    def alias(term: str) -> str:
        mark, name = ("!", term[1:]) if term.startswith("!") else ("", term)
        kind = "node" if name in nodes else "feature"
        return mark + (aliases.of(kind, name) if kind in also else name)

    return "|".join("&".join(alias(term.strip()) for term in part.split("&")) for part in text.split("|"))
