"""Packed values: a copy equals the original, and nothing but the listed classes is made."""

import math
import pickle
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from backfill.traces.packed import PackedError, digest, read_packed, write_packed


@dataclass(frozen=True, eq=False)
class Held:
    value: Any


def same(one, other):
    if isinstance(one, Held):
        return isinstance(other, Held) and same(one.value, other.value)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and same(one.tolist(), other.tolist())
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return [*one] == [*other] and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and (one == other or (one != one and other != other))


VALUES = [
    None, True, 7, -(2**70), 0.1, math.inf, -0.0, math.nan, "ä\U0001f600",
    [1, (2, [3])], {"a": 1, 2: {"of": "x"}, (1, 2): frozenset({"b", "a"})}, np.int64(3), np.float64(0.1),
    np.arange(6).reshape(2, 3), np.zeros((0, 3), np.int8), np.array(["a", "longer"]), np.array(["x", 3], object),
    np.array([True, False]), np.array([math.nan, 1e-300]), Held(Held((np.array([1], np.int32), None))),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_copy_equals_the_original(tmp_path, value):
    write_packed(tmp_path / "a.zip", value)
    found = read_packed(tmp_path / "a.zip", [Held])
    assert same(value, found)
    assert digest(found) == digest(value)
    write_packed(tmp_path / "b.zip", found)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_different_values_have_different_digests():
    assert len({digest(value) for value in VALUES}) == len(VALUES)


def test_a_class_that_is_not_listed_is_not_made(tmp_path):
    write_packed(tmp_path / "a.zip", Held(1))
    with pytest.raises(PackedError, match=r"a\.zip: is damaged: 'Held'"):
        read_packed(tmp_path / "a.zip", [])


def test_a_pickle_inside_is_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr("value.json", '{"array": 0}')
        out.writestr("0.npy", pickle.dumps(Held(1)))
    with pytest.raises(PackedError, match="is damaged: "):
        read_packed(tmp_path / "a.zip", [Held])


@pytest.mark.parametrize(
    "text",
    [
        '{"array": 0}',
        '{"array": "x"}',
        "{",
        '{"of": "Held"}',
        '{"of": "Held", "fields": 3}',
        '{"of": "Held", "fields": {"no": 1}}',
        '{"dict": [1]}',
        "{}",
    ],
)
def test_what_makes_no_sense_is_told(tmp_path, text):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr("value.json", text)
    with pytest.raises(PackedError, match=r"a\.zip: is damaged: "):
        read_packed(tmp_path / "a.zip", [Held])


def test_what_is_unknown_is_not_packed(tmp_path):
    with pytest.raises(TypeError, match="object cannot be packed"):
        write_packed(tmp_path / "a.zip", [object()])
    assert not [*tmp_path.iterdir()]
