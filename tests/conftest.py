"""Shared settings: hypothesis profiles, and where the shared traces are."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
quick = {"derandomize": True, "phases": [Phase.explicit, Phase.generate], **common}  # to shrink a case takes minutes
settings.register_profile("ci", max_examples=4, **quick)  # times some 40 policies and 60 laws
settings.register_profile("few", max_examples=3, **quick)
settings.register_profile("long", max_examples=2000, **common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Queues of tests do not see each other, nor those of who runs the tests.
os.environ["BACKFILL_REGISTRY"] = f"tests-{os.getpid()}"

# A shell that runs the tests in the background ignores Ctrl-C, and so would the processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """The folder of recorded logs and oracles that is not part of the project."""
    if not SHARED.is_dir():
        pytest.skip("needs the recorded logs in ../shared, which are not part of the project")
    return SHARED
