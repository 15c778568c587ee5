"""Verbs: the kernels that a policy may call. They get the State itself where the policy gives them its view."""

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
    """A verb: compiled code calls it with a view or with a State, which are one pointer; Python likewise."""

    names: list[str]  # of its arguments

    def __call__(self, *given: Any, **named: Any) -> Any:
        """What the verb returns. Raises Misused where it was misused through a policy's view."""
        return _from_python(super().__call__, self.names, *given, **named)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for where it finds a call. An argument that is no whole number is refused here already."""
        kws = dict(kws)
        given = {**dict(zip(self.names, args, strict=False)), **kws}
        for name in NUMBERS:
            if not isinstance(types.unliteral(given.get(name, types.int64)), types.Integer | types.Boolean):
                shown = ", ".join(["State", *map(str, list(given.values())[1:])])
                raise TypingError(f"no such call: {self.py_func.__name__}({shown})")
        return super().get_call_template(tuple(map(_opened, args)), {name: _opened(kind) for name, kind in kws.items()})


class VerbApart(Verb, Apart):
    """A verb that is compiled by itself, and called by a symbol."""


def _opened(kind: Any) -> Any:
    """The type that a verb is compiled for where it is called with this one: the State's for a view's."""
    kind = types.unliteral(kind)
    return getattr(kind, "opened", kind)


def _from_python(call: Callable[..., Any], names: Sequence[str], *given: Any, **named: Any) -> Any:
    state: Any = given[0] if given else named.get(names[0])
    error = getattr(state, "_error", None)
    if error is None:  # not a policy's view
        return call(*given, **named)
    arguments: Mapping[str, Any] = {**dict(zip(names, given, strict=False)), **named}
    arguments = {name: _argument(name, value) for name, value in arguments.items()}
    found = call(**{**arguments, names[0]: state._state})
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
        compiled = (kernel(inline=inline) if inline or within else apart())(function)
        names = list(inspect.signature(function).parameters)
        if jit.PLAIN:
            return wraps(function)(partial(_from_python, function, names))
        compiled.__class__ = VerbApart if isinstance(compiled, Apart) else Verb
        compiled.names = names
        return compiled

    return made
