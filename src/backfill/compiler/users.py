"""Compile a user's policy so that its mistakes, including those at run time, are reported with their line.

numba gives a line to exceptions that the code raises itself, but none to an index out of bounds or a division by zero.
Neither numba nor numpy reports that a fraction is cut off. And some functions of numba drop the read-only flag of an
array.
"""

from typing import Any

import numpy as np
from numba.core import cgutils, ir, types
from numba.core.callconv import CPUCallConv, PythonErrorModel
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.cpu import CPUContext
from numba.core.errors import TypingError
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NopythonTypeInference

FRACTION = "a float is assigned to whole numbers; expected a whole number, such as int(...), or memory_f for floats"
NOT_YOURS = "is read-only; a policy writes only its own memory, state.own, and calls verbs"
REFUSED = "Refused: "  # marks the refusals below among the compiler's output
FORGETFUL = (np.ascontiguousarray, np.asfortranarray, np.nditer)


@register_pass(mutates_CFG=False, analysis_only=True)
class _Refusals(AnalysisPass):
    """Refuses code that is well-typed but wrong: writes to read-only data and fractions that would be cut off."""

    _name = "refusals"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Check every statement once all types are known. Raises TypingError at the statement."""

        def kind_of(variable: Any) -> Any:
            return state.typemap[variable.name]

        for each in (each for block in state.func_ir.blocks.values() for each in block.body):
            wrong = None
            if isinstance(each, ir.SetItem | ir.StaticSetItem):
                wrong = _of_item(kind_of(each.target), kind_of(each.value))
            elif isinstance(each, ir.SetAttr) and hasattr(kind_of(each.target), "unwritable"):
                wrong = kind_of(each.target).unwritable(each.attr)
            elif isinstance(each, ir.Assign) and isinstance(each.value, ir.Expr):
                wrong = _of_expression(each.value, kind_of)
            if wrong:
                raise TypingError(REFUSED + wrong, each.loc)
        return False


def _of_item(target: Any, value: Any) -> str | None:
    """Return the mistake in a write to an item; None if it is correct."""
    if isinstance(target, types.NumpyFlatType) and _is_read_only(target.array_type):
        return f"this array {NOT_YOURS}"
    whole = isinstance(target, types.Array) and isinstance(target.dtype, types.Integer)
    return FRACTION if whole and isinstance(getattr(value, "dtype", value), types.Float) else None


def _of_expression(made: ir.Expr, kind_of: Any) -> str | None:
    """Return the mistake in a call that receives an array of the State; None if it is correct."""
    if made.op != "call":
        return None
    given, key = [*made.args, *(value for _, value in made.kws)], getattr(kind_of(made.func), "typing_key", None)
    if key is np.fill_diagonal and given and _is_read_only(kind_of(given[0])):
        return f"this array {NOT_YOURS}"
    name = f"np.{key.__name__}" if key in FORGETFUL else "a list" if str(key).startswith("list.") else ""
    if not name or not any(_is_read_only(kind_of(each)) for each in given):
        return None
    return f"{name} drops the read-only flag of an array of the state; expected a copy, such as array.copy()"


def _is_read_only(kind: Any) -> bool:
    return isinstance(kind, types.Array) and not kind.mutable


class Misused(BaseException):  # not caught by a policy's `except Exception`
    """A user's policy has just misused a verb; state.trace.error has the details."""


class _Returns(CPUCallConv):
    """The calling convention, which adds the current line to errors that numba raises without one."""

    def return_user_exc(
        self, builder: Any, exc: Any, exc_args: Any = None, loc: Any = None, func_name: Any = None
    ) -> None:
        """Emit the return of an exception; numba calls this for every statement that may fail."""
        super().return_user_exc(builder, exc, exc_args, loc or self.context.lower.loc, func_name)


class _Context(CPUContext):
    """The compilation context of one function."""

    lower: Any

    @property
    def call_conv(self) -> _Returns:
        """The calling convention of the function."""
        return _Returns(self)


def _refused(state: Any) -> Any:
    return state.trace.error[0] != 0


class _Lower(Lower):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.context.__class__, self.context.lower = _Context, self  # a copy of the context, for this function
        self.context.error_model = PythonErrorModel(self.context.call_conv)

    def lower_inst(self, inst: Any) -> None:
        """Compile one instruction; after a call of a verb, add a return if the verb refused the call."""
        super().lower_inst(inst)
        if not (isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Expr) and inst.value.op == "call"):
            return
        given = [each.name for each in (*inst.value.args, *(value for _, value in inst.value.kws))]
        for name in [each for each in given if hasattr(self.typeof(each), "opened")][:1]:
            self._return_if_refused(self.typeof(name), self.loadvar(name))

    def _return_if_refused(self, kind: Any, view: Any) -> None:
        state = self.context.cast(self.builder, view, kind, kind.opened)
        refused = self.context.compile_internal(self.builder, _refused, types.boolean(kind.opened), (state,))
        with cgutils.if_unlikely(self.builder, refused):
            self.call_conv.return_user_exc(
                self.builder, Misused, (), loc=self.loc, func_name=self.func_ir.func_id.func_name
            )


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "lowering_with_lines"

    @property
    def lowering_class(self) -> type:
        """The class that generates the machine code."""
        return _Lower


class Compiler(CompilerBase):
    """The compiler for a user's code."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's usual passes with the two passes of this module."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Refusals, NopythonTypeInference)
        passes.passes = [(_Lowering if each is NativeLowering else each, what) for each, what in passes.passes]
        passes.finalize()
        return [passes]


class Whole(np.ndarray):
    """The memory of whole numbers that a policy in plain Python writes to."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write an item. Raises TypeError for a float."""
        if np.asarray(value).dtype.kind == "f":
            raise TypeError(FRACTION)
        super().__setitem__(key, value)
