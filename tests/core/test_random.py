"""The numbers a policy draws: the published generator, the same in every form."""

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
from backfill import policies
from backfill.core.random import mix, pick
from backfill.core.setup import state_of
from backfill.model.platform import Platform
from backfill.model.workload import Jobs

policy = policies.get("fcfs")
none = np.zeros(0, np.int64)
jobs = Jobs(job=none, submit=none, runtime=none, walltime=none)
state = state_of(jobs, Platform.pool(1), policy, policy.values({}), estimate=none, seed=5)
print(hex(int(mix(0, 0))), hex(int(mix(0, 1))), [int(pick(state, 6)) for _ in range(20)])
"""


def drawn(**environment):
    found = subprocess.run([sys.executable, "-c", SCRIPT], env=os.environ | environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_words_are_those_of_splitmix64():
    assert drawn().startswith("0xe220a8397b1dcdaf 0x6e789e6aa1b965f4 ")  # the published first words of seed 0


def test_compiled_and_plain_form_draw_the_same():
    assert drawn() == drawn(NUMBA_DISABLE_JIT="1")
