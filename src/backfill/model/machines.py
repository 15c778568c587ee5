"""A machine of one node as a platform."""

from collections.abc import Mapping

import numpy as np

from backfill.model.platform import Platform
from backfill.model.workload import RESOURCES


def machine(resources: Mapping[str, int], name: str = "machine") -> Platform:
    """Return a platform of one node with these resources, cpus first; names outside of RESOURCES are licences."""
    names = ("cpus", *(each for each in resources if each != "cpus"))
    return Platform(
        nodes=(name,),
        resources=names,
        capacity=np.array([[resources[each] for each in names]], np.int64),
        speed=np.ones(1),
        site=np.zeros(1, np.int64),
        name="machine",
        node_licences=tuple(each for each in names if each not in RESOURCES),
    )
