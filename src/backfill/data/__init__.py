"""The log that comes with backfill: 1,000 jobs of the Eagle system; README.md has the credit and what was changed."""

from importlib.resources import files
from pathlib import Path

EAGLE = Path(str(files(__name__) / "eagle-sample.csv.gz"))
EAGLE_CPUS = 14_400  # of the pool that the demo gives it; the log does not say how large the machine was
EAGLE_LOAD = 5.0  # the pace at which that pool is busy
