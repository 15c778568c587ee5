"""Import a user's Python file: a predictor or a pool."""

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType


def imported(file: Path, kind: str) -> ModuleType:
    """Return the module in a user's file. kind: part of its internal name. Raises whatever the file raises."""
    name = f"backfill_{kind}_{file.stem}"
    loader = SourceFileLoader(name, str(file))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None  # there is a loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
