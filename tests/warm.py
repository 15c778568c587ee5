"""Do once, on all cores, what tests that run side by side would each do: python -m tests.warm

All policies are compiled, and pytest keeps the tests as it rewrites them.
"""

import subprocess
import sys

from tools.compile import compile_all


def collect_tests() -> None:
    """Have pytest keep what it rewrites of each file. What cannot be collected, the run itself tells."""
    subprocess.run([sys.executable, "-m", "pytest", "--collect-only"], stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    compile_all([(collect_tests, ())])
