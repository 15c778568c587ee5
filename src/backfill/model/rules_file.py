"""The [[partition]], [[qos]], [[limit]] and [[fairshare]] tables of a platform TOML, as pydantic models and as text."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from backfill.model.constraint import matching
from backfill.model.names import did_you_mean
from backfill.model.partitions import PER, PLACES, SHARED, Limit, Partition, Rules, Target
from backfill.model.tables import AMOUNT, Amount, Name, Table, key, quoted
from backfill.model.units import parse_span, seconds_text

SPAN = "a span of time such as 3600, 90m, 1.5h or 2-12:00:00"
COUNT = "a whole number from 0 to 2^62 - 1"
NAMES = "a list of names"
AMOUNTS = "a table of resources, each with " + AMOUNT


def _span(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    return parse_span(str(value))


def _some(value: int) -> int:
    if value < 1:
        raise ValueError
    return value


def _one_of(*texts: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in texts:
            raise ValueError
        return value

    return check


Span = Annotated[int, BeforeValidator(_span), AfterValidator(_some)]


class RulesTable(Table):
    """The keys that [[qos]] and [[partition]] tables share."""

    name: Name = Field(description="a text without * ; and ,")
    default_walltime: Span | None = Field(None, description=SPAN)
    max_walltime: Span | None = Field(None, description=SPAN)
    max_size: dict[str, Amount] = Field({}, description=AMOUNTS)
    priority: float = Field(0.0, allow_inf_nan=False, description="a number")
    users: list[str] = Field([], description=NAMES)
    groups: list[str] = Field([], description=NAMES)

    def values(self) -> dict[str, Any]:
        """Return the fields of `Rules`."""
        return {
            "name": self.name,
            "default_walltime": self.default_walltime or 0,
            "max_walltime": self.max_walltime or 0,
            "max_size": self.max_size,
            "priority": self.priority,
            "users": tuple(self.users),
            "groups": tuple(self.groups),
        }


class PartitionTable(RulesTable):
    """A [[partition]] table."""

    nodes: list[str] = Field(["*"], min_length=1, description="a list of names of nodes, or patterns such as n*")
    default: bool = Field(False, description="true or false")
    place: Annotated[str, AfterValidator(_one_of("", *PLACES))] = Field("", description=f"one of {', '.join(PLACES)}")


class LimitTable(Table):
    """A [[limit]] table."""

    name: Name = Field(description="a text without * ; and ,")
    per: Annotated[str, AfterValidator(_one_of(*PER))] = Field("all", description=f"one of {', '.join(PER)}")
    partitions: list[str] = Field([], description=NAMES)
    qos: list[str] = Field([], description=NAMES)
    users: list[str] = Field([], description=NAMES)
    groups: list[str] = Field([], description=NAMES)
    projects: list[str] = Field([], description=NAMES)
    running_jobs: int | None = Field(None, ge=0, lt=2**62, description=COUNT)
    queued_jobs: int | None = Field(None, ge=0, lt=2**62, description=COUNT)
    running: dict[str, Amount] = Field({}, description=AMOUNTS)


class FairshareTable(Table):
    """A [[fairshare]] table."""

    user: str | None = Field(None, min_length=1, description="a name")
    group: str | None = Field(None, min_length=1, description="a name")
    project: str | None = Field(None, min_length=1, description="a name")
    target: float = Field(ge=0, le=100, allow_inf_nan=False, description="a number from 0 to 100")


def partition_of(table: PartitionTable, nodes: tuple[str, ...]) -> Partition:
    """Return the partition of a platform with these nodes. Raises ValueError with the mistake."""
    places: set[int] = set()
    for pattern in table.nodes:
        matched = [nodes.index(pattern)] if pattern in nodes else matching(pattern, nodes)
        if not matched:
            message = f"no node is called {pattern!r}; expected the name of a node, or a pattern such as n*"
            raise ValueError(f"partition {table.name}: {message}")
        places |= {*matched}
    return Partition(**table.values(), nodes=np.array(sorted(places)), default=table.default, place=table.place)


def limit_of(table: LimitTable) -> Limit:
    """Return the limit that a table states."""
    lists = {name: tuple(getattr(table, name)) for name in ("partitions", "qos", "users", "groups", "projects")}
    return Limit(
        name=table.name,
        per=table.per,
        **lists,
        running_jobs=table.running_jobs,
        queued_jobs=table.queued_jobs,
        running=table.running,
    )


def targets_of(tables: Sequence[FairshareTable]) -> tuple[Target, ...]:
    """Return the targets that tables state. Raises ValueError with the mistake."""
    targets = []
    for number, table in enumerate(tables, start=1):
        stated = [(per, name) for per in SHARED if (name := getattr(table, per)) is not None]
        if len(stated) != 1:
            what = f"names {len(stated)} of user, group and project; expected one"
            raise ValueError(f"[[fairshare]] table {number}: {what}")
        targets.append(Target(*stated[0], table.target))
    (per, name), count = next(iter(Counter((each.per, each.name) for each in targets).most_common(1)), (("", ""), 0))
    if count > 1:
        raise ValueError(f"{per} {name}: has {count} [[fairshare]] tables; expected one")
    return tuple(targets)


class RuleTables(Table):
    """The [[partition]], [[qos]], [[limit]] and [[fairshare]] tables of a file."""

    partition: list[PartitionTable] = Field([], description="[[partition]] tables")
    qos: list[RulesTable] = Field([], description="[[qos]] tables")
    limit: list[LimitTable] = Field([], description="[[limit]] tables")
    fairshare: list[FairshareTable] = Field([], description="[[fairshare]] tables")

    def values(self, nodes: tuple[str, ...], resources: Sequence[str]) -> dict[str, Any]:
        """Return the fields of a Platform with these nodes and resources. Raises ValueError with the mistake."""
        self._check_names()
        self._check_amounts(resources)
        known = {"partitions": [each.name for each in self.partition], "qos": [each.name for each in self.qos]}
        for limit in self.limit:
            for what, names in known.items():
                if strange := [name for name in getattr(limit, what) if name not in names]:
                    table = "partition" if what == "partitions" else what
                    expected = f"some of {', '.join(names)}" if names else f"a [[{table}]] table of that name"
                    hint = did_you_mean(strange[0], names, f"expected {expected}")
                    raise ValueError(f"limit {limit.name}: {what} has {strange[0]!r}; {hint}")
            if limit.running_jobs is None and limit.queued_jobs is None and not limit.running:
                raise ValueError(f"limit {limit.name}: limits nothing; expected running_jobs, queued_jobs or running")
        return {
            "partitions": tuple(partition_of(each, nodes) for each in self.partition),
            "qos": tuple(Rules(**each.values()) for each in self.qos),
            "limits": tuple(limit_of(each) for each in self.limit),
            "targets": targets_of(self.fairshare),
        }

    def _check_names(self) -> None:
        several: Mapping[str, Sequence[RulesTable | LimitTable]]
        several = {"partition": self.partition, "qos": self.qos, "limit": self.limit}
        for table, each in several.items():
            name, count = next(iter(Counter(one.name for one in each).most_common(1)), ("", 0))
            if count > 1:
                raise ValueError(f"{table} {name}: has {count} [[{table}]] tables; expected one")
        if len(defaults := [each.name for each in self.partition if each.default]) > 1:
            raise ValueError(f"partition {defaults[1]}: is a default besides {defaults[0]}; expected one at most")

    def _check_amounts(self, resources: Sequence[str]) -> None:
        amounts = {f"partition {each.name}": each.max_size for each in self.partition}
        amounts |= {f"qos {each.name}": each.max_size for each in self.qos}
        amounts |= {f"limit {each.name}": each.running for each in self.limit}
        for table, amount in amounts.items():
            if strange := [name for name in amount if name not in resources]:
                hint = did_you_mean(strange[0], resources, f"expected {', '.join(resources)}")
                raise ValueError(f"{table}: {strange[0]!r} is not a resource of a node; {hint}")


def rules_text(partitions: tuple[Partition, ...], qos: tuple[Rules, ...], limits: tuple[Limit, ...],
               targets: tuple[Target, ...], nodes: tuple[str, ...]) -> list[str]:  # fmt: skip
    """Return the lines of these tables."""
    lines: list[str] = []
    for partition in partitions:
        names = [nodes[i] for i in partition.nodes.tolist()] if len(partition.nodes) < len(nodes) else []
        lines += ["[[partition]]", *_rules(partition), *_listed("nodes", names)]
        lines += ["default = true"] if partition.default else []
        lines += [f"place = {quoted(partition.place)}"] if partition.place else []
        lines.append("")
    for each in qos:
        lines += ["[[qos]]", *_rules(each), ""]
    for limit in limits:
        lines += ["[[limit]]", f"name = {quoted(limit.name)}", f"per = {quoted(limit.per)}"]
        for name in ("partitions", "qos", "users", "groups", "projects"):
            lines += _listed(name, getattr(limit, name))
        for name in ("running_jobs", "queued_jobs"):
            lines += [] if getattr(limit, name) is None else [f"{name} = {getattr(limit, name)}"]
        lines += [*_amounts("running", limit.running), ""]
    for target in targets:
        lines += ["[[fairshare]]", f"{target.per} = {quoted(target.name)}", f"target = {float(target.target)!r}", ""]
    return lines


def _rules(rules: Rules) -> list[str]:
    lines = [f"name = {quoted(rules.name)}"]
    for name in ("default_walltime", "max_walltime"):
        lines += [f"{name} = {seconds_text(getattr(rules, name))}"] if getattr(rules, name) else []
    lines += _amounts("max_size", rules.max_size)
    lines += [f"priority = {rules.priority!r}"] if rules.priority else []
    return [*lines, *_listed("users", rules.users), *_listed("groups", rules.groups)]


def _listed(name: str, values: Any) -> list[str]:
    return [f"{name} = {json.dumps([*values], ensure_ascii=False)}"] if values else []


def _amounts(name: str, amounts: dict[str, int]) -> list[str]:
    table = ", ".join(f"{key(resource)} = {amount}" for resource, amount in amounts.items())
    return [f"{name} = {{{table}}}"] if table else []
