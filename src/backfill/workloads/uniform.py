"""Uniform numbers that are equal with every numpy and on every machine, and the hash of workloads made from them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from backfill.model.workload import Floats


class Uniform:
    """Uniform numbers in the open interval (0, 1): the upper 52 bits of PCG64's words, each plus a half."""

    def __init__(self, seed: int, *key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))

    def __call__(self, count: int) -> Floats:
        """Return the next numbers of the stream."""
        words = self._bits.random_raw(count) >> np.uint64(12)
        return (words.astype(np.float64) + 0.5) * 2.0**-52

    def whole(self, count: int, low: int, high: int) -> Floats:
        """Return whole numbers from low to high, both included."""
        return low + np.floor(self(count) * (high - low + 1))


def digest(model: str, version: int, arguments: Mapping[str, Any]) -> str:
    """Return the sha256 that identifies the jobs of a model's version and arguments."""
    return hashlib.sha256(json.dumps([model, version, arguments], sort_keys=True).encode()).hexdigest()
