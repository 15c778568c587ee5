"""Verbs: the kernels that a policy may call. They open the wall of its view and get the State itself."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from operator import index
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.errors import TypingError
from numba.core.extending import intrinsic

from backfill import jit
from backfill.core.errors import OK, Misused
from backfill.core.kernel import Kernel, apart, kernel

NUMBERS = ("job", "slot", "reason", "t", "begin", "n")  # arguments of verbs that are whole numbers


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


class Verb(Kernel):
    """A verb as Python calls it: a policy in plain Python is stopped at the call that breaks a rule."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        """What the verb returns. Raises Misused where it was misused through a policy's view."""
        return _from_python(super().__call__, list(inspect.signature(self.py_func).parameters), *given, **named)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for where it finds a call. An argument that is no whole number is refused here already."""
        given = dict(zip(inspect.signature(self.py_func).parameters, args, strict=False)) | dict(kws)
        for name in NUMBERS:
            if not isinstance(types.unliteral(given.get(name, types.int64)), types.Integer | types.Boolean):
                shown = ", ".join(["State", *map(str, list(given.values())[1:])])
                raise TypingError(f"no such call: {self.py_func.__name__}({shown})")
        return super().get_call_template(args, kws)


def _from_python(call: Callable[..., Any], names: Sequence[str], *given: Any, **named: Any) -> Any:
    error = getattr(given[0], "_error", None) if given else None
    if error is None:  # not a policy's view
        return call(*given, **named)
    arguments: Mapping[str, Any] = {**dict(zip(names, given, strict=False)), **named}
    found = call(**{name: _argument(name, value) for name, value in arguments.items()})
    if error[0] != OK:
        raise Misused
    return found


def _argument(name: str, value: Any) -> Any:
    """An argument that a verb can be called with. Raises TypeError for what it cannot."""
    if name in NUMBERS:
        if not hasattr(value, "__index__") or not -(2**63) <= index(value) < 2**63:
            raise TypeError(f"{name} is {value!r}; expected a whole number")
        return index(value)
    if name == "keys" and not (isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "if"):
        raise TypeError(f"keys is {type(value).__name__}; expected an array with a number for each job")
    if name == "nodes":
        if not (isinstance(value, np.ndarray | list | tuple) and np.ndim(value) == 1):
            raise TypeError(f"nodes is {type(value).__name__}; expected an array with a node for each task")
        return np.ascontiguousarray(value, np.int64)
    return value


def verb(inline: bool = False, within: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Make a kernel one that policies may call with their view, as its first argument.

    It is compiled by itself, unless it is to be part of what calls it: `within`, or with no call at all `inline`.
    """

    def made(function: Callable[..., Any]) -> Any:
        inner = (kernel(inline=inline) if inline or within else apart())(function)
        state, *rest = inspect.signature(function).parameters
        scope: dict[str, Any] = {"inner": inner, "opened": opened, "__name__": function.__module__}
        arguments = ", ".join([f"opened({state})", *rest])
        exec(f"def outer({', '.join([state, *rest])}):\n    return inner({arguments})", scope)
        outer = scope["outer"]
        outer.__name__ = outer.__qualname__ = function.__name__
        outer.__doc__ = function.__doc__
        if jit.PLAIN:
            return wraps(outer)(partial(_from_python, outer, [state, *rest]))
        compiled = njit(forceinline=True, error_model="numpy")(outer)
        compiled.__class__ = Verb
        return compiled

    return made
