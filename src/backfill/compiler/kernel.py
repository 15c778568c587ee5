"""Kernels: functions that are compiled, kept on disk, and called from compiled code and from Python.

Whatever a kernel calls becomes part of its machine code, and is optimised once more with it. A kernel `apart` does not:
it is compiled once, by itself, and called by a symbol, as a function of a shared library is. So a policy compiles what
is its own, and the core is not part of it.
"""

import inspect
from collections.abc import Callable
from copy import copy
from importlib import import_module
from typing import Any

from llvmlite import binding
from numba import types
from numba.core.registry import CPUDispatcher

from backfill.compiler import jit, kept
from backfill.compiler.stamps import parts
from backfill.compiler.users import Compiler

RECORDS = {
    "state": ("backfill.core.state", "StateT"),
    "world": ("backfill.core.world", "WorldT"),
    "profile": ("backfill.core.plan.profile", "ProfileT"),
    "predictor": ("backfill.core.predict.predictor", "PredictorT"),
}


class Kernel(CPUDispatcher):
    """A compiled function. Before it is compiled, or read from the disk, it loads the kernels apart that it calls."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it from Python. A policy in plain Python gives its view; then it runs in plain Python as well."""
        if given and hasattr(given[0], "_state"):
            return self.py_func(*given, **named)
        return super().__call__(*given, **named)

    def compile(self, signature: Any) -> Any:
        """The entry point for a signature."""
        for callee in called(self.py_func):
            callee.load()
        return super().compile(signature)


class Apart(Kernel):
    """A kernel that others call by a symbol. It has one signature, and is compiled where it is first needed."""

    kinds: dict[str, Any]  # types of those arguments that are neither a record nor an int64

    @property
    def symbol(self) -> str:
        """The name that calls go to."""
        return f"{self.py_func.__module__}.{self.py_func.__qualname__}"

    @property
    def address(self) -> int:
        """Where its machine code begins."""
        self.load()
        return int(binding.address_of_symbol(self.symbol))

    def load(self) -> None:
        """Compile it, or read it from the disk, unless that was done."""
        if self.overloads:
            return
        self.compile(tuple(self._kind(name) for name in inspect.signature(self.py_func).parameters))
        self.disable_compile()
        (made,) = self.overloads.values()
        binding.add_symbol(self.symbol, made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
        described = copy(made.fndesc)
        described.mangled_name = self.symbol
        self.targetctx.remove_user_function(made.entry_point)
        self.targetctx.insert_user_function(made.entry_point, described)  # a call goes to the symbol, not into the code

    def _kind(self, name: str) -> Any:
        if name in RECORDS:
            module, kind = RECORDS[name]
            return getattr(import_module(module), kind)
        return self.kinds.get(name, types.int64)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for where it finds a call."""
        self.load()
        template, *rest = super().get_call_template(args, kws)
        template.unsafe_casting = False
        return template, *rest

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it from Python."""
        self.load()
        return super().__call__(*given, **named)


def kernel(*signature: Any, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile for the disk cache; without the compiler leave the function as it is.

    With a signature (result, arguments ...) it is compiled where it is defined: for what Python calls, which may do
    other things meanwhile. Without one it is compiled into whatever calls it, so that importing a module costs nothing
    for its helpers. `inline` insists that the machine code has no call: for small functions on the path of every event.

    What a user wrote checks indices and divisors before it uses them, and writes no float into whole numbers; what is
    tested here does not.
    """
    if jit.PLAIN:
        return lambda function: function

    def compiled(function: Callable[..., Any]) -> Any:
        made = _dispatcher(function, forceinline=inline, nogil=bool(signature), no_cfunc_wrapper=not signature)
        made.__class__ = Kernel
        if signature:
            made.compile(signature[0](*signature[1:]))
            made.disable_compile()
        return made

    return compiled


def apart(**kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function by itself, where it is first needed; without the compiler leave it as it is.

    Its arguments are records named as their modules (`state`, `world`, `profile`), those in `kinds`, and int64.
    """
    if jit.PLAIN:
        return lambda function: function

    def compiled(function: Callable[..., Any]) -> Any:
        made = _dispatcher(function, nogil=True, no_cfunc_wrapper=True)
        made.__class__ = Apart
        made.kinds = kinds
        return made

    return compiled


def _dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    ours = function.__code__.co_filename.startswith(str(jit.PACKAGE))
    if not ours:
        options["pipeline_class"] = Compiler
    model = "numpy" if ours else "python"
    return kept.compiled(function, boundscheck=not ours, error_model=model, **options)


def called(function: Any) -> list[Apart]:
    """The kernels apart that a function calls, itself or in the kernels that become part of it."""
    found = (value for _, named in parts(function) for _, value in named if isinstance(value, Apart))
    return [*dict.fromkeys(found)]
