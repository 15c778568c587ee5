"""Score the tests by mutation: change one thing at a time in a folder of the program, and see whether a test fails.

    NUMBA_DISABLE_JIT=1 python tools/mutants.py core --count 60 --seed 1 -- tests/laws tests/core

The tests are collected once. Each mutant lives in a fork of that process, in which the code of a function is replaced.
The tests run in an order drawn from the seed, until one fails. This needs the plain form, since compiled code would
have to be compiled anew for each mutant. A test that starts a process tests the unchanged program there, so leave such
tests out.
"""

import ast
import gc
import json
import os
import random
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

SOURCE = Path(__file__).parents[1] / "src"
QUICK_S = 0.5  # of CPU: tests that take longer are left out
CPU_S = 10.0  # after which a test of a mutant is ended
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
CALCULATED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change in one function."""

    path: Path
    function: int  # its first line
    line: int
    what: str
    code: CodeType

    def __str__(self) -> str:
        return f"{self.path.relative_to(SOURCE)}:{self.line} {self.what}"

    def live(self) -> bool:
        """Exchange the code of the function in this process. Returns whether it is there."""
        found = [one for one in gc.get_objects() if isinstance(one, FunctionType) and self._is(one.__code__)]
        for function in found:
            function.__code__ = self.code
        return bool(found)

    def _is(self, code: CodeType) -> bool:
        place = (code.co_filename, code.co_firstlineno, code.co_name)
        return place == (str(self.path), self.function, self.code.co_name)


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the changes that are possible at a node: a description, and the function that makes the change."""
    if isinstance(node, ast.Compare) and (other := COMPARED.get(type(node.ops[0]))):
        yield f"{name(node.ops[0])} becomes {name(other())}", lambda: node.ops.__setitem__(0, other())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and (other := CALCULATED.get(type(node.op))):
        yield f"{name(node.op)} becomes {name(other())}", lambda: setattr(node, "op", other())
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{name(node.op)} becomes {name(other())}", lambda: setattr(node, "op", other())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield (
            "not is left out",
            lambda: setattr(node, "op", ast.UAdd()) or setattr(node, "operand", truth(node.operand)),
        )
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value} becomes {node.value + 1}", lambda: setattr(node, "value", node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield f"{node.value} becomes {not node.value}", lambda: setattr(node, "value", not node.value)
    body = getattr(node, "body", None)
    for i, one in enumerate(body if isinstance(body, list) else []):
        call = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
        stored = isinstance(one, ast.Assign) and not isinstance(one.targets[0], ast.Name | ast.Tuple)
        if call or stored or isinstance(one, ast.AugAssign | ast.Break):
            gap = ast.copy_location(ast.Pass(), one)
            yield f"{ast.unparse(one)[:50]!r} is left out", lambda i=i, gap=gap: body.__setitem__(i, gap)


def name(operator: ast.AST) -> str:
    """The name of an operator, as Python's grammar has it."""
    return type(operator).__name__


def truth(node: ast.expr) -> ast.expr:
    """The expression as a bool."""
    return ast.copy_location(ast.Call(ast.Name("bool", ast.Load()), [node], []), node)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions of a module, and those in them."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes that run with a function: not its decorators and defaults, nor the functions in it."""
    todo: list[ast.AST] = [function]
    while todo:
        node = todo.pop(0)
        yield node
        below = node.body if node is function else list(ast.iter_child_nodes(node))
        todo += [one for one in below if not isinstance(one, ast.FunctionDef | ast.ClassDef)]


def count(path: Path) -> int:
    """How many mutants a file has."""
    return sum(
        len(list(changes(node))) for function in functions(ast.parse(path.read_text())) for node in inside(function)
    )


def mutant(path: Path, number: int) -> Mutant:
    """One mutant of a file, by its number."""
    tree = ast.parse(path.read_text())
    for function in functions(tree):
        for node in inside(function):
            for what, change in changes(node):
                if number == 0:
                    change()
                    ast.fix_missing_locations(tree)
                    first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
                    code = code_of(compile(tree, str(path), "exec"), first, function.name)
                    return Mutant(path, first, getattr(node, "lineno", first), what, code)
                number -= 1
    raise IndexError(number)


def code_of(code: CodeType, line: int, named: str) -> CodeType:
    """The code of the function that begins in a line."""
    todo = [code]
    while todo:
        one = todo.pop()
        if (one.co_firstlineno, one.co_name) == (line, named):
            return one
        todo += [each for each in one.co_consts if isinstance(each, CodeType)]
    raise LookupError(f"{named} in line {line}")


def sample(folder: str, seed: int, size: int) -> list[Mutant]:
    """Mutants of the files of a folder, each drawn with the same chance."""
    paths = sorted((SOURCE / "backfill" / folder).rglob("*.py"))
    every = [(path, number) for path in paths for number in range(count(path))]
    return [mutant(*one) for one in random.Random(seed).sample(every, size)]


class Scores:
    """A plugin of pytest that runs the collected tests for each mutant in place of once."""

    def __init__(self, mutants: list[Mutant], seed: int, tests: int) -> None:
        self.mutants, self.seed, self.tests = mutants, seed, tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Say of each mutant which test kills it."""
        items = [*session.items]
        random.Random(self.seed).shuffle(items)
        items = items[: self.tests]
        serve = in_fork(lambda: [is_quick(item) for item in items])
        items = [item for item, serves in zip(items, serve, strict=True) if serves]
        killed = 0
        for one in self.mutants:
            verdict = in_fork(lambda one=one: first_failure(one, items))
            killed += not verdict.startswith("lives")
            print(f"{verdict}: {one}", flush=True)
        print(f"{killed} of {len(self.mutants)} mutants are killed by {len(items)} tests (seed {self.seed})")
        return True


def in_fork(work: Callable[[], Any]) -> Any:
    """Return the result of a function that is called in a fork of this process, with its output discarded."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        os.write(theirs, json.dumps(work()).encode())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as said:
        found = said.read()
    os.waitpid(child, 0)
    return json.loads(found or '"killed by a loop or a crash"')


def first_failure(one: Mutant, items: list[pytest.Item]) -> str:
    """Return what became of a mutant."""
    if not one.live():
        return "lives, never loaded"
    for item in items:
        signal.setitimer(signal.ITIMER_PROF, CPU_S)  # the signal ends the process
        if fails(item):
            return f"killed by {item.nodeid}"
    return "lives"


def is_quick(item: pytest.Item) -> bool:
    """Whether a test passes, and soon."""
    begin = time.process_time()
    return not fails(item) and time.process_time() - begin < QUICK_S


def fails(item: pytest.Item) -> bool:
    """Whether a test fails."""
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def main() -> int:
    """Run the tests that are named for each mutant of a sample."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="of the package backfill, such as core")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=int, default=sys.maxsize, help="at most so many, drawn from the seed")
    parser.add_argument("words", nargs="+", help="for pytest, after --")
    asked = parser.parse_args()
    for path in (SOURCE / "backfill" / asked.folder).rglob("*.py"):
        import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    words = ["-q", "-p", "no:cacheprovider", "-n", "0", *asked.words]
    return int(
        pytest.main(words, plugins=[Scores(sample(asked.folder, asked.seed, asked.count), asked.seed, asked.tests)])
    )


if __name__ == "__main__":
    sys.exit(main())
