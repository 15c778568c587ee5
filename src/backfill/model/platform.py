"""A platform: nodes with resources in sites, and the licences that float between them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import PlatformError, at
from backfill.model.units import parse_size
from backfill.model.workload import Ints, Workload


@dataclass(frozen=True, eq=False)
class Platform:
    """Nodes x resources in order of power, most powerful first. A plain pool is one node with all the capacity."""

    nodes: tuple[str, ...]
    resources: tuple[str, ...]  # cpus first
    capacity: Ints  # shape (nodes, resources)
    speed: NDArray[np.float64]  # shape (nodes,); run time is divided by it
    site: NDArray[np.int64]  # shape (nodes,), index into sites
    sites: tuple[str, ...] = ("",)
    licences: tuple[str, ...] = ()
    copies: Ints = None  # type: ignore[assignment]  # shape (licences,)
    hosts: NDArray[np.bool_] = None  # type: ignore[assignment]  # shape (nodes, licences): may use the licence
    name: str = "pool"

    def __post_init__(self) -> None:
        if self.copies is None:
            object.__setattr__(self, "copies", np.zeros(len(self.licences), np.int64))
        if self.hosts is None:
            object.__setattr__(self, "hosts", np.ones((len(self.nodes), len(self.licences)), np.bool_))
        if not self.nodes:
            raise PlatformError(f"{self.name}: no node; expected at least one")
        if self.capacity.shape != (len(self.nodes), len(self.resources)):
            raise PlatformError(f"{self.name}: capacity has shape {self.capacity.shape}")
        if (self.capacity < 0).any() or (self.capacity > 2**62).any() or not (self.speed > 0).all():
            raise PlatformError(f"{self.name}: capacities must be >= 0 and speeds > 0")

    @classmethod
    def pool(cls, cpus: int, nodes: int = 1, memory: int | None = None, **resources: int) -> "Platform":
        """`nodes` equal nodes that hold `cpus`, `memory` (bytes) and other resources between them."""
        total = {"cpus": cpus, **({} if memory is None else {"memory": memory}), **resources}
        for resource, amount in total.items():
            if amount < 1 or nodes < 1 or amount % nodes:
                raise PlatformError(
                    f"{resource} is {amount} on {nodes} nodes; expected a number >= 1 that the nodes share evenly"
                )
        return cls(
            nodes=tuple(f"n{i + 1}" for i in range(nodes)) if nodes > 1 else ("pool",),
            resources=tuple(total),
            capacity=np.tile(np.array([amount // nodes for amount in total.values()], np.int64), (nodes, 1)),
            speed=np.ones(nodes),
            site=np.zeros(nodes, np.int64),
        )

    @classmethod
    def of(cls, workload: Workload) -> "Platform":
        """The pool that the workload's source states. Raises PlatformError where it states none."""
        if workload.cpus is None:
            raise PlatformError(f"{workload.name} does not say how many cpus the machine has")
        return cls.pool(workload.cpus)

    @classmethod
    def read(cls, path: str | Path) -> "Platform":
        """From a TOML file of [[node]] and [[licence]] tables (docs/reference/platform.md). Raises PlatformError."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise PlatformError(at(str(path), None, f"cannot be read: {error.strerror}")) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PlatformError(at(str(path), None, f"is not valid TOML: {error}")) from error
        return _from_toml(str(path), data)

    @property
    def cpus(self) -> int:
        """All processors together."""
        return int(self.capacity[:, 0].sum())

    def as_dict(self) -> dict[str, Any]:
        """What the JSON output says of the platform."""
        return {
            "name": self.name,
            "nodes": len(self.nodes),
            **{r: int(self.capacity[:, k].sum()) for k, r in enumerate(self.resources)},
            "licences": {licence: int(n) for licence, n in zip(self.licences, self.copies, strict=True)},
        }


_NODE_KEYS = {"name", "count", "site", "speed", "licences", "node_licences"}


def _from_toml(file: str, data: dict[str, Any]) -> Platform:
    def fail(where: str, what: str) -> PlatformError:
        return PlatformError(at(file, None, f"{where}: {what}"))

    def amount(where: str, value: Any) -> int:
        try:
            whole = parse_size(value) if isinstance(value, str) else int(value)
            if (
                isinstance(value, bool)
                or whole != (whole if isinstance(value, str) else value)
                or not 0 <= whole < 2**62
            ):
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            raise fail(where, f"{value!r}; expected a whole number >= 0 that may carry K, M, G or T") from None
        return whole

    if unknown := data.keys() - {"node", "licence", "name"}:
        raise fail(sorted(unknown)[0], "unknown table; expected [[node]] and [[licence]]")
    tables, licence_tables = data.get("node", []), data.get("licence", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables) or not tables:
        raise fail("node", "expected at least one [[node]] table")
    if not isinstance(licence_tables, list) or not all(isinstance(t, dict) for t in licence_tables):
        raise fail("licence", "expected [[licence]] tables")
    copies: dict[str, int] = {}
    for i, table in enumerate(licence_tables):
        name = table.get("name")
        if not isinstance(name, str) or not name or name in copies:
            raise fail(f"licence {i + 1}", f"name is {name!r}; expected a text of its own")
        copies[name] = amount(f"licence {name}: copies", table.get("copies"))
    licences = tuple(copies)

    rows: list[tuple[str, str, float, dict[str, int], list[bool]]] = []
    resources = ["cpus"]
    for i, table in enumerate(tables):
        name = table.get("name", f"node{i + 1}")
        if not isinstance(name, str) or not name or any(c in name for c in "*;,\n"):
            raise fail(f"node {i + 1}", f"name is {name!r}; expected a text without * ; and ,")
        where, count, site = f"node {name}", amount(f"node {name}: count", table.get("count", 1)), table.get("site", "")
        if not 1 <= count <= 10**6:
            raise fail(where, f"count is {count}; expected 1 to 1000000")
        speed = table.get("speed", 1.0)
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed < float("inf"):
            raise fail(where, f"speed is {speed!r}; expected a number > 0")
        hosted = table.get("licences", licences)
        own = table.get("node_licences", {})
        if not isinstance(site, str) or not isinstance(own, dict) or not isinstance(hosted, list | tuple):
            raise fail(where, "site is a text, licences a list of names, node_licences a table of counts")
        if strange := [name for name in hosted if name not in copies]:
            raise fail(
                where, f"licence {strange[0]!r} has no [[licence]] table; known: {', '.join(licences) or 'none'}"
            )
        capacity = {key: value for key, value in table.items() if key not in _NODE_KEYS} | own
        held = {key: amount(f"{where}: {key}", value) for key, value in capacity.items()}
        if clash := held.keys() & copies.keys():
            raise fail(where, f"{sorted(clash)[0]!r} is a floating licence already")
        resources += [key for key in held if key not in resources]
        for c in range(count):
            rows.append(
                (
                    f"{name}{c + 1}" if "count" in table else name,
                    site,
                    float(speed),
                    held,
                    [x in hosted for x in licences],
                )
            )
    names = [row[0] for row in rows]
    if len(set(names)) < len(names):
        raise fail("node", f"two nodes are called {max(names, key=names.count)}")
    rows.sort(key=lambda row: -row[2])  # stable: the file's order among equal speeds
    sites = tuple(dict.fromkeys(row[1] for row in rows))
    return Platform(
        nodes=tuple(row[0] for row in rows),
        resources=tuple(resources),
        capacity=np.array([[row[3].get(r, 0) for r in resources] for row in rows], np.int64),
        speed=np.array([row[2] for row in rows]),
        site=np.array([sites.index(row[1]) for row in rows], np.int64),
        sites=sites,
        licences=licences,
        copies=np.array([copies[x] for x in licences], np.int64),
        hosts=np.array([row[4] for row in rows], np.bool_).reshape(len(rows), len(licences)),
        name=str(data.get("name", Path(file).stem)),
    )
