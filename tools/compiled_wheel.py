"""A build hook: BACKFILL_COMPILED=1 python -m build --wheel makes a wheel that carries compiled code.

It is for this Python and this kind of machine, and has code for each class of processors in compiler/jit.py that this
one can compile for. Without the variable the wheel is for all machines, and has none.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WANTED = "BACKFILL_COMPILED"
OLDEST_C_LIBRARY = "manylinux_2_17"  # compiled code calls none of it


class CompiledCode(BuildHookInterface):  # type: ignore[misc]
    """See the module."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the libraries that compile."""
        return [*self.metadata.core.dependencies] if os.environ.get(WANTED) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile for each class, and include what was compiled."""
        if version == "editable" or not os.environ.get(WANTED):
            return
        self._folder = tempfile.TemporaryDirectory()
        for name in self._classes():
            made = Path(self._folder.name, name)
            self._python("-m", "tools.compile", NUMBA_CPU_NAME=name, BACKFILL_CACHE_DIR=str(made))
            (folder,) = (made / "jit").iterdir()
            build_data["force_include"][str(folder)] = f"backfill/compiled/{folder.name}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_").replace("linux", OLDEST_C_LIBRARY)
        build_data["pure_python"] = False
        build_data["tag"] = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _classes(self) -> list[str]:
        return self._python("-c", "from backfill.compiler import jit; print(*jit.portable())").split()

    def _python(self, *words: str, **more: str) -> str:
        """Return what this Python prints, with the sources of this tree. Raises CalledProcessError."""
        env = {**os.environ, "PYTHONPATH": str(Path(self.root, "src")), "NUMBA_CPU_FEATURES": "", **more}
        done = subprocess.run(
            [sys.executable, *words], cwd=self.root, env=env, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout
