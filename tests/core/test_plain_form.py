"""Without the compiler every kernel and record is plain Python: for pdb and coverage, with the same schedules."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_plain_form_gives_the_schedules_of_the_twins():
    names = "(on_a_pool or licences_and_gangs) and (fcfs or easy] or sjbf or conservative or ibb] or mod] or how)"
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "tests/differential", "-k", names],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "HYPOTHESIS_PROFILE": "few"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-3000:]
