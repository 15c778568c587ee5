"""The logs that come with backfill, read as `sample:NAME`; README.md has the credit and what was changed."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

PREFIX = "sample:"


@dataclass(frozen=True)
class Sample:
    """A bundled log. No log says how large its machine was: cpus is the size of the pool that it is given."""

    path: Path
    cpus: int
    about: str


def _sample(name: str, cpus: int, about: str) -> Sample:
    return Sample(Path(str(files(__name__) / f"{name}-sample.csv.gz")), cpus, about)


SAMPLES = {
    "itp": _sample(
        "itp", 112, "two months of a cluster that trains neural networks, Microsoft, 2021; processors are GPUs"
    ),
    "eagle": _sample("eagle", 14_400, "two days of a supercomputer, National Renewable Energy Laboratory, 2019"),
}
