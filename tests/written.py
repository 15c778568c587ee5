"""Finds who writes which room of the State, by following the State through the source of the package.

A value is followed through names, fields, items, tuples, arguments, results, attributes of objects (by their names) and
functions that are handed on. Each function is walked with what it is called with; what a parameter called `state` is
needs no call. What a name has once held it may hold anywhere in its function, so more may be found than is written,
and a table that is too long is the worst that comes of it. A write by a helper that knows arrays alone (HELPERS) is
its caller's.

Not seen: a room that travels in a container under a computed key together with others, by exec, pickle or ctypes, and
a parameter of another name in a function that nobody here calls.
"""

import ast
from collections import defaultdict
from pathlib import Path

STATE = ("state",)
VIEWS = {"asarray", "ascontiguousarray", "atleast_1d", "atleast_2d", "diagonal", "ravel", "reshape", "squeeze"}
VIEWS |= {"swapaxes", "transpose", "view", "T", "flat", "real"}
PASSED_ON = {"dict", "enumerate", "items", "iter", "list", "next", "pop"}
PASSED_ON |= {"reversed", "set", "sorted", "tuple", "values", "zip"}
IN_PLACE = {"byteswap", "fill", "itemset", "partition", "put", "resize", "setfield", "sort"}
WRITING = {"setattr", "replace_array", *(f"np.{n}" for n in ("copyto", "fill_diagonal", "place", "put", "putmask"))}
HELPERS = {"compiler/items.py", "compiler/record.py", "core/queue/heaps.py", "core/queue/sorter.py"}
NOTHING, UNKNOWN = frozenset(), frozenset([("unknown",)])  # an argument that nobody here gives
UNKNOWN_SHAPE = 99
PARTS = ("core", "worlds", "policies", "compiler")


def writers(root, added=None):
    """Which modules write which room: room -> module -> lines. added: module -> source, beside those of the package."""
    return Program(root, added or {}).writers()


class Program:
    """All modules: their functions, classes, imports, and the records of the State."""

    def __init__(self, root: Path, added):
        paths = [path for part in PARTS for path in sorted((root / part).rglob("*.py"))]
        sources = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths} | added
        self.trees = {name: ast.parse(source) for name, source in sources.items()}
        self.names = {name: {} for name in self.trees}  # module -> name -> value
        self.methods = defaultdict(list)  # name -> functions of that name in any class
        self.records, self.rooms = {}, {}  # record -> field -> kind; room -> kind
        self.heap = defaultdict(frozenset)  # attribute of any object -> value
        self.found = defaultdict(lambda: defaultdict(set))
        self.around = {}  # function within another -> the names of that
        self.known, self.earlier, self.changed = {}, {}, False  # what calls return: in this turn, in the last one
        for module, tree in self.trees.items():
            self._define(module, tree)
        self.rooms = self.records["State"]

    def _define(self, module, tree):
        tables = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("backfill"):
                file = self._file(node.module)
                for alias in node.names:
                    inner = self._file(f"{node.module}.{alias.name}")
                    value = ("module", inner) if inner else ("import", file, alias.name) if file else None
                    if value:
                        self.names[module][alias.asname or alias.name] = frozenset([value])
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
                tables[ast.unparse(node.targets[0])] = node.value
        for node in tree.body if isinstance(tree, ast.Module) else []:
            if isinstance(node, ast.FunctionDef):
                self.names[module][node.name] = frozenset([("function", module, node)])
            elif isinstance(node, ast.ClassDef):
                self.names[module][node.name] = frozenset([("class", module, node)])
                for each in node.body:
                    if isinstance(each, ast.FunctionDef):
                        self.methods[each.name].append(("function", module, each))
            elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("record("):
                name, table = node.value.args[0].value, tables[ast.unparse(node.value.args[1])]
                self.records[name] = {row.elts[0].value: _kind(row.elts[1]) for row in table.elts}

    def _file(self, dotted):
        stem = "/".join(dotted.split(".")[1:])
        return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in self.trees), None)

    def look_up(self, module, name, seen=()):
        """Return what a name of a module stands for."""
        found = set()
        for item in self.names.get(module, {}).get(name, NOTHING):
            if item[0] == "import" and item not in seen:
                found |= self.look_up(item[1], item[2], (*seen, item))
            elif item[0] != "import":
                found.add(item)
        return frozenset(found)

    def writers(self):
        """Walk every function until nothing new is found."""
        while True:
            self.changed, self.earlier, self.known = False, self.known, {}
            for module, tree in self.trees.items():
                Walk(self, module, {}, None).block(tree.body)
                for node in ast.walk(tree):
                    if isinstance(node, ast.FunctionDef):
                        self.call(("function", module, node), [], {}, root=True)
            if not self.changed:
                return {room: {m: sorted(lines) for m, lines in sorted(found.items())} for room, found in
                        sorted(self.found.items())}  # fmt: skip

    def call(self, function, given, named, caller=None, root=False):
        """Walk a function with these arguments. Returns what it returns."""
        _, module, node = function
        arguments = node.args
        places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        every = [*places, *(each.arg for each in arguments.kwonlyargs)]
        unknown = UNKNOWN if root else NOTHING
        names = dict.fromkeys(every, unknown)
        names.update(zip(places, given, strict=False))
        names.update({name: value for name, value in named.items() if name in names})
        for more, rest in ((arguments.vararg, given[len(places) :]), (arguments.kwarg, ())):
            if more is not None:
                names[more.arg] = join(*rest, *(named.values() if more is arguments.kwarg else ()))
        if "state" in names and not (names["state"] - UNKNOWN):
            names["state"] = frozenset([STATE])
        caller = caller if module in HELPERS else None
        key = (node, frozenset(names.items()), caller)
        if key not in self.known:
            before = self.known[key] = self.earlier.get(key, NOTHING)
            walk = Walk(self, module, {**self.around.get(node, {}), **names}, caller)
            for _ in range(2):  # what a later line binds, an earlier one may use in the next turn
                walk.block(node.body)
            self.known[key] = walk.returned
            self.changed |= walk.returned != before
        return self.known[key]

    def keep(self, name, value):
        """An attribute of some object gets a value."""
        if not value <= self.heap[name]:
            self.heap[name] |= value
            self.changed = True

    def write(self, rooms, module, line):
        for room in rooms:
            if room in self.rooms and line not in self.found[room][module]:
                self.found[room][module].add(line)
                self.changed = True


class Walk(ast.NodeVisitor):
    """One function, or the level of a module."""

    def __init__(self, program, module, names, caller):
        self.program, self.module, self.names, self.caller = program, module, names, caller
        self.returned = NOTHING

    def block(self, statements):
        for each in statements:
            self.visit(each)

    def generic_visit(self, node):
        for each in ast.iter_child_nodes(node):
            self.value(each) if isinstance(each, ast.expr) else self.visit(each)

    def visit_FunctionDef(self, node):
        value = frozenset([("function", self.module, node)])
        if not value <= self.program.names[self.module].get(node.name, NOTHING):
            self.program.around[node] = self.names
            self.bind(node.name, value)

    def visit_ClassDef(self, node):
        pass

    def visit_Return(self, node):
        if node.value is not None:
            self.returned = join(self.returned, self.value(node.value))

    def visit_Assign(self, node):
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.assign(node.target, self.value(node.value))

    def visit_AugAssign(self, node):
        self.value(node.value)
        if isinstance(node.target, ast.Name):
            self.wrote(self.value(node.target), node)  # an array is changed in its place; no number is followed
        else:
            self.assign(node.target, NOTHING)

    def visit_For(self, node):
        self.assign(node.target, self.parts(self.value(node.iter)))
        self.block([*node.body, *node.orelse])

    def visit_With(self, node):
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        self.block(node.body)

    def bind(self, name, value):
        self.names[name] = join(self.names.get(name, NOTHING), value)

    def assign(self, target, value):
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)
        elif isinstance(target, ast.Tuple | ast.List):
            for i, each in enumerate(target.elts):
                inside = [item[1][i] for item in value if item[0] == "tuple" and i < len(item[1])]
                self.assign(each, join(*inside, frozenset(item for item in value if item[0] != "tuple")))
        elif isinstance(target, ast.Subscript):
            self.value(target.slice)
            self.wrote(self.value(target.value), target)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value)
            if STATE in owner:
                self.program.write([target.attr], *self.place(target))
            self.wrote(owner, target)
            self.program.keep(target.attr, value)

    def fill(self, container, value):
        """Something is put into a list."""
        if isinstance(container, ast.Name):
            self.bind(container.id, value)
        elif isinstance(container, ast.Attribute):
            self.program.keep(container.attr, value)

    def wrote(self, owner, node):
        """Something of these is written here."""
        for item in owner:
            if item[0] in ("record", "array"):
                self.program.write([item[1]], *self.place(node))
            elif item[0] == "any":  # some field: the one who computed its name writes it
                self.program.write(self.program.rooms, item[1], node.lineno)

    def place(self, node):
        """The module and the line that a write here is told by."""
        return self.caller or (self.module, node.lineno)

    def value(self, node):
        if isinstance(node, ast.Name):
            return self.names[node.id] if node.id in self.names else self.program.look_up(self.module, node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.value(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            self.value(node.slice)
            return self.item(self.value(node.value), node.slice)
        if isinstance(node, ast.Call):
            return self.called(node)
        if isinstance(node, ast.Tuple):
            return frozenset([("tuple", tuple(self.value(each) for each in node.elts))])
        if isinstance(node, ast.List | ast.Set):
            return join(*map(self.value, node.elts))
        if isinstance(node, ast.Dict):
            return join(*map(self.value, node.values))
        if isinstance(node, ast.IfExp):
            self.value(node.test)
            return join(self.value(node.body), self.value(node.orelse))
        if isinstance(node, ast.BoolOp):
            return join(*map(self.value, node.values))
        if isinstance(node, ast.NamedExpr):
            self.assign(node.target, value := self.value(node.value))
            return value
        if isinstance(node, ast.Starred | ast.Await | ast.YieldFrom):
            return self.parts(self.value(node.value))
        if isinstance(node, ast.Yield):
            self.returned = join(self.returned, self.value(node.value) if node.value else NOTHING)
            return NOTHING
        if isinstance(node, ast.Lambda):
            self.program.around[_named(node)] = self.names
            return frozenset([("function", self.module, _named(node))])
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for each in node.generators:
                self.assign(each.target, self.parts(self.value(each.iter)))
                for test in each.ifs:
                    self.value(test)
            return join(*map(self.value, (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)))
        self.generic_visit(node)
        return NOTHING

    def parts(self, value):
        """Return the kind of the items of a loop over these."""
        found = []
        for item in value:
            if item[0] == "array":
                found.append(frozenset([("array", item[1], item[2] - 1)] if item[2] > 1 else []))
            else:
                found.append(join(*item[1]) if item[0] == "tuple" else frozenset([item]))
        return join(*found)

    def item(self, value, index):
        found = []
        for item in value:
            if item[0] == "array":
                left = item[2] - _numbers(index)
                found.append(frozenset([("array", item[1], left)] if left > 0 else []))
            elif item[0] != "tuple":
                found.append(frozenset([item]))
            elif isinstance(index, ast.Constant) and isinstance(index.value, int) and index.value < len(item[1]):
                found.append(item[1][index.value])
            else:
                found.append(join(*item[1]))
        return join(*found)

    def attribute(self, owner, name):
        found, ours = set(), False
        for item in owner:
            if item == STATE:
                ours = True
                if (kind := self.program.rooms.get(name)) and kind[0] == "record":
                    found.add(("record", name, kind[1]))
            elif item[0] == "record":
                ours = True
                kind = self.program.records[item[2]].get(name, ("array", 1) if item[1] == "own" else None)
                if kind and kind[0] != "number":
                    found.add((kind[0], item[1], kind[1]))
            elif item[0] == "any":
                ours = True
                found.add(item)
            elif item[0] == "array":
                ours = True
                found |= {("array", item[1], UNKNOWN_SHAPE)} if name in VIEWS else set()
            elif item[0] == "module":
                found |= self.program.look_up(item[1], name)
        if ours:
            return frozenset(found)
        found |= {item for item in self.program.heap[name] if item[0] != "array" or owner != UNKNOWN}
        for method in self.program.methods[name]:
            if any(ast.unparse(each).endswith("property") for each in method[2].decorator_list):
                found |= self.program.call(method, [], {})
        return frozenset(found)

    def called(self, node):
        given = []
        for each in node.args:
            value = self.value(each)
            given += [value] * (8 if isinstance(each, ast.Starred) else 1)
        named = {each.arg or "**": self.value(each.value) for each in node.keywords}
        self.wrote(named.get("out", NOTHING), node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = given[0] if given else NOTHING
        if ast.unparse(node.func) in WRITING:
            if STATE in first and isinstance(node.args[1], ast.Constant):
                self.program.write([node.args[1].value], *self.place(node))
            self.wrote(first, node)
            return NOTHING
        if name == "getattr":
            texts = [node.args[1].value] if isinstance(node.args[1], ast.Constant) else []
            if texts:
                return join(self.attribute(first, texts[0]), *given[2:])
            return self.any_field(first)
        if name == "partial":
            for item in first:
                if item[0] == "function":
                    self.program.call(item, given[1:], named)
            return first
        if name in ("append", "add", "extend", "appendleft") and isinstance(node.func, ast.Attribute):
            self.fill(node.func.value, join(*given))
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if any(item[0] in ("array", "any") for item in owner):
                if name in IN_PLACE:
                    self.wrote(owner, node)
                return owner if name in VIEWS else NOTHING
            if name == "at" and first:  # np.add.at(array, ...)
                self.wrote(first, node)
            functions = self.attribute(owner, name)
            if not any(item[0] in ("function", "class") for item in functions):
                found = [join(*given) if name in VIEWS or name in PASSED_ON else NOTHING]
                found += [owner if name in PASSED_ON else NOTHING]
                for method in (each for each in self.program.methods[name] if _takes(each[2], len(given), len(named))):
                    own = given if _is_static(method[2]) else [NOTHING, *given]
                    found.append(self.program.call(method, own, named))
                return join(*found)
        else:
            functions = self.value(node.func)
            if not functions and name in PASSED_ON:
                return join(*given)
        return join(*(self.made(item, given, named, node) for item in functions))

    def any_field(self, value):
        """A field of which the name is computed."""
        found = set()
        for item in value:
            if item == STATE:
                found.add(("any", self.module))
            elif item[0] == "any":
                found.add(item)
            elif item[0] == "record":
                kinds = self.program.records[item[2]].values()
                found |= {(kind[0], item[1], kind[1]) for kind in kinds if kind[0] != "number"}
        return frozenset(found)

    def made(self, item, given, named, node):
        """Return the kind of the result of a call of a function or a class."""
        if item[0] == "function":
            return self.program.call(item, given, named, self.place(node))
        if item[0] != "class":
            return NOTHING
        fields = [each.target.id for each in item[2].body if isinstance(each, ast.AnnAssign)]
        for name, value in [*zip(fields, given, strict=False), *named.items()]:
            self.program.keep(name, value)
        for each in item[2].body:
            if isinstance(each, ast.FunctionDef) and each.name in ("__init__", "__post_init__"):
                self.program.call(("function", item[1], each), [NOTHING, *given], named)
        return NOTHING


def join(*values):
    return frozenset().union(*values)


def _kind(node):
    if isinstance(node, ast.Name) and node.id.endswith("T"):
        return ("record", node.id.removesuffix("T"))
    if isinstance(node, ast.Subscript):
        return "array", len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
    return ("number",)


def _named(node):
    """A lambda as a function."""
    if not hasattr(node, "made"):
        body = [ast.copy_location(ast.Return(node.body), node)]
        node.made = ast.FunctionDef("<lambda>", node.args, body, [], None, lineno=node.lineno)
    return node.made


def _numbers(index) -> int:
    """How many dimensions an index takes away; an index that is no number makes a copy or a view, and takes none."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return sum(not isinstance(each, ast.Slice) and not _is_whole(each) for each in parts)


def _is_whole(node) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, ...)


def _takes(node, given: int, named: int) -> bool:
    """Return whether a method can be called with so many arguments."""
    arguments, own = node.args, 0 if _is_static(node) else 1
    most = len(arguments.posonlyargs) + len(arguments.args) - own
    fits = given <= most or arguments.vararg is not None
    return fits and given + named >= most - len(arguments.defaults)


def _is_static(node) -> bool:
    return any(ast.unparse(each) == "staticmethod" for each in node.decorator_list)
