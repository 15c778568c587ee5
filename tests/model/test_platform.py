"""Platforms that are built from Python are held to the same rules as those of a file."""

import numpy as np
import pytest

from backfill.model.errors import PlatformError
from backfill.model.platform import Platform

TWO = {
    "nodes": ("a", "b"),
    "resources": ("cpus",),
    "capacity": np.array([[4], [2]]),
    "speed": np.ones(2),
    "site": np.zeros(2, np.int64),
    "licences": ("x",),
    "copies": np.array([1]),
    "hosts": np.ones((2, 1), np.bool_),
}


def test_a_platform_of_two_nodes():
    assert Platform(**TWO).cpus == 6


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("capacity", np.array([[4]]), r"capacity has shape \(1, 1\); expected \(2, 1\)"),
        ("speed", np.ones(1), r"speed has shape \(1,\); expected \(2,\)"),
        ("site", np.zeros(3, np.int64), r"site has shape \(3,\); expected \(2,\)"),
        ("copies", np.array([1, 2]), r"copies has shape \(2,\); expected \(1,\)"),
        ("hosts", np.ones((1, 3), np.bool_), r"hosts has shape \(1, 3\); expected \(2, 1\)"),
        ("nodes", ("a", "a"), "two of a, a have the same name"),
        ("site", np.array([0, 7]), "sites must be places in"),
        ("copies", np.array([-1]), "copies 0 or more"),
        ("speed", np.array([1, 0.0]), "speeds from 1e-6 to 1e6"),
        ("capacity", np.array([[4], [-2]]), "capacities must be from 0"),
    ],
)
def test_what_cannot_be_is_refused(column, value, message):
    with pytest.raises(PlatformError, match=message):
        Platform(**{**TWO, column: value})
