"""How a user's policy is compiled: its mistakes have a line, also those that it makes while it runs.

numba gives a line to what code raises itself, and none to an index out of bounds or a division by zero. And neither
numba nor numpy minds when a fraction is cut off.
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

FRACTION = "a float is written into whole numbers; expected a whole number, as of int(...), or memory_f for floats"


@register_pass(mutates_CFG=False, analysis_only=True)
class _WholeNumbers(AnalysisPass):
    """Refuses an assignment of a float to an item of an array of integers."""

    _name = "whole_numbers"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """What the compiler calls once it knows all types. Raises TypingError at the assignment."""
        for block in state.func_ir.blocks.values():
            for kind in (ir.SetItem, ir.StaticSetItem):
                for each in block.find_insts(kind):
                    target, value = state.typemap[each.target.name], state.typemap[each.value.name]
                    if _whole(target) and isinstance(getattr(value, "dtype", value), types.Float):
                        raise TypingError(FRACTION, each.loc)
        return False


def _whole(kind: Any) -> bool:
    return isinstance(kind, types.Array) and isinstance(kind.dtype, types.Integer)


class _Returns(CPUCallConv):
    """Errors have the line that is being compiled, where numba gives them none."""

    def return_user_exc(
        self, builder: Any, exc: Any, exc_args: Any = None, loc: Any = None, func_name: Any = None
    ) -> None:
        """What numba calls where the code may fail."""
        super().return_user_exc(builder, exc, exc_args, loc or self.context.lower.loc, func_name)


class _Context(CPUContext):
    """The context of one function."""

    lower: Any

    @property
    def call_conv(self) -> _Returns:
        """How the function returns."""
        return _Returns(self)


def _refused(state: Any) -> Any:
    return state.trace.error[0] != 0


class _Lower(Lower):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.context.__class__, self.context.lower = _Context, self  # a copy of the process's, for this function alone
        self.context.error_model = PythonErrorModel(self.context.call_conv)

    def lower_inst(self, inst: Any) -> None:
        """What numba calls for every instruction. The function returns from a verb that refused what it wanted."""
        super().lower_inst(inst)
        if not (isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Expr) and inst.value.op == "call"):
            return
        given = [each.name for each in (*inst.value.args, *(value for _, value in inst.value.kws))]
        for name in [each for each in given if hasattr(self.typeof(each), "opened")][:1]:
            self._return_if_refused(self.typeof(name), self.loadvar(name))

    def _return_if_refused(self, kind: Any, view: Any) -> None:
        from backfill.core.errors import Misused  # is made of kernels, and these need the compiler

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
        """What turns it into machine code."""
        return _Lower


class Compiler(CompilerBase):
    """The compiler for what a user wrote."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes, with these."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_WholeNumbers, NopythonTypeInference)
        passes.passes = [(_Lowering if each is NativeLowering else each, what) for each, what in passes.passes]
        passes.finalize()
        return [passes]


class Whole(np.ndarray):
    """The memory of whole numbers that a policy in plain Python writes."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Raises TypeError for a float."""
        if np.asarray(value).dtype.kind == "f":
            raise TypeError(FRACTION)
        super().__setitem__(key, value)
