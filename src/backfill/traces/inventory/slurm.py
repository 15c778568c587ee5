"""Nodes and partitions of Slurm: `scontrol show node|partition --oneliner`, `sinfo`, or either as JSON.

Source: the manual pages of scontrol ("show") and sinfo ("output fields"), slurm.schedmd.com.
"""

import re
from typing import Any

from backfill.model.errors import PlatformError, at, quote
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.slurm import span_of
from backfill.traces.inventory.nodes import Inventory, Node, Terms, wrong

_MIB = 2**20
_PAIR = re.compile(r"(\w+)=(\S*)")
_GPU = re.compile(r"(?:gres/)?gpu:(?:([^,():=\s]+):)?(\d+)")
_NOTHING = ("(null)", "N/A", "none", "")


def nodes_of_scontrol(file: str, text: str) -> Inventory:
    """Parse `scontrol show node`, optionally followed by `show partition` and `show license`; --oneliner or not."""
    inventory = Inventory(file)
    line = 1
    for part in re.split(r"(?m)^(?=NodeName=|PartitionName=|LicenseName=)", text):
        pairs = dict(reversed(_PAIR.findall(part)))  # the first of duplicate keys: later ones are part of the comment
        if "NodeName" in pairs and part.startswith("NodeName"):
            _scontrol_node(inventory, line, pairs)
        elif "PartitionName" in pairs:
            inventory.partitions[pairs["PartitionName"]] = _scontrol_partition(inventory.file, line, pairs)
        elif "LicenseName" in pairs:
            total = _whole(file, line, pairs["LicenseName"], "Total", pairs.get("Total", ""), "licence")
            inventory.licences[pairs["LicenseName"]] = total
        line += part.count("\n")
    return inventory


def _scontrol_node(inventory: Inventory, line: int, pairs: dict[str, str]) -> None:
    name = pairs["NodeName"]
    if "FUTURE" in pairs.get("State", ""):
        return
    types, gpus = gpus_of(pairs.get("Gres", ""))
    inventory.add(
        Node(
            name,
            cpus=_whole(inventory.file, line, name, "CPUTot", pairs.get("CPUTot", "")),
            memory=_whole(inventory.file, line, name, "RealMemory", pairs.get("RealMemory", "0")) * _MIB,
            gpus=gpus,
            features=_listed(pairs.get("AvailableFeatures", pairs.get("Features", ""))),
            gpu_types=types,
            partitions=_listed(pairs.get("Partitions", "")),
            weight=_whole(inventory.file, line, name, "Weight", pairs.get("Weight", "1")),
        ),
        line,
    )


def _scontrol_partition(file: str, line: int, pairs: dict[str, str]) -> Terms:
    def span(key: str) -> int:
        value = pairs.get(key, "NONE")
        if value in ("UNLIMITED", "NONE", "INFINITE"):
            return 0
        try:
            return span_of(value)
        except ValueError:
            expected = "a span such as 1-02:03:04"
            raise wrong(file, line, pairs["PartitionName"], key, value, expected, "partition") from None

    accounts = pairs.get("AllowAccounts", "ALL")
    try:
        nodes = host_names(pairs.get("Nodes", "(null)"))
    except ValueError:
        nodes = ()
    # 25.11 and later print Exclusive=NODE and OverSubscribe=NO.
    whole = pairs.get("OverSubscribe") == "EXCLUSIVE" or pairs.get("Exclusive") == "NODE"
    return Terms(
        default=pairs.get("Default") == "YES",
        default_walltime=span("DefaultTime"),
        max_walltime=span("MaxTime"),
        priority=_whole(file, line, pairs["PartitionName"], "PriorityTier", pairs.get("PriorityTier", "1"), "partition")
        - 1.0,
        place="exclusive" if whole else "",
        groups=() if accounts in ("ALL", *_NOTHING) else tuple(accounts.split(",")),
        nodes=nodes,
        stated=pairs,
    )


def nodes_of_sinfo(file: str, text: str) -> Inventory:
    """Parse `sinfo -N -l`, or `sinfo -o` with node names and CPUS, with any column separator."""
    inventory = Inventory(file)
    place: dict[str, None] = {}
    separator: str | None = None
    for line, row in enumerate(text.split("\n"), start=1):
        if not place:
            separator = next((each for each in "|;\t," if each in row and "NODE" in row), None)
            names = [cell.strip() for cell in row.split(separator)]
            if {"NODELIST", "HOSTNAMES", "NODE"} & set(names):
                place = dict.fromkeys(names)
                if "CPUS" not in place:
                    raise PlatformError(
                        at(file, line, "no column CPUS; expected `sinfo -N -l` or `scontrol show node`")
                    )
            continue
        if not row.strip():
            continue
        cells = [cell.strip() for cell in row.split(separator)]
        if len(cells) < len(place) - ("REASON" in place):
            raise PlatformError(at(file, line, f"{len(cells)} columns; expected {len(place)}, as in the header"))

        row_of = dict(zip(place, cells, strict=False))

        def cell(*names: str, row_of: dict[str, str] = row_of) -> str:
            return next((row_of[name] for name in names if name in row_of), "")

        types, gpus = gpus_of(cell("GRES"))
        partition = cell("PARTITION")
        if partition.endswith("*"):
            inventory.partitions.setdefault(partition[:-1], Terms(default=True))
        listed = cell("NODELIST", "HOSTNAMES", "NODE")
        try:
            names_of_row = host_names(listed)
        except ValueError:
            message = f"NODELIST is {quote(listed)}; expected a list of nodes such as n[01-03,7]"
            raise PlatformError(at(file, line, message)) from None
        for name in names_of_row:
            inventory.add(
                Node(
                    name,
                    cpus=_whole(file, line, name, "CPUS", cell("CPUS").rstrip("+")),
                    memory=_whole(file, line, name, "MEMORY", cell("MEMORY").rstrip("+") or "0") * _MIB,
                    gpus=gpus,
                    features=_listed(cell("AVAIL_FEATURES", "AVAIL_FE", "ACTIVE_FEATURES")),
                    gpu_types=types,
                    partitions=_listed(partition.rstrip("*")),
                ),
                line,
            )
    return inventory


def nodes_of_slurm_json(file: str, data: dict[str, Any]) -> Inventory:
    """Parse `scontrol show node --json` or `sinfo --json` of any version."""
    inventory = Inventory(file)
    for entry in data.get("sinfo", ()):
        types, gpus = gpus_of(str(entry.get("gres", {}).get("total", "")))
        for name in entry["nodes"]["nodes"]:
            inventory.add(
                Node(
                    name,
                    cpus=_whole(file, None, name, "cpus", str(entry["cpus"]["maximum"])),
                    memory=_whole(file, None, name, "memory", str(entry["memory"]["maximum"])) * _MIB,
                    gpus=gpus,
                    features=_listed(entry.get("features", {}).get("total", "")),
                    gpu_types=types,
                    partitions=_listed(entry.get("partition", {}).get("name", "")),
                )
            )
    for entry in data.get("nodes", ()) if not inventory.nodes else ():
        types, gpus = gpus_of(entry.get("gres", ""))
        name = str(entry.get("name", "?"))
        inventory.add(
            Node(
                name,
                cpus=_whole(file, None, name, "cpus", str(entry.get("cpus", ""))),
                memory=_whole(file, None, name, "real_memory", str(entry.get("real_memory", 0))) * _MIB,
                gpus=gpus,
                features=_listed(entry.get("features", "")),
                gpu_types=types,
                partitions=_listed(entry.get("partitions", ())),
            )
        )
    return inventory


def gpus_of(gres: str) -> tuple[tuple[str, ...], int]:
    """Return the types of GPUs and their total number: `gpu:a100:4(S:0-1),gpu:2`."""
    matches = _GPU.findall(gres)
    return tuple(dict.fromkeys(kind for kind, _ in matches if kind)), sum(int(count) for _, count in matches)


def _listed(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return () if value in _NOTHING else tuple(part for part in value.split(",") if part)
    return tuple(map(str, value))


def _whole(file: str, line: int | None, owner: str, name: str, text: str, kind: str = "node") -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 13):
        raise wrong(file, line, owner, name, text, "a whole number", kind)
    return int(text)
