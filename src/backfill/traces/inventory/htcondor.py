"""HTCondor machines: `condor_status -json` or `condor_status -long`.

Source: the HTCondor manual, "Machine ClassAd Attributes". A machine with a partitionable slot is one node, which jobs
share; each static slot is a node, held by one job. Dynamic slots are parts of the partitionable one.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from backfill.traces.inventory.nodes import Inventory, Node, wrong

_MIB = 2**20


def nodes_of_ads(file: str, ads: Iterable[dict[str, Any]]) -> Inventory:
    """Return the nodes of the ads of slots. Raises PlatformError."""
    inventory = Inventory(file)
    for _, node in slots_of_ads(file, ads):
        inventory.add(node)
    return inventory


def slots_of_ads(file: str, ads: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Node]]:
    """Yield the ad of each slot that is a node, with keys in lower case, and the node. Raises PlatformError."""
    names: set[str] = set()
    for given in ads:
        ad = {key.lower(): value for key, value in given.items()}
        if ad.get("dynamicslot") is True or ad.get("slottype") == "Dynamic" or "cpus" not in ad:
            continue
        parts = is_shared_out(ad)
        name = str(ad.get("name", ad.get("machine", "?")))
        if parts and name.partition("@")[2] not in names:  # unless a machine has several of them
            name = name.partition("@")[2] or name
        names.add(name)

        def amount(*keys: str, ad: dict[str, Any] = ad, name: str = name) -> int:
            key = next((key for key in keys if key in ad), None)
            if key is None:
                return 0
            try:
                return int(ad[key])
            except (TypeError, ValueError, OverflowError):
                raise wrong(file, None, name, key, ad[key], "a whole number") from None

        node = Node(
            name,
            cpus=amount("totalslotcpus", "cpus") if parts else amount("cpus"),
            memory=(amount("totalslotmemory", "memory") if parts else amount("memory")) * _MIB,
            gpus=amount("totalslotgpus", "totalgpus", "gpus") if parts else amount("gpus"),
        )
        yield ad, node


def is_shared_out(ad: dict[str, Any]) -> bool:
    """Return whether jobs share a slot, each in a dynamic one; the ad's keys are in lower case."""
    return ad.get("partitionableslot") is True or ad.get("slottype") == "Partitionable"
