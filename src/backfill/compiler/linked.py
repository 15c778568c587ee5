"""Code that is only linked into that of its callers, and machine code of a function with all that it links.

numba makes machine code of every function that it compiles, also of one that is only called by others, and links what
it has optimised into each caller, where all of it is optimised again. So a function is optimised at every level above
it. The code that is only linked is not: it is typed and translated once, kept on disk in that form, and optimised where
it ends up, as a part of a function with machine code.

There it has no other callers. numba lets LLVM believe that it may have some; here it is internal, so LLVM may insert it
where it is called, and leave out arguments that it does not use and checks of results that are always the same.
"""

from typing import Any

from llvmlite import binding, ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, CompileResult, compile_result
from numba.core.compiler_lock import require_global_compiler_lock

from backfill.compiler import users
from backfill.compiler.kept import Kept, Results


class _Library(JITCodeLibrary):
    def add_ir_module(self, module: Any) -> None:
        """Add the code of functions, without zeros in the places for errors of calls: only errors are read there."""
        for first in (function.blocks[0] for function in module.functions if function.blocks):
            places = {each for each in first.instructions if each.name.startswith("excinfo")}
            first.instructions[:] = [
                each
                for each in first.instructions
                if not (isinstance(each, ir.instructions.StoreInstr) and each.operands[1] in places)
            ]
        super().add_ir_module(module)


class LinkedLibrary(_Library):
    """The code of a function and of what it calls, neither optimised as a whole nor turned into machine code."""

    def finalize(self) -> None:
        """Add the code of what is called."""
        require_global_compiler_lock()
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """Return what the disk cache keeps."""
        return self.name, self._get_module_for_linking().as_bitcode()

    @classmethod
    def read(cls, codegen: Any, name: str, bitcode: bytes) -> "LinkedLibrary":
        """Return a library that the disk cache has kept."""
        made = cls(codegen, name)
        made._final_module = made._shared_module = binding.parse_bitcode(bitcode)
        made._finalize_dynamic_globals()
        made._finalized = True
        return made


class MachineLibrary(_Library):
    """The machine code of a function and of what it calls."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            # numba looks for functions that count references by their names
            if function.linkage == binding.Linkage.linkonce_odr and not function.name.startswith("NRT_"):
                function.linkage = "internal"
        super()._optimize_final_module()


class _ToMachineCode(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        """Return the passes of the compiler that this is mixed into, which then make such a library."""
        state = self.state
        state.library = MachineLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes: list[Any] = super().define_pipelines()
        return passes


class _ToLink(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        """Return the passes of the compiler that this is mixed into, which then make a library to be linked."""
        state = self.state
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        passes: list[Any] = super().define_pipelines()
        return passes


class _Compiler(_ToMachineCode, Compiler):
    pass


class _UsersCompiler(_ToMachineCode, users.Compiler):
    pass


class _Linking(_ToLink, Compiler):
    pass


class _UsersLinking(_ToLink, users.Compiler):
    pass


# compilers of the package's own code and of users' code
MACHINE_CODE = {"ours": _Compiler, "users": _UsersCompiler}
LINKING = {_Compiler: _Linking, _UsersCompiler: _UsersLinking}


class _LinkedResults(Results):
    def rebuild(self, context: Any, payload: Any) -> CompileResult:
        """Return what was compiled, as the cache has kept it."""
        (name, bitcode), fndesc, environment, signature, objectmode, lifted, annotation, reload, others = payload
        for again in reload:
            again()
        return compile_result(
            target_context=context,
            typing_context=context.typing_context,
            library=LinkedLibrary.read(context.codegen(), name, bitcode),
            environment=environment,
            fndesc=fndesc,
            type_annotation=annotation,
            signature=signature,
            objectmode=objectmode,
            lifted=lifted,
            reload_init=reload,
            referenced_envs=others,
        )


class KeptLinked(Kept):
    """The disk cache of such code."""

    _impl_class = _LinkedResults
    form = "linked"
