"""The platform TOML: what may stand in it, as pydantic models, and the Platform that it describes."""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from backfill.model.constraint import NAME, is_feature
from backfill.model.errors import PlatformError, at, printable
from backfill.model.platform import NODES_MAX, Platform
from backfill.model.rules_file import LimitTable, PartitionTable, RulesTable, RuleTables, rules_text
from backfill.model.tables import AMOUNT, Amount, Name, Table, key, plain, quoted


def _licence(name: str) -> str:
    """A job asks for a licence as `name:copies`."""
    if ":" in name:
        raise ValueError
    return plain(name)


def _feature(name: str) -> str:
    if not is_feature(name):
        raise ValueError
    return name


LicenceName = Annotated[str, AfterValidator(_licence)]
Feature = Annotated[str, AfterValidator(_feature)]


class _Node(Table):
    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, Amount] = Field(init=False)  # resources by name

    name: Name | None = Field(None, description="a text without * ; and ,")
    count: int | None = Field(None, ge=1, le=NODES_MAX, description=f"a whole number from 1 to {NODES_MAX}")
    site: str = Field("", description="a text")
    speed: float = Field(1.0, ge=1e-6, le=1e6, allow_inf_nan=False, description="a number from 0.000001 to 1,000,000")
    features: list[Feature] = Field([], description=f"a list of names, each {NAME}")
    licences: list[str] | None = Field(None, description="a list of names of [[licence]] tables")
    node_licences: dict[LicenceName, Amount] = Field({}, description="a table of names, each with " + AMOUNT)


class _Licence(Table):
    name: LicenceName = Field(description="a text without * ; , and :")
    copies: Amount


class _File(RuleTables):
    name: str | None = Field(None, description="a text")
    resources: list[str] = Field([], description="a list of names of resources and node licences, each once")
    node: list[_Node] = Field(min_length=1, description="at least one [[node]] table")
    licence: list[_Licence] = Field([], description="[[licence]] tables")


_TABLES: dict[str, type[Table]] = {
    "node": _Node,
    "licence": _Licence,
    "partition": PartitionTable,
    "qos": RulesTable,
    "limit": LimitTable,
}


def parse_platform(file: str, text: str) -> Platform:
    """The platform that a TOML text describes. file: what messages call it. Raises PlatformError."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(file, f"is not valid TOML: {error}") from None
    try:
        return _platform(file, _File.model_validate(data))
    except ValidationError as error:
        raise _error(file, _complaint(data, error)) from None


def platform_text(platform: Platform) -> str:
    """The TOML that `parse_platform` reads as this platform. Equal nodes m1, m2, ... share a table."""
    lines = [f"name = {quoted(platform.name)}"]
    anywhere = platform.capacity.sum(axis=0).tolist()
    if platform.resources != _as_they_come(platform, anywhere):
        lines.append(f"resources = [{', '.join(map(quoted, platform.resources))}]")
    lines.append("")
    told = [_told(platform, i, anywhere) for i in range(len(platform.nodes))]
    i = 0
    while i < len(told):
        name, count = platform.nodes[i], 1
        base = name[:-1]
        if name.endswith("1") and base and not base[-1].isdigit():
            while told[i + count : i + count + 1] == [told[i]] and platform.nodes[i + count] == f"{base}{count + 1}":
                count += 1
        named = [f"name = {quoted(name)}"] if count == 1 else [f"name = {quoted(base)}", f"count = {count}"]
        lines += ["[[node]]", *named, *told[i], ""]
        i += count
    for licence, copies in zip(platform.licences, platform.copies.tolist(), strict=True):
        lines += ["[[licence]]", f"name = {quoted(licence)}", f"copies = {copies}", ""]
    lines += rules_text(platform.partitions, platform.qos, platform.limits, platform.nodes)
    return "\n".join(lines)


def _told(platform: Platform, i: int, anywhere: list[int]) -> list[str]:
    """What a table says of a node besides its name. anywhere: how much of each resource all nodes hold."""
    lines = []
    if platform.sites[platform.site[i]]:
        lines.append(f"site = {quoted(platform.sites[platform.site[i]])}")
    if platform.speed[i] != 1:
        lines.append(f"speed = {float(platform.speed[i])!r}")
    held, locked = _held(platform, i, anywhere)
    lines += [f"{key(name)} = {amount}" for name, amount in held.items()]
    if locked:
        told = ", ".join(f"{key(name)} = {amount}" for name, amount in locked.items())
        lines.append(f"node_licences = {{{told}}}")
    if platform.features and platform.features[i]:
        lines.append(f"features = [{', '.join(map(quoted, platform.features[i]))}]")
    if not platform.hosts[i].all():
        hosted = [name for name, may in zip(platform.licences, platform.hosts[i], strict=True) if may]
        lines.append(f"licences = [{', '.join(map(quoted, hosted))}]")
    return lines


def _held(platform: Platform, i: int, anywhere: list[int]) -> tuple[dict[str, int], dict[str, int]]:
    """The resources and the node licences of a node; of those that it has none of, what no other has either."""
    amounts = zip(platform.resources, platform.capacity[i].tolist(), anywhere, strict=True)
    held = {name: amount for name, amount, some in amounts if amount or not some or name == "cpus"}
    locked = {name: held.pop(name) for name in platform.node_licences if name in held}
    return held, locked


def _as_they_come(platform: Platform, anywhere: list[int]) -> tuple[str, ...]:
    """The order of resources that a reader finds who is not told."""
    each = (name for i in range(len(platform.nodes)) for told in _held(platform, i, anywhere) for name in told)
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

    names: list[str] = []
    kinds: list[int] = []  # per node, its [[node]] table
    resources = ["cpus"]
    held: list[dict[str, int]] = []
    for i, node in enumerate(content.node):
        name = node.name or f"node{i + 1}"
        where = f"node {name}"
        own = node.__pydantic_extra__
        if strange := [licence for licence in node.licences or () if licence not in copies]:
            known = ", ".join(copies) or "none"
            raise fail(where, f"licence {_shown(strange[0])} has no [[licence]] table; known: {known}")
        if twice := [key for key in node.node_licences if key in own]:
            raise fail(where, f"{twice[0]!r} is both a resource and a node licence")
        held.append(own | node.node_licences)
        if clash := [key for key in held[i] if key in copies]:
            raise fail(where, f"{clash[0]!r} is a floating licence already")
        resources += [key for key in held[i] if key not in resources]
        names += [name] if node.count is None else [f"{name}{c + 1}" for c in range(node.count)]
        kinds += [i] * (node.count or 1)
    if content.resources:
        if sorted(content.resources) != sorted(resources):
            raise _error(file, f"resources: expected {', '.join(resources)}, each once")
        resources = content.resources
    if not any(own.get("cpus", 0) for own in held):
        raise fail("node", "no [[node]] table has cpus; expected a whole number >= 1 in one of them")
    if len(set(names)) < len(names):
        raise fail("node", f"two nodes are called {Counter(names).most_common(1)[0][0]}")

    speed = np.array([node.speed for node in content.node])
    kind = np.array(kinds)
    order = np.argsort(-speed[kind], kind="stable")  # most powerful first; the file's order among equals
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
        features=tuple(tuple(content.node[i].features) for i in kind.tolist()),
        licences=tuple(copies),
        copies=np.array(list(copies.values()), np.int64),
        hosts=np.array(hosts, np.bool_).reshape(len(hosts), len(copies))[kind],
        name=content.name or Path(file).stem,
        node_licences=tuple(name for name in resources if any(name in node.node_licences for node in content.node)),
        **rules,
    )


def _complaint(data: dict[str, Any], error: ValidationError) -> str:
    """The first thing wrong, as `node m: speed is -1; expected a number > 0`."""
    problems = error.errors(include_url=False, include_context=False)
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")  # a slip of the pen comes first
    place = first["loc"]
    table = str(place[0])
    if len(place) < 3:  # the fault is not inside a table
        if first["type"] == "extra_forbidden":
            return f"{table}: unknown; expected {', '.join(f'[[{name}]]' for name in _TABLES)} tables"
        return f"{table}: expected {_File.model_fields[table].description}"
    model = _TABLES[table]
    number, key = int(place[1]), str(place[2])
    name = data[table][number].get("name")
    where = f"{table} {name if isinstance(name, str) and 0 < len(name) <= 60 else number + 1}"
    field = model.model_fields.get(key)
    expected = field.description if field else AMOUNT
    if first["type"] == "extra_forbidden":
        return f"{where}: {key} is not known; expected {' and '.join(model.model_fields)}"
    if first["type"] == "missing":
        return f"{where}: {key} is missing; expected {expected}"
    return f"{where}: {key} is {_shown(data[table][number][key])}; expected {expected}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
