"""The platform TOML: its keys as pydantic models, and the Platform that it describes."""

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from backfill.model.constraint import GPU_TYPE, NAME, is_feature, is_gpu_type
from backfill.model.errors import PlatformError, at
from backfill.model.names import did_you_mean, nearest, printable
from backfill.model.platform import NODES_MAX, Platform
from backfill.model.rules_file import FairshareTable, LimitTable, PartitionTable, RulesTable, RuleTables, rules_text
from backfill.model.tables import AMOUNT, Amount, Name, Table, key, plain, quoted
from backfill.model.workload import RESOURCES


def _licence(name: str) -> str:
    """Validate a licence name: jobs request licences as `name:copies`."""
    if ":" in name:
        raise ValueError
    return plain(name)


def _feature(name: str) -> str:
    if not is_feature(name):
        raise ValueError
    return name


def _gpu_type(name: str) -> str:
    if not is_gpu_type(name):
        raise ValueError
    return name


LicenceName = Annotated[str, AfterValidator(_licence)]
Feature = Annotated[str, AfterValidator(_feature)]
GpuType = Annotated[str, AfterValidator(_gpu_type)]


class _Node(Table):
    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, Amount] = Field(init=False)  # resources by name

    name: Name | None = Field(None, description="a text without * ; and ,")
    count: int | None = Field(None, ge=1, le=NODES_MAX, description=f"a whole number from 1 to {NODES_MAX}")
    site: str = Field("", description="a text")
    speed: float = Field(1.0, ge=1e-6, le=1e6, allow_inf_nan=False, description="a number from 0.000001 to 1,000,000")
    gpu_type: GpuType | None = Field(None, description="one type: " + GPU_TYPE)
    features: list[Feature] = Field([], description=f"a list of names, each {NAME}")
    licences: list[str] | None = Field(None, description="a list of names of [[licence]] tables")
    node_licences: dict[LicenceName, Amount] = Field({}, description="a table of names, each with " + AMOUNT)

    @property
    def all_features(self) -> tuple[str, ...]:
        """The features of the nodes, including their GPU type."""
        return tuple(dict.fromkeys([*self.features, *([self.gpu_type] if self.gpu_type else [])]))


class _Licence(Table):
    name: LicenceName = Field(description="a text without * ; , and :")
    copies: Amount


class _File(RuleTables):
    name: str | None = Field(None, description="a text")
    resources: list[str] = Field([], description="a list of names of resources")
    estimated: bool = Field(False, description="true or false")
    coallocation_overhead: float = Field(0.0, ge=0, le=1000, allow_inf_nan=False, description="a number from 0 to 1000")
    node: list[_Node] = Field(min_length=1, description="at least one [[node]] table")
    licence: list[_Licence] = Field([], description="[[licence]] tables")


_TABLES: dict[str, type[Table]] = {
    "node": _Node,
    "licence": _Licence,
    "partition": PartitionTable,
    "qos": RulesTable,
    "limit": LimitTable,
    "fairshare": FairshareTable,
}


def parse_platform(file: str, text: str) -> Platform:
    """Parse the TOML text of a platform. file: its name in messages. Raises PlatformError."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(file, f"is not valid TOML: {error}") from None
    if slip := _unknown_key(data):
        raise _error(file, slip)
    try:
        return _platform(file, _File.model_validate(data))
    except ValidationError as error:
        raise _error(file, _complaint(data, error)) from None


def platform_text(platform: Platform) -> str:
    """Return the TOML that `parse_platform` reads as this platform. Equal nodes m1, m2, ... share a table."""
    lines = [f"name = {quoted(platform.name)}"]
    if platform.estimated:
        lines.append("estimated = true  # from the jobs of a log: write the real machine below, and delete this line")
    anywhere = platform.capacity.sum(axis=0).tolist()
    declared = {*platform.resources} - {*RESOURCES, *platform.node_licences}
    if declared or platform.resources != _as_they_come(platform, anywhere):
        lines.append(f"resources = [{', '.join(map(quoted, platform.resources))}]")
    if platform.coallocation_overhead:
        lines.append(f"coallocation_overhead = {float(platform.coallocation_overhead)!r}")
    lines.append("")
    texts = [_lines_of_node(platform, i, anywhere) for i in range(len(platform.nodes))]
    i = 0
    while i < len(texts):
        name, count = platform.nodes[i], 1
        base = name[:-1]
        if name.endswith("1") and base and not base[-1].isdigit():
            while texts[i + count : i + count + 1] == [texts[i]] and platform.nodes[i + count] == f"{base}{count + 1}":
                count += 1
        named = [f"name = {quoted(name)}"] if count == 1 else [f"name = {quoted(base)}", f"count = {count}"]
        lines += ["[[node]]", *named, *texts[i], ""]
        i += count
    for licence, copies in zip(platform.licences, platform.copies.tolist(), strict=True):
        lines += ["[[licence]]", f"name = {quoted(licence)}", f"copies = {copies}", ""]
    lines += rules_text(platform.partitions, platform.qos, platform.limits, platform.targets, platform.nodes)
    return "\n".join(lines)


def _lines_of_node(platform: Platform, i: int, anywhere: list[int]) -> list[str]:
    """Return the lines of a table about a node, besides its name. anywhere: total of each resource over all nodes."""
    lines = []
    if platform.sites[platform.site[i]]:
        lines.append(f"site = {quoted(platform.sites[platform.site[i]])}")
    if platform.speed[i] != 1:
        lines.append(f"speed = {float(platform.speed[i])!r}")
    held, locked = _held(platform, i, anywhere)
    lines += [f"{key(name)} = {amount}" for name, amount in held.items()]
    if locked:
        licences = ", ".join(f"{key(name)} = {amount}" for name, amount in locked.items())
        lines.append(f"node_licences = {{{licences}}}")
    if platform.features and platform.features[i]:
        lines.append(f"features = [{', '.join(map(quoted, platform.features[i]))}]")
    if not platform.hosts[i].all():
        hosted = [name for name, may in zip(platform.licences, platform.hosts[i], strict=True) if may]
        lines.append(f"licences = [{', '.join(map(quoted, hosted))}]")
    return lines


def _held(platform: Platform, i: int, anywhere: list[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the resources and node licences of a node; zero amounts are listed only if no node has any."""
    amounts = zip(platform.resources, platform.capacity[i].tolist(), anywhere, strict=True)
    held = {name: amount for name, amount, some in amounts if amount or not some or name == "cpus"}
    locked = {name: held.pop(name) for name in platform.node_licences if name in held}
    return held, locked


def _as_they_come(platform: Platform, anywhere: list[int]) -> tuple[str, ...]:
    """Return the order in which a reader meets the resources if none is stated."""
    each = (name for i in range(len(platform.nodes)) for name_of in _held(platform, i, anywhere) for name in name_of)
    return tuple(dict.fromkeys(["cpus", *each]))


def _error(file: str, what: str) -> PlatformError:
    return PlatformError(at(file, None, printable(what)))


def _platform(file: str, content: _File) -> Platform:
    def fail(where: str, what: str) -> PlatformError:
        return _error(file, f"{where}: {what}")

    if (count := sum(node.count or 1 for node in content.node)) > NODES_MAX:
        raise fail("node", f"the tables make {count} nodes; expected at most {NODES_MAX}")
    copies: dict[str, int] = {}
    for licence in content.licence:
        if licence.name in copies:
            raise fail(f"licence {licence.name}", "has two [[licence]] tables; expected one")
        copies[licence.name] = licence.copies

    for name, times in Counter(content.resources).items():
        if times > 1:
            raise fail("resources", f"{_shown(name)} is listed {times} times; expected once")
        if name in _Node.model_fields:
            raise fail("resources", f"{_shown(name)} is a key of [[node]] tables; expected another name")

    names: list[str] = []
    kinds: list[int] = []  # index of the [[node]] table, per node
    resources = [*dict.fromkeys(["cpus", *content.resources])]
    held: list[dict[str, int]] = []
    for i, node in enumerate(content.node):
        name = node.name or f"node{i + 1}"
        where = f"node {name}"
        own = node.__pydantic_extra__
        if strange := [licence for licence in node.licences or () if licence not in copies]:
            raise fail(
                where, f"licence {_shown(strange[0])} has no [[licence]] table; {did_you_mean(strange[0], copies)}"
            )
        if node.gpu_type and not own.get("gpus"):
            raise fail(where, f"gpu_type is {_shown(node.gpu_type)} without gpus; expected gpus of 1 or more")
        if twice := [key for key in node.node_licences if key in own]:
            raise fail(where, f"{twice[0]!r} is both a resource and a node licence")
        held.append(own | node.node_licences)
        if clash := [key for key in held[i] if key in copies]:
            raise fail(where, f"{clash[0]!r} is a floating licence already")
        resources += [key for key in held[i] if key not in resources]
        names += [name] if node.count is None else [f"{name}{c + 1}" for c in range(node.count)]
        kinds += [i] * (node.count or 1)
    if unused := [name for name in content.resources if not any(name in own for own in held)]:
        raise fail("resources", f"{_shown(unused[0])} is in no [[node]] table; expected an amount of it in one of them")
    if not any(own.get("cpus", 0) for own in held):
        raise fail("node", "no [[node]] table has cpus; expected a whole number >= 1 in one of them")
    if len(set(names)) < len(names):
        raise fail("node", f"two nodes are called {Counter(names).most_common(1)[0][0]}")

    speed = np.array([node.speed for node in content.node])
    kind = np.array(kinds)
    order = np.argsort(-speed[kind], kind="stable")  # most powerful first; equal ones in file order
    kind = kind[order]
    used = [content.node[i] for i in dict.fromkeys(kind.tolist())]
    sites = tuple(dict.fromkeys(node.site for node in used))
    nodes = tuple(names[i] for i in order.tolist())
    try:
        rules = content.values(nodes, resources)
    except ValueError as error:
        raise _error(file, str(error)) from None
    hosts = [[node.licences is None or licence in node.licences for licence in copies] for node in content.node]
    return Platform(
        nodes=nodes,
        resources=tuple(resources),
        capacity=np.array([[own.get(resource, 0) for resource in resources] for own in held], np.int64)[kind],
        speed=speed[kind],
        site=np.array([sites.index(node.site) for node in content.node], np.int64)[kind],
        sites=sites,
        features=tuple(content.node[i].all_features for i in kind.tolist()),
        licences=tuple(copies),
        copies=np.array(list(copies.values()), np.int64),
        hosts=np.array(hosts, np.bool_).reshape(len(hosts), len(copies))[kind],
        name=content.name or Path(file).stem,
        node_licences=tuple(name for name in resources if any(name in node.node_licences for node in content.node)),
        coallocation_overhead=content.coallocation_overhead,
        estimated=content.estimated,
        **rules,
    )


def _complaint(data: dict[str, Any], error: ValidationError) -> str:
    """Return the first validation error, such as `node m: speed is -1; expected a number > 0`."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = first["loc"]
    table = str(place[0])
    if len(place) < 3 or table not in _TABLES:  # the error is not inside a table
        return f"{table}: expected {_File.model_fields[table].description}"
    number, key = int(place[1]), str(place[2])
    where = _where(table, number, data[table][number])
    field = _TABLES[table].model_fields.get(key)
    expected = field.description if field else AMOUNT
    if first["type"] == "missing":
        return f"{where}: {key} is missing; expected {expected}"
    return f"{where}: {key} is {_shown(data[table][number][key])}; expected {expected}"


def _unknown_key(data: dict[str, Any]) -> str | None:
    """Return a message about the first unknown key; None if all are known."""
    declared = [name for name in _items(data.get("resources")) if isinstance(name, str)]
    known = {"": [*_File.model_fields]} | {table: [*model.model_fields] for table, model in _TABLES.items()}
    known["node"] += [*RESOURCES, *declared]
    for table, where, name in _keys(data):
        if name in known[table]:
            continue
        if near := nearest(name, known[table]):
            hint = f"did you mean {_called(table, near)}?"
        elif name == "resources":
            hint = "expected at the top of the file, above the first table"
        elif not table and name in known["node"]:
            hint = "expected in a [[node]] table"
        else:
            hint = f"expected one of {', '.join(_called(table, each) for each in known[table])}"
        if table == "node" and name != "resources":
            hint += f"{'' if near else '.'} A resource besides cpus, memory and gpus is declared in resources = [...]"
        return f"{where}{name if len(name) <= 60 else name[:57] + '...'} is not known; {hint}"
    return None


def _keys(data: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each key with the kind and the message name of its table; both are empty at the top level."""
    yield from (("", "", name) for name in data)
    for table in _TABLES:
        for number, content in enumerate(_items(data.get(table))):
            for name in content if isinstance(content, dict) else ():
                yield table, f"{_where(table, number, content)}: ", name


def _called(table: str, key: str) -> str:
    return f"[[{key}]]" if not table and key in _TABLES else key


def _where(table: str, number: int, content: dict[str, Any]) -> str:
    """Name a table in a message: by its name, or by its number if it has none."""
    name = content.get("name")
    return f"{table} {name if isinstance(name, str) and 0 < len(name) <= 60 else number + 1}"


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
