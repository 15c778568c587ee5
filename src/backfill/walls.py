"""Check the source of a policy before it runs: which fields it reads and writes, with file and line.

The pass, and every function of its user that receives the state, is walked once. A value is followed from the state
through names, slices, tuples, arguments and results; what is lost on the way (in a list, in an attribute) is caught at
run time, by the types of compiled code and by the read-only arrays of plain Python (compiler/view.py).
"""

import ast
import inspect
import linecache
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numba import types

from backfill.compiler.explain import is_users, no_field
from backfill.compiler.users import NOT_YOURS
from backfill.compiler.view import FIELDS, READABLE, of_own
from backfill.core.policy import Policy
from backfill.model.errors import PolicyError, at

IN_PLACE = {"byteswap", "fill", "itemset", "partition", "put", "resize", "setfield", "setflags", "sort"}
SAME_MEMORY = {"diagonal", "ravel", "reshape", "squeeze", "swapaxes", "transpose", "view", "__array__"}
OF_ARRAYS = {"dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides"}  # numbers, not the array's memory
WRITING = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "shuffle"}  # functions of numpy
VIEWING = {"asarray", "ascontiguousarray", "asfortranarray", "atleast_1d", "atleast_2d", "diagonal", "flip", "ravel"}
VIEWING |= {"reshape", "squeeze", "transpose"}
UNKNOWN_SHAPE = 99


@dataclass(frozen=True, slots=True)
class _State:
    """The state itself."""


@dataclass(frozen=True, slots=True)
class _Room:
    """A record of the state, or the policy's own one."""

    name: str


@dataclass(frozen=True, slots=True)
class _Array:
    """An array of the state, or a view of one. mine: memory of the policy."""

    origin: str  # its path from the state
    dimensions: int
    mine: bool = False


@dataclass(frozen=True, slots=True)
class _Tuple:
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Python:
    """An object that is known before the pass: a global, or the owner of a method."""

    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class _Inner:
    """A function that is defined inside another one."""

    node: ast.FunctionDef | ast.Lambda
    names: dict[str, Any]  # of the enclosing function


def check_policy(policy: Policy, trees: Mapping[str, ast.Module] | None = None) -> None:
    """Raise PolicyError if a policy would write memory of others, or reads what the state does not have.

    trees: source by file name, if it was read already. A function without source is not checked.
    """
    decide = policy.decide
    if not isinstance(decide, FunctionType | MethodType):
        decide = getattr(decide, "__call__", decide)  # noqa: B004 (the method is what is wanted)
    _Check(policy, trees or {}).call(decide, [_State()])


@dataclass(eq=False, slots=True)
class _Check:
    policy: Policy
    trees: Mapping[str, ast.Module]
    known: dict[Any, Any] = field(default_factory=dict)  # (code, arguments) -> result; None while it is being computed

    def call(self, function: Any, given: Sequence[Any], named: Mapping[str, Any] | None = None) -> Any:
        """Walk a user's function with these arguments. Return its result, as far as it belongs to the state."""
        if isinstance(function, MethodType):
            function, given = function.__func__, [_Python(function.__self__), *given]
        if not isinstance(function, FunctionType) or not is_users(function.__code__.co_filename):
            return None
        node = self._source(function)
        if node is None:
            return None
        names = _bound(node, given, named or {})
        key = (function.__code__, tuple(sorted((name, str(value)) for name, value in names.items())))
        if key not in self.known:
            self.known[key] = None
            outer = dict(_closed_over(function))
            walk = _Walk(self, function.__code__.co_filename, function.__globals__, {**outer, **names})
            self.known[key] = walk.body(node)
        return self.known[key]

    def _source(self, function: FunctionType) -> ast.FunctionDef | ast.Lambda | None:
        code = function.__code__
        tree = self.trees.get(code.co_filename)
        if tree is None:
            linecache.checkcache(code.co_filename)
            try:
                tree = ast.parse("".join(linecache.getlines(code.co_filename, function.__globals__)))
            except (SyntaxError, ValueError):  # edited since it was imported
                return None
        for node in ast.walk(tree):
            if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                return node
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if first == code.co_firstlineno:
                    return node
        return None


def _closed_over(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not bound yet
            yield name, _Python(cell.cell_contents)


def _bound(node: ast.FunctionDef | ast.Lambda, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a function with their arguments."""
    places = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    every = [*places, *(each.arg for each in node.args.kwonlyargs)]
    return {**dict.fromkeys(every), **dict(zip(places, given, strict=False)), **named}


def _either(one: Any, other: Any) -> Any:
    """Return the value of an expression with two possible values, preferably the one that belongs to the state."""
    for value in (one, other):
        if isinstance(value, _State | _Room | _Array | _Tuple) and not (isinstance(value, _Array) and value.mine):
            return value
    return one if one is not None else other


class _Walk(ast.NodeVisitor):
    """One function: its statements in order, loops twice, and what each name holds."""

    def __init__(self, check: _Check, file: str, module: Mapping[str, Any], names: dict[str, Any]) -> None:
        self.check, self.file, self.module, self.names = check, file, module, names
        self.found: Any = None  # its result

    def body(self, node: ast.FunctionDef | ast.Lambda) -> Any:
        """Walk a function body. Return its result."""
        if isinstance(node, ast.Lambda):
            return self.value(node.body)
        self.block(node.body)
        return self.found

    def refuse(self, node: ast.AST, what: str) -> None:
        raise PolicyError(at(self.file, getattr(node, "lineno", None), what))

    def refuse_write(self, node: ast.AST, target: ast.AST, origin: str) -> None:
        text = ast.unparse(target)
        self.refuse(node, f"{text} {NOT_YOURS}" if text == origin else f"{text} is {origin}, which {NOT_YOURS}")

    # Statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for each in statements:
            self.visit(each)

    def generic_visit(self, node: ast.AST) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                self.value(each)
            else:
                self.visit(each)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.names[node.name] = _Inner(node, self.names)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.found = _either(self.found, self.value(node.value))

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.value(node.value)
        if isinstance(node.target, ast.Name):
            held = self.names.get(node.target.id)
            if isinstance(held, _Array) and not held.mine:  # changes the array in place
                self.refuse_write(node, node.target, held.origin)
        else:
            self.assign(node.target, None)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names.pop(target.id, None)
            else:
                self.assign(target, None)

    def visit_If(self, node: ast.If) -> None:
        self.value(node.test)
        self.branches(node.body, node.orelse)

    def visit_While(self, node: ast.While) -> None:
        for _ in range(2):  # a name may carry a value from one iteration to the next
            self.value(node.test)
            self.branches(node.body, [])
        self.block(node.orelse)

    def visit_For(self, node: ast.For) -> None:
        for _ in range(2):
            self.assign(node.target, self.item_of(node.iter))
            self.branches(node.body, [])
        self.block(node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.branches(handler.body, [])
        self.block([*node.orelse, *node.finalbody])

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        self.block(node.body)

    def branches(self, one: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
        """Walk two alternative blocks: afterwards a name may hold what it holds after either of them."""
        before = dict(self.names)
        self.block(one)
        after = dict(self.names)
        self.names.clear()
        self.names.update(before)
        self.block(other)
        for name in {*after, *self.names}:
            self.names[name] = _either(after.get(name), self.names.get(name))

    # Writing

    def assign(self, target: ast.expr, value: Any) -> None:
        """Assign a value: bind a name, and reject targets that belong to the state."""
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Starred):
            self.assign(target.value, None)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value.parts if isinstance(value, _Tuple) and len(value.parts) == len(target.elts) else ()
            for i, each in enumerate(target.elts):
                self.assign(each, parts[i] if parts else None)
        elif isinstance(target, ast.Subscript):
            self.value(target.slice)
            self.write_item(target)
        elif isinstance(target, ast.Attribute):
            self.write_field(target)

    def write_item(self, target: ast.Subscript) -> None:
        held = self.value(target.value, written=True)
        if isinstance(held, _Array) and not held.mine:
            self.refuse_write(target, target, f"{held.origin}[{_index(target.slice)}]")
        elif isinstance(held, _State | _Room):
            self.refuse_write(target, target, ast.unparse(target))

    def write_field(self, target: ast.Attribute) -> None:
        held = self.value(target.value, written=True)
        if held == _Room("own"):
            self.field(target, "own")
            self.refuse(target, of_own(target.attr, self.check.policy.layout))
        elif isinstance(held, _Array):
            self.refuse_write(target, target, f"{held.origin}.{target.attr}")
        elif isinstance(held, _State | _Room):
            place = "state" if isinstance(held, _State) else f"state.{held.name}"
            self.refuse_write(target, target, f"{place}.{target.attr}")

    # Reading

    def value(self, node: ast.expr, written: bool = False) -> Any:
        """Return the part of the state that an expression denotes, and check everything inside it.

        written: it is the target of a write, so the write is reported rather than a read.
        """
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return self.names[node.id]
            return _Python(self.module[node.id]) if node.id in self.module else None
        if isinstance(node, ast.Attribute):
            return self.attribute(node, written)
        if isinstance(node, ast.Subscript):
            return self.item(node, written)
        if isinstance(node, ast.Call):
            return self.called(node)
        if isinstance(node, ast.Tuple):
            return _Tuple(tuple(self.value(each) for each in node.elts))
        if isinstance(node, ast.IfExp):
            self.value(node.test)
            return _either(self.value(node.body), self.value(node.orelse))
        if isinstance(node, ast.BoolOp):
            found = None
            for each in node.values:
                found = _either(found, self.value(each))
            return found
        if isinstance(node, ast.NamedExpr):
            value = self.value(node.value)
            self.assign(node.target, value)
            return value
        if isinstance(node, ast.Starred):
            self.value(node.value)
            return None
        if isinstance(node, ast.Lambda):
            inner = _Inner(node, self.names)
            self.inner(inner, [])
            return inner
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self.comprehension(node)
            return None
        self.generic_visit(node)
        return None

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        before = dict(self.names)
        for each in node.generators:
            self.assign(each.target, self.item_of(each.iter))
            for test in each.ifs:
                self.value(test)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.value(part)
        self.names.clear()
        self.names.update(before)

    def item_of(self, node: ast.expr) -> Any:
        """Return the value that a loop over an expression yields."""
        held = self.value(node)
        if isinstance(held, _Array) and held.dimensions > 1:
            return replace(held, origin=f"{held.origin}[...]", dimensions=held.dimensions - 1)
        return None

    def attribute(self, node: ast.Attribute, written: bool) -> Any:
        held, name = self.value(node.value, written), node.attr
        if isinstance(held, _State):
            if name in READABLE or name == "own":
                return _Room(name)
            if name != "now":
                self.refuse(node, no_field(name, "", self.check.policy.layout))
        elif isinstance(held, _Room):
            return self.field(node, held.name)
        elif isinstance(held, _Array) and name not in OF_ARRAYS:
            turned = held.dimensions if name == "T" else UNKNOWN_SHAPE
            return replace(held, origin=f"{held.origin}.{name}", dimensions=turned)
        elif isinstance(held, _Python):
            inner = inspect.getattr_static(held.value, name, None)
            if isinstance(inner, FunctionType) and not isinstance(held.value, ModuleType | type):
                inner = MethodType(inner, held.value)
            return None if inner is None else _Python(inner)
        return None

    def field(self, node: ast.Attribute, room: str) -> Any:
        name = node.attr
        if room == "own":
            kinds = {named.name: named.kind for named in self.check.policy.layout}
            if name not in kinds:
                self.refuse(node, no_field(name, room, self.check.policy.layout))
            return None if kinds[name] == "param" else _Array(f"state.own.{name}", 1, mine=True)
        if name not in READABLE[room].split():
            self.refuse(node, no_field(name, room, self.check.policy.layout))
        kind = FIELDS[room][name]
        return _Array(f"state.{room}.{name}", kind.ndim) if isinstance(kind, types.Array) else None

    def item(self, node: ast.Subscript, written: bool) -> Any:
        held = self.value(node.value, written)
        self.value(node.slice)
        if isinstance(held, _Tuple) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return held.parts[node.slice.value] if -len(held.parts) <= node.slice.value < len(held.parts) else None
        if isinstance(held, _State | _Room) and not written:
            place = "state" if isinstance(held, _State) else f"state.{held.name}"
            names = [*READABLE, "own"] if isinstance(held, _State) else READABLE.get(held.name, "").split()
            if place == "state.own":
                names = [named.name for named in self.check.policy.layout]
            near = f"; did you mean state.free.nodes[{_index(node.slice)}]?" if place == "state.free" else ""
            self.refuse(node, f"{place} is not an array; its fields: {', '.join(names) or 'none'}{near}")
        if isinstance(held, _State | _Room):
            return _Array(ast.unparse(node), UNKNOWN_SHAPE)
        if not isinstance(held, _Array):
            return None
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(each, ast.List | ast.Compare) for each in indices):
            return None  # a list or a mask makes a copy
        whole = sum(isinstance(each, ast.Slice) or _is(each, None) or _is(each, ...) for each in indices)
        left = held.dimensions - (len(indices) - whole)
        return replace(held, origin=f"{held.origin}[{_index(node.slice)}]", dimensions=left) if left > 0 else None

    # Calling

    def called(self, node: ast.Call) -> Any:
        given = [self.value(each) for each in node.args]
        named = {each.arg: self.value(each.value) for each in node.keywords if each.arg}
        for each in node.keywords:
            if each.arg is None:
                self.value(each.value)
        out = named.get("out")
        for each in out.parts if isinstance(out, _Tuple) else (out,):
            self.keep_unwritten(node, each, f"out={getattr(each, 'origin', '')}")
        if isinstance(node.func, ast.Attribute):
            held = self.value(node.func.value)
            if isinstance(held, _Array):
                return self.method(node, node.func.attr, held)
            if isinstance(held, _Python) and isinstance(held.value, np.ufunc) and node.func.attr == "at" and given:
                self.keep_unwritten(node, given[0], f"{ast.unparse(node.func)}({getattr(given[0], 'origin', '')}, ...)")
        what = self.value(node.func)
        if isinstance(what, _Inner):
            return self.inner(what, given, named)
        if not isinstance(what, _Python):
            return None
        return self.function(node, what.value, given, named)

    def method(self, node: ast.Call, name: str, array: _Array) -> Any:
        """Check a call of a method of an array of the state."""
        if name in IN_PLACE:
            self.keep_unwritten(node, array, f"{array.origin}.{name}(...)")
        return replace(array, dimensions=UNKNOWN_SHAPE) if name in SAME_MEMORY else None

    def function(self, node: ast.Call, function: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Check a call of a function that is known by name."""
        inner = getattr(function, "py_func", function)
        name, home = getattr(inner, "__name__", ""), getattr(inner, "__module__", "") or ""
        first = given[0] if given else None
        if (home.startswith("numpy") or isinstance(function, np.ufunc)) and given:
            if name in WRITING or (isinstance(node.func, ast.Attribute) and node.func.attr in WRITING):
                self.keep_unwritten(node, first, f"{ast.unparse(node.func)}({getattr(first, 'origin', '')}, ...)")
            return first if name in VIEWING and isinstance(first, _Array) else None
        gets_state = any(isinstance(each, _State | _Room | _Array) for each in (*given, *named.values()))
        if not gets_state:
            return None
        if home.startswith("backfill.core") and id(function) not in _verbs():
            self.refuse(node, f"{name} is not for policies; expected one of the verbs of backfill.verbs")
        if name in ("arrange_by", "arrange_waiting") and not self.check.policy.sorts:
            self.refuse(node, f"{name} sorts the queue; expected @policy({self.check.policy.name!r}, sorts=True, ...)")
        if function in (setattr, delattr) and len(node.args) > 1:
            self.refuse_write(node, node, f"{function.__name__} on the state")
        if isinstance(inner, type) or not callable(inner):
            return None
        if not isinstance(inner, FunctionType | MethodType):
            inner = getattr(inner, "__call__", inner)  # noqa: B004 (the method is what is wanted)
        return self.check.call(inner, given, named)

    def inner(self, function: _Inner, given: Sequence[Any], named: Mapping[str, Any] | None = None) -> Any:
        """Walk a function defined inside this one: it sees the names around it."""
        key = (id(function.node), str(given), str(named))
        if key not in self.check.known:
            self.check.known[key] = None
            names = {**function.names, **_bound(function.node, given, named or {})}
            self.check.known[key] = _Walk(self.check, self.file, self.module, names).body(function.node)
        return self.check.known[key]

    def keep_unwritten(self, node: ast.Call, value: Any, how: str) -> None:
        if isinstance(value, _Array) and not value.mine:
            self.refuse(node, f"{how} writes to {value.origin}, which {NOT_YOURS}")


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _index(node: ast.expr) -> str:
    return ", ".join(ast.unparse(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node]))


def _verbs() -> set[int]:
    from backfill import verbs

    return {id(value) for value in vars(verbs).values()}
