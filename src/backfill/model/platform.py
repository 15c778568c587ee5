"""A platform: nodes with resources in sites, and the licences that float between them."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model import notebook
from backfill.model.constraint import NAME, alternatives, is_feature
from backfill.model.errors import BadArgument, PlatformError, at, not_utf8, quote
from backfill.model.names import printable
from backfill.model.partitions import Limit, Partition, Rules, Target, stated
from backfill.model.slurm_site import SlurmSite
from backfill.model.units import amount, counted
from backfill.model.workload import Ints, Workload

NODES_MAX = 10**6
ESTIMATED = ", estimated from the log"


@dataclass(frozen=True, eq=False)
class Platform:
    """The machine: nodes x resources in order of power, licences, sites, partitions. A pool is a single node.

    >>> import backfill as bf
    >>> bf.Platform.pool(cpus=128, memory=512 * 1024**3)
    <Platform pool: 1 node; 128 cpus, 512 GiB of memory>
    """

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
    node_licences: tuple[str, ...] = ()  # licences that are bound to nodes, as resources
    features: tuple[tuple[str, ...], ...] = ()  # per node, besides its own name; () = unknown
    partitions: tuple[Partition, ...] = ()
    qos: tuple[Rules, ...] = ()  # qualities of service
    limits: tuple[Limit, ...] = ()
    targets: tuple[Target, ...] = ()  # of single users, groups and projects; others have those of the policy
    coallocation_overhead: float = 0.0  # relative increase of a run time if it spans several sites
    estimated: bool = False  # from the jobs of a log, which may have used less than there was
    slurm: SlurmSite | None = None  # the site's own scheduler, see policy slurm

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))
        if self.copies is None:
            object.__setattr__(self, "copies", np.zeros(len(self.licences), np.int64))
        if self.hosts is None:
            object.__setattr__(self, "hosts", np.ones((len(self.nodes), len(self.licences)), np.bool_))
        if not self.nodes:
            raise PlatformError(f"{self.name}: there are no nodes; expected at least one")
        nodes, licences = len(self.nodes), len(self.licences)
        for column, shape in {
            "capacity": (nodes, len(self.resources)),
            "speed": (nodes,),
            "site": (nodes,),
            "copies": (licences,),
            "hosts": (nodes, licences),
        }.items():
            if getattr(self, column).shape != shape:
                raise PlatformError(f"{self.name}: {column} has shape {getattr(self, column).shape}; expected {shape}")
        if not any(self.features):
            object.__setattr__(self, "features", ())
        if len(self.features) not in (0, nodes):
            raise PlatformError(f"{self.name}: features of {len(self.features)} nodes; expected {nodes}")
        if bad := next((name for name in self.feature_names if not is_feature(name)), None):
            raise PlatformError(f"{self.name}: {quote(bad)} is not a feature; expected {NAME}")
        rules = ([each.name for each in tables] for tables in (self.partitions, self.qos, self.limits))
        for names in (self.nodes, self.resources, self.sites, self.licences, *rules):
            if len(set(names)) < len(names):
                raise PlatformError(f"{self.name}: two of {', '.join(names[:10])} have the same name")
        for limit in self.limits:
            if strange := [name for name in limit.running if name not in self.resources]:
                message = f"{quote(strange[0])} is not a resource of a node; expected {', '.join(self.resources)}"
                raise PlatformError(f"{self.name}: limit {quote(limit.name)}: {message}")
        if ((self.site < 0) | (self.site >= len(self.sites))).any() or (self.copies < 0).any():
            raise PlatformError(f"{self.name}: sites must be places in {self.sites}, and copies 0 or more")
        if (
            (self.capacity < 0).any()
            or (self.capacity > 2**62).any()
            or not ((self.speed >= 1e-6) & (self.speed <= 1e6)).all()
        ):
            raise PlatformError(f"{self.name}: capacities must be from 0 to 2^62, and speeds from 1e-6 to 1e6")
        if not 0 <= self.coallocation_overhead <= 1000:
            raise PlatformError(
                f"{self.name}: coallocation_overhead is {self.coallocation_overhead}; expected 0 to 1000"
            )
        if (self.capacity.sum(axis=0, dtype=np.float64) > 2.0**62).any():
            raise PlatformError(f"{self.name}: the nodes hold more than 2^62 of a resource between them")

    def __repr__(self) -> str:
        return f"<Platform {self.name}: {'; '.join(self._facts().values())}>"

    def _repr_html_(self) -> str:
        return notebook.table(self.name, [], [*self._facts().items()])

    def _facts(self) -> dict[str, str]:
        """Return the facts shown in the one-line description."""
        amounts = [
            f"{amount(name, int(self.capacity[:, k].sum()))} {'of memory' if name == 'memory' else name}"
            for k, name in enumerate(self.resources)
        ]
        facts = {"nodes": counted(len(self.nodes), "node"), "resources": ", ".join(amounts)}
        for kind, names in (
            ("sites", [name for name in self.sites if name]),
            ("licences", [f"{name}:{n}" for name, n in self.all_licences.items()]),
            ("partitions", [each.name for each in self.partitions]),
            ("qos", [each.name for each in self.qos]),
            ("limits", [each.name for each in self.limits]),
            ("targets", [f"{each.per} {each.name}" for each in self.targets]),
        ):
            if names:
                facts[kind] = f"{kind} {', '.join(names[:6])}" + (", ..." if len(names) > 6 else "")
        return facts

    @classmethod
    def pool(cls, cpus: int, nodes: int = 1, memory: int | None = None, **resources: int) -> "Platform":
        """Return `nodes` equal nodes with `cpus`, `memory` (bytes) and other resources in total. Raises UsageError.

        >>> import backfill as bf
        >>> bf.Platform.pool(cpus=64, nodes=4, gpus=8)
        <Platform pool: 4 nodes; 64 cpus, 8 gpus>
        """
        total = {"cpus": cpus, **({} if memory is None else {"memory": memory}), **resources}
        for resource, each in total.items():
            if not isinstance(each, int | np.integer) or not 1 <= each <= 2**62:
                raise BadArgument(resource, each, "a whole number from 1 to 2^62")
            if not 1 <= nodes <= NODES_MAX or each % nodes:
                share = f"{each} {resource}" if resource == "cpus" else f"a {resource} of {each}"
                raise BadArgument("nodes", nodes, f"1 to {NODES_MAX} nodes that share {share} evenly")
        return cls(
            nodes=tuple(f"n{i + 1}" for i in range(nodes)) if nodes > 1 else ("pool",),
            resources=tuple(total),
            capacity=np.tile(np.array([each // nodes for each in total.values()], np.int64), (nodes, 1)),
            speed=np.ones(nodes),
            site=np.zeros(nodes, np.int64),
        )

    def bounds(self, resource: str) -> bool:
        """Return whether a resource is limited: all are, except memory of unstated size.

        Every machine has memory, though few descriptions state its size; other unstated resources do not exist.

        >>> import backfill as bf
        >>> bf.Platform.pool(64).bounds("memory")
        False
        """
        return resource in self.resources or resource != "memory"

    @classmethod
    def of(cls, workload: Workload) -> "Platform":
        """Return the platform that the workload was made for, or the pool that its source states.

        Raises PlatformError if it has none.

        >>> import backfill as bf
        >>> bf.Platform.of(bf.generate("lublin?jobs=5&cpus=64"))
        <Platform pool: 1 node; 64 cpus>
        """
        if isinstance(workload.platform, cls):
            return workload.platform
        if workload.cpus is None:
            raise PlatformError(f"{workload.name} does not state how many cpus the machine has")
        return cls.pool(workload.cpus)

    @classmethod
    def read(cls, path: str | Path) -> "Platform":
        """Read the platform of a TOML file (docs/reference/files.md has its tables). Raises PlatformError.

        >>> import backfill as bf
        >>> from pathlib import Path
        >>> _ = Path("two.toml").write_text(bf.Platform.pool(64, nodes=2).to_toml())
        >>> bf.Platform.read("two.toml").cpus
        64
        """
        from backfill.model.platform_file import parse_platform  # pydantic is needed for files only

        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise PlatformError(at(str(path), None, f"cannot be read: {error.strerror}")) from None
        except UnicodeDecodeError as error:
            raise PlatformError(not_utf8(str(path), error)) from None
        except ValueError as error:  # the path contains a NUL
            raise PlatformError(at(str(path), None, f"cannot be read: {error}")) from None
        return parse_platform(str(path), text)

    def to_toml(self) -> str:
        """Return the text of a platform file that `read` reads as the same platform.

        >>> import backfill as bf
        >>> print(bf.Platform.pool(64, nodes=2).to_toml().rstrip())
        name = "pool"
        <BLANKLINE>
        [[node]]
        name = "n"
        count = 2
        cpus = 32
        """
        from backfill.model.platform_file import platform_text

        return platform_text(self)

    @property
    def feature_names(self) -> dict[str, None]:
        """The features of all nodes without duplicates, as the keys of a dict.

        >>> import backfill as bf
        >>> farm = bf.generate("farm?machines=4&jobs=5").platform
        >>> list(farm.feature_names)
        []
        """
        return dict.fromkeys(name for each in dict.fromkeys(self.features) for name in each)

    def allows(self, constraint: str) -> NDArray[np.bool_]:
        """Return the mask of nodes that satisfy a constraint, shape (nodes,). Raises ValueError.

        If no node states any feature, only node names in the constraint are checked.

        >>> import backfill as bf
        >>> bf.Platform.pool(64, nodes=2).allows("!n1").tolist()
        [False, True]
        """
        allowed = np.zeros(len(self.nodes), np.bool_)
        for terms in alternatives(constraint):
            judged = [
                self._has(name) == wanted for name, wanted in terms.items() if self.features or name in self.nodes
            ]
            allowed |= np.all(judged, axis=0) if judged else True
        return allowed

    def _has(self, feature: str) -> NDArray[np.bool_]:
        features = self.features or ((),) * len(self.nodes)
        return np.array([feature == node or feature in each for node, each in zip(self.nodes, features, strict=True)])

    @property
    def all_licences(self) -> dict[str, int]:
        """The number of copies of each licence: floating ones first, then those bound to nodes, summed over all nodes.

        >>> import backfill as bf
        >>> bf.generate("farm?machines=4&jobs=5&licences=2").platform.all_licences
        {'l1': 2, 'l2': 2}
        """
        locked = {name: int(self.capacity[:, self.resources.index(name)].sum()) for name in self.node_licences}
        return {**dict(zip(self.licences, self.copies.tolist(), strict=True)), **locked}

    @property
    def is_pool(self) -> bool:
        """Return whether this is one node without floating licences, so that a job fits if its amounts do.

        >>> import backfill as bf
        >>> bf.Platform.pool(64).is_pool, bf.Platform.pool(64, nodes=2).is_pool
        (True, False)
        """
        return len(self.nodes) == 1 and not self.licences

    def nodes_of(self, partition: str) -> NDArray[np.bool_]:
        r"""Return the mask of nodes of a partition, shape (nodes,). Raises KeyError.

        >>> import backfill as bf
        >>> from pathlib import Path
        >>> partition = '[[partition]]\nname = "short"\nnodes = ["n1"]\n'
        >>> _ = Path("short.toml").write_text(bf.Platform.pool(64, nodes=2).to_toml() + partition)
        >>> bf.Platform.read("short.toml").nodes_of("short").tolist()
        [True, False]
        """
        inside = np.zeros(len(self.nodes), np.bool_)
        inside[{each.name: each for each in self.partitions}[partition].nodes] = True
        return inside

    def within(self, partition: str = "", site: int = -1, constraint: str = "") -> NDArray[np.bool_]:
        """Return the mask of nodes in a partition and a site that satisfy a constraint, shape (nodes,).

        An empty name means any, and so does site -1. Raises KeyError for an unknown partition.

        >>> import backfill as bf
        >>> bf.Platform.pool(64, nodes=2).within(constraint="!n1").tolist()
        [False, True]
        """
        inside = np.ones(len(self.nodes), np.bool_)
        if partition:
            inside &= self.nodes_of(partition)
        if site >= 0:
            inside &= self.site == site
        if constraint:
            inside &= self.allows(constraint)
        return inside

    @property
    def has_rules(self) -> bool:
        """Return whether there are partitions, qualities of service (QOS) or limits.

        >>> import backfill as bf
        >>> bf.Platform.pool(64).has_rules
        False
        """
        return bool(self.partitions or self.qos or self.limits)

    def targets_of(self, per: str) -> dict[str, float]:
        """Return the targets of single users, groups or projects, in percent.

        >>> import backfill as bf
        >>> bf.Platform.pool(64).targets_of("user")
        {}
        """
        return {each.name: each.target for each in self.targets if each.per == per}

    @property
    def cpus(self) -> int:
        """The number of processors of all nodes.

        >>> import backfill as bf
        >>> bf.Platform.pool(64, nodes=4).cpus
        64
        """
        return int(self.capacity[:, 0].sum())

    @property
    def sha256(self) -> str:
        """A hash of the whole content: platforms with equal hashes are the same machine.

        >>> import backfill as bf
        >>> bf.Platform.pool(64).sha256 == bf.Platform.pool(64).sha256
        True
        """
        says = [self.nodes, self.resources, self.capacity.tolist(), self.speed.tolist(), self.site.tolist(), self.sites,
                self.licences, self.copies.tolist(), self.hosts.tolist(),
                *([self.features] if self.features else []),
                *([self.coallocation_overhead] if self.coallocation_overhead else []),
                *([[stated(each) for each in tables] for tables in (self.partitions, self.qos, self.limits)]
                  if self.has_rules else []),
                *([[[each.per, each.name, each.target] for each in self.targets]] if self.targets else []),
                *([repr(self.slurm)] if self.slurm is not None else [])]  # fmt: skip
        return hashlib.sha256(json.dumps(says).encode()).hexdigest()

    @property
    def size_text(self) -> str:
        """The number of cpus, and whether it is estimated.

        >>> import backfill as bf
        >>> bf.Platform.pool(64).size_text
        '64 cpus'
        """
        return size_text(self.cpus, self.estimated)

    def as_dict(self) -> dict[str, Any]:
        """Return the platform as in the JSON output.

        >>> import backfill as bf
        >>> bf.Platform.pool(64).as_dict()["cpus"]
        64
        """
        return {
            "name": self.name,
            "sha256": self.sha256,
            "nodes": len(self.nodes),
            **{r: int(self.capacity[:, k].sum()) for k, r in enumerate(self.resources)},
            "licences": {licence: int(n) for licence, n in zip(self.licences, self.copies, strict=True)},
            **{
                kind: [each.name for each in tables]
                for kind, tables in (("partitions", self.partitions), ("qos", self.qos), ("limits", self.limits))
                if tables
            },
            **({"estimated": True} if self.estimated else {}),
        }


def size_text(cpus: int, estimated: bool) -> str:
    """Format the size of a platform: `64 cpus`, `64 cpus, estimated from the log`."""
    return counted(cpus, "cpu") + (ESTIMATED if estimated else "")
