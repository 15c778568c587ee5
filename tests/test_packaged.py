"""Policies that an installed package brings are found by name, in every verb and in a queue."""

import os
import subprocess
import sys

import pytest

from backfill.daemon.config import Config
from backfill.loading import load
from backfill.model.errors import UsageError
from backfill.packaged import packaged

POLICY = """
import backfill as bf
from backfill.verbs import start_heads


@bf.policy("polite", compiled=False, params={"jumps": bf.Param(3, 0, 9, whole=True)})
def polite(state):
    start_heads(state)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package as pip leaves it: the folder of its modules, and what it says of itself."""
    (tmp_path / "polite_policies").mkdir()
    (tmp_path / "polite_policies" / "__init__.py").write_text("raise ImportError('nobody needs it')")
    (tmp_path / "polite_policies" / "one.py").write_text(POLICY)
    told = tmp_path / "polite_policies-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: polite-policies\nVersion: 1.0\n")
    points = "polite = polite_policies.one:polite\nlost = polite_policies.two:lost\neasy = polite_policies.one:polite\n"
    (told / "entry_points.txt").write_text(f"[backfill.policies]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    packaged.cache_clear()
    yield tmp_path
    packaged.cache_clear()


def test_a_policy_of_a_package_is_found_by_its_name(package):
    policy, params = load("polite:jumps=5")
    assert (policy.name, params) == ("polite", {"jumps": 5.0})
    assert load("easy")[0].source.startswith("Lifka")  # names of this package go first
    with pytest.raises(UsageError, match=r"polite_policies\.two:lost of polite-policies is no module"):
        load("lost")


def test_a_queue_keeps_a_copy_of_it(package, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('policy = "polite:jumps=2"\n')
    policy = Config(home).policy
    assert policy.startswith(f"{home}/policies/one-")
    assert policy.endswith(".py:polite:jumps=2")


def test_the_command_lists_it(package):
    env = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, "-m", "backfill", "policies"], env=env, capture_output=True, text=True)
    assert "polite, of the package polite-policies\n" in done.stdout
