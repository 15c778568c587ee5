"""Verbs: the kernels that a policy may call. A policy passes its view; the verb receives the State behind it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from operator import index
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError

from backfill.compiler import jit
from backfill.compiler.kernel import Apart, Kernel, apart, kernel
from backfill.compiler.users import Misused
from backfill.core.errors import OK

# arguments of verbs that are whole numbers
NUMBERS = ("job", "slot", "reason", "t", "begin", "n", "most", "victims", "rebook", "among", "project")


class Verb(Kernel):
    """A verb, called from compiled code or Python with a view or with a State, which are the same pointer."""

    names: list[str]  # argument names

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call the verb from Python. Raises Misused if a policy misused it through its view."""
        return _from_python(super().__call__, self.names, *given, **named)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the call template that numba requests for a call. Raises TypingError for an argument that must be an
        integer."""
        kws = dict(kws)
        given = {**dict(zip(self.names, args, strict=False)), **kws}
        for name in NUMBERS:
            if not isinstance(types.unliteral(given.get(name, types.int64)), types.Integer | types.Boolean):
                shown = ", ".join(["State", *map(str, list(given.values())[1:])])
                raise TypingError(f"no such call: {self.py_func.__name__}({shown})")
        return super().get_call_template(tuple(map(_opened, args)), {name: _opened(kind) for name, kind in kws.items()})


class VerbApart(Verb, Apart):
    """A separately compiled verb, called through a symbol."""


def _opened(kind: Any) -> Any:
    """Return the type that a verb is compiled for when an argument has this type: a view becomes the State."""
    kind = types.unliteral(kind)
    return getattr(kind, "opened", kind)


def _from_python(call: Callable[..., Any], names: Sequence[str], *given: Any, **named: Any) -> Any:
    state: Any = given[0] if given else named.get(names[0])
    error = getattr(state, "_error", None)
    if error is None:  # called by the core, not through a policy's view
        return call(*given, **named)
    arguments: Mapping[str, Any] = {**dict(zip(names, given, strict=False)), **named}
    arguments = {name: _argument(name, value) for name, value in arguments.items()}
    found = call(**{**arguments, names[0]: state._state})
    if error[0] != OK:
        raise Misused
    return found


def _argument(name: str, value: Any) -> Any:
    """Return an argument in the form that a verb accepts. Raises TypeError if that is impossible."""
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


def verb(inline: bool = False, within: bool = False, **kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a kernel a verb, which policies may call with their view as its first argument.

    It is compiled separately, unless it becomes part of its caller: `within`, or `inline` for inlined machine code.
    kinds: types of arguments, as for `apart`.
    """

    def made(function: Callable[..., Any]) -> Any:
        compiled = (kernel(inline=inline, from_python=True, **kinds) if inline or within else apart(**kinds))(function)
        names = list(inspect.signature(function).parameters)
        if jit.PLAIN:
            return wraps(function)(partial(_from_python, function, names))
        compiled.__class__ = VerbApart if isinstance(compiled, Apart) else Verb
        compiled.names = names
        return compiled

    return made
