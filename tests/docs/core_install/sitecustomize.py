"""In the processes that the documentation starts: what the core install does not have cannot be imported."""

import os
import sys
from importlib.abc import MetaPathFinder


class _Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ["BACKFILL_MISSING"].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Missing())
