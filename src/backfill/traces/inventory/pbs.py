"""Nodes of PBS: `pbsnodes -a`, of OpenPBS and PBS Pro (also as JSON, `-F json`) and of Torque.

Source: the manual pages pbsnodes(8B) and pbs_node_attributes(7B) of OpenPBS, and of Torque.
"""

import re
from typing import Any

from backfill.model.errors import PlatformError, at
from backfill.model.units import parse_size
from backfill.traces.inventory.nodes import Inventory, Node, wrong

_TORQUE_STATUS = re.compile(r"(\w+)=([^,]*)")


def nodes_of_text(file: str, text: str) -> Inventory:
    """Parse node names at the beginning of lines, each followed by indented `key = value` lines."""
    inventory = Inventory(file)
    name, begin, values = "", 0, dict[str, str]()
    for line, row in enumerate([*text.split("\n"), "end"], start=1):
        if not row.strip():
            continue
        if row[0] not in " \t":
            if name:
                _add(inventory, begin, name, values)
            name, begin, values = row.strip(), line, {}
        elif " = " in row and name:
            key, _, value = row.strip().partition(" = ")
            values[key] = value
        else:
            message = f"{row.strip()[:60]!r}; expected the name of a node, or key = value of one, as pbsnodes -a prints"
            raise PlatformError(at(file, line, message))
    return inventory


def nodes_of_json(file: str, nodes: dict[str, Any]) -> Inventory:
    """Return the nodes of `pbsnodes -a -F json`."""
    inventory = Inventory(file)
    for name, entry in nodes.items():
        values = {key: str(value) for key, value in entry.items() if not isinstance(value, dict)}
        values |= {
            f"resources_available.{key}": str(value) for key, value in entry.get("resources_available", {}).items()
        }
        _add(inventory, None, name, values)
    return inventory


def _add(inventory: Inventory, line: int | None, name: str, values: dict[str, str]) -> None:
    status = dict(_TORQUE_STATUS.findall(values.get("status", "")))

    def amount(*keys: str, of: dict[str, str] = values) -> int:
        for key in keys:
            if key in of:
                try:
                    return parse_size(of[key].lower().removesuffix("b"))
                except ValueError:
                    raise wrong(inventory.file, line, name, key, of[key], "a number, or a size such as 64gb") from None
        return 0

    memory = amount("resources_available.mem") or amount("physmem", of=status)
    properties = [part for part in values.get("properties", "").split(",") if part]
    own = {"arch", "host", "vnode", "mem", "ncpus", "ngpus", "naccelerators", "hpmem", "vmem", "accelerator_memory"}
    for key, value in values.items():
        kind, _, resource = key.partition("resources_available.")
        if not kind and resource and resource not in own and value == "True":
            properties.append(resource)
    inventory.add(
        Node(
            name,
            cpus=amount("resources_available.ncpus", "np", "pcpus") or amount("ncpus", of=status),
            memory=memory,
            gpus=amount("resources_available.ngpus", "gpus"),
            features=tuple(dict.fromkeys(properties)),
            partitions=tuple(part for part in values.get("queue", "").split(",") if part),
        ),
        line,
    )
