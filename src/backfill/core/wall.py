"""Verbs: the kernels that a policy may call. They open the wall of its view and get the State itself."""

import inspect
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.extending import intrinsic

from backfill import jit
from backfill.core.record import kernel


def opened(state: Any) -> Any:
    """The State behind a view; the State itself."""
    return getattr(state, "_state", state)


if not jit.PLAIN:

    @intrinsic
    def opened(typing_context: Any, state: Any) -> Any:
        """The State behind a view: the same pointer under another type."""
        from backfill.core.state import StateT  # made of rooms whose verbs need this module

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return StateT(state), generate


def verb(inline: bool = False, once: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Make a kernel one that policies may call with their view, as its first argument."""

    def made(function: Callable[..., Any]) -> Any:
        inner = kernel(inline=inline, once=once)(function)
        state, *rest = inspect.signature(function).parameters
        scope: dict[str, Any] = {"inner": inner, "opened": opened, "__name__": function.__module__}
        arguments = ", ".join([f"opened({state})", *rest])
        exec(f"def outer({', '.join([state, *rest])}):\n    return inner({arguments})", scope)
        outer = scope["outer"]
        outer.__name__ = outer.__qualname__ = function.__name__
        outer.__doc__ = function.__doc__
        return outer if jit.PLAIN else njit(forceinline=True, error_model="numpy")(outer)

    return made
