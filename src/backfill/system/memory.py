"""Memory that this process has freed."""

import ctypes
import sys

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def give_back() -> None:
    """Return freed memory to the operating system.

    The allocator of glibc keeps it for later, between blocks that are in use, so that a process which allocates and
    frees large arrays again and again seems to grow. Other systems are left to their own allocators.
    """
    if _trim is not None:
        _trim(0)
