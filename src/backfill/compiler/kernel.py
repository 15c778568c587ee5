"""Kernels: functions that are compiled, cached on disk, and called from compiled code and from Python.

A kernel that another one calls becomes part of the caller's machine code and is optimised there (linked.py). A kernel
marked `apart` does not: it is compiled once, separately, and called through a symbol, like a function of a shared
library. So compiling a policy compiles only the policy's own code, not the core.
"""

import hashlib
import inspect
from collections.abc import Callable
from copy import copy
from importlib import import_module
from typing import Any

from llvmlite import binding
from numba import types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature
from numba.core.typing import make_concrete_template

from backfill.compiler import jit, kept
from backfill.compiler.linked import LINKING, MACHINE_CODE, KeptLinked
from backfill.compiler.stamps import parts, view_in

RECORDS = {
    "state": ("backfill.core.state", "StateT"),
    "world": ("backfill.core.world", "WorldT"),
    "profile": ("backfill.core.plan.profile", "ProfileT"),
    "predictor": ("backfill.core.predict.predictor", "PredictorT"),
}


class Kernel(CPUDispatcher):
    """A compiled function that first loads the separately compiled kernels it calls, before it is compiled or read.

    Python's calls get machine code. Those of compiled functions get code that these link into their own.
    """

    linked: dict[Any, Any]  # what callers link, by the types of the arguments
    kinds: dict[str, Any]  # types of the arguments that are neither a record nor an int64
    from_python: bool  # whether Python calls it, too

    def signature(self, view: Any = None) -> tuple[Any, ...]:
        """Return the types of the arguments, by their names. view: the type of `state`, if it is not the State."""
        names = inspect.signature(self.py_func).parameters
        return tuple(view if name == "state" and view is not None else self._kind(name) for name in names)

    def _kind(self, name: str) -> Any:
        if name in RECORDS:
            module, kind = RECORDS[name]
            return getattr(import_module(module), kind)
        return self.kinds.get(name, types.int64)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it from Python. A policy in plain Python gives its view; then it runs in plain Python as well."""
        if given and hasattr(given[0], "_state"):
            return self.py_func(*given, **named)
        return super().__call__(*given, **named)

    def compile(self, signature: Any) -> Any:
        """Compile to machine code for a signature, or read it from the cache, and return the entry point."""
        self._load_called(signature)
        entry = super().compile(signature)
        made = self.overloads[tuple(normalize_signature(signature)[0])]
        for environment in made._find_referenced_environments():  # those of linked functions have no other place
            made.library.codegen.set_env(environment.env_name, environment)
        return entry

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the call template that numba requests for each call, after compiling what the caller links."""
        if not self._can_compile:
            return super().get_call_template(args, kws)
        described, kinds = self._compiler.fold_argument_types(args, kws)
        if kinds not in self.linked:
            with global_compiler_lock, self._compiling_counter:
                self.linked[kinds] = self._link(kinds)
        name, signatures = self.py_func.__name__, [made.signature for made in self.linked.values()]
        return make_concrete_template(f"CallTemplate({name})", name, signatures), described, kinds, {}

    def get_overload(self, signature: Any) -> Any:
        """Return the object under which numba finds the code for a call."""
        kinds = tuple(normalize_signature(signature)[0])
        return self.linked[kinds].entry_point if kinds in self.linked else super().get_overload(signature)

    def _link(self, kinds: Any) -> Any:
        """Compile for arguments of these types, or read from the cache, what callers link into their own code."""
        self._load_called(kinds)
        cache = KeptLinked(self.py_func) if isinstance(self._cache, kept.Kept) else None
        made = cache.load_overload(kinds, self.targetctx) if cache else None
        if made is None:
            compiler = copy(self._compiler)
            compiler.pipeline_class = LINKING[compiler.pipeline_class]
            with event.trigger_event("numba:compile", {"dispatcher": self, "args": kinds, "return_type": None}):
                made = compiler.compile(kinds, None)
            if cache:
                cache.save_overload(kinds, made)
        made = made._replace(entry_point=object())
        self.targetctx.insert_user_function(made.entry_point, made.fndesc, [made.library])
        return made

    def _load_called(self, signature: Any) -> None:
        view = view_in(normalize_signature(signature)[0])
        for callee in called(self.py_func):
            callee.load(view)


class Apart(Kernel):
    """A separately compiled kernel, called through a symbol, and compiled at its first use: once or, if it is part of a
    policy, once for each policy that uses it."""

    of_policy: bool  # whether its `state` is the view of a policy
    loaded: dict[Any, Any]  # what was compiled, by view; None: for all

    def symbol(self, view: Any = None) -> str:
        """Return the name of the linker symbol for calls. view: the type of the view of a policy that calls it."""
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        return f"{name}.{hashlib.sha256(str(view).encode()).hexdigest()[:16]}" if self.of_policy else name

    @property
    def address(self) -> int:
        """The address of the machine code."""
        self.load()
        return int(binding.address_of_symbol(self.symbol()))

    def load(self, view: Any = None) -> Any:
        """Compile the kernel or read it from the disk cache, unless it is loaded already. Return what was compiled."""
        key = view if self.of_policy else None
        if key in self.loaded:
            return self.loaded[key]
        signature = self.signature(view if self.of_policy else None)
        self.disable_compile(False)
        self.compile(signature)
        self.disable_compile()
        made, symbol = self.overloads[signature], self.symbol(view)
        self.loaded[key] = made
        binding.add_symbol(symbol, made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
        described = copy(made.fndesc)
        described.mangled_name = symbol
        self.targetctx.remove_user_function(made.entry_point)
        self.targetctx.insert_user_function(made.entry_point, described)  # calls go to the symbol; code is not inlined
        return made

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the call template that numba requests for each call, after loading the kernel."""
        self.load(view_in(args))
        template, *rest = super().get_call_template(args, kws)
        template.unsafe_casting = False
        return template, *rest

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Load the kernel if necessary, then call it from Python."""
        if not self.of_policy:
            self.load()
        return super().__call__(*given, **named)


def kernel(
    *signature: Any, inline: bool = False, from_python: bool = False, **kinds: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function and cache it on disk; without the compiler, return the function unchanged.

    With a signature (result, arguments ...) the function is compiled at its definition: for functions that Python
    calls, which release the GIL. Without one it is compiled into its callers, so that importing a module of helpers
    costs nothing. `inline` forces inlining of the machine code: for small functions on the path of every event. It is
    compiled ahead of time if Python calls it, too (`from_python`), with arguments of the types that `apart` describes.

    Code written by a user checks indices and divisors before it uses them, and never writes a float into an integer
    array. The package's own code omits these checks, since tests cover it.
    """
    if kinds and not from_python:
        raise TypeError(f"kernel() got an unexpected keyword argument {next(iter(kinds))!r}")
    if jit.PLAIN:
        return lambda function: function

    def compiled(function: Callable[..., Any]) -> Any:
        made = _dispatcher(function, forceinline=inline, nogil=bool(signature), no_cfunc_wrapper=not signature)
        made.__class__ = Kernel
        made.kinds, made.from_python = kinds, from_python
        if signature:
            made.compile(signature[0](*signature[1:]))
            made.disable_compile()
        return made

    return compiled


def apart(*, of_policy: bool = False, **kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function separately, at its first use; without the compiler, return the function unchanged.

    Its arguments are records named after their modules (`state`, `world`, `profile`), those in `kinds`, and int64. A
    large part of a policy (`of_policy`) gets the policy's view of the State, and is compiled once for each policy.
    """
    if jit.PLAIN:
        return lambda function: function

    def compiled(function: Callable[..., Any]) -> Any:
        made = _dispatcher(function, nogil=True, no_cfunc_wrapper=True)
        made.__class__ = Apart
        made.kinds, made.from_python, made.of_policy, made.loaded = kinds, False, of_policy, {}
        return made

    return compiled


def _dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    ours = function.__code__.co_filename.startswith(str(jit.PACKAGE))
    options["pipeline_class"] = MACHINE_CODE["ours" if ours else "users"]
    model = "numpy" if ours else "python"
    made = kept.compiled(function, boundscheck=not ours, error_model=model, **options)
    made.linked = {}
    return made


def called(function: Any) -> list[Apart]:
    """Return the separately compiled kernels that a function calls, directly or through kernels compiled into it."""
    found = (value for _, named in parts(function) for _, value in named if isinstance(value, Apart))
    return [*dict.fromkeys(found)]
