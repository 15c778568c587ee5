"""docs/reference/policies.md names what there is: policies, orders, verbs, answers and fields."""

import re
from dataclasses import fields

import pytest

from backfill import verbs
from backfill.compiler.view import READABLE, readable
from backfill.core.policy import Policy
from backfill.core.queue.order import DYNAMIC, FORMULAS, ORDERS
from backfill.policies import TABLE, get

from .examples import ROOT

PAGE = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]


def first_cells(title: str) -> list[str]:
    rows = [line.split(" | ")[0] for line in section(title).splitlines() if line.startswith("| `")]
    return [name for cell in rows for name in re.findall(r"`(\w[\w-]*)", cell)]


@pytest.mark.parametrize("name", TABLE)
def test_every_policy_with_its_answers(name):
    policy = get(name)
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    order = policy.order + (" (dynamic)" if policy.dynamic else "")
    assert row.startswith(f"| `{name}` | {order} | {policy.reserve} | {policy.fill} | ")
    assert row.endswith(f" | {policy.source} |")
    for key, param in policy.params.items():
        value = param.shown(param.default)
        told = f"one of {', '.join(param.choices)}" if param.choices else param.unit
        assert re.search(rf"`{key}` = {value if param.choices else format(value, 'g')},? {re.escape(told)}", row)


def test_no_policy_that_does_not_exist():
    assert first_cells("Policies") == [*TABLE]


def test_every_order_with_its_formula():
    rows = [f"| `{o}` | `{FORMULAS[o]}` | {'dynamic' if i in DYNAMIC else 'static'} |" for i, o in enumerate(ORDERS)]
    assert [line for line in section("Orders").splitlines() if line.startswith("| `")] == rows


def test_every_verb():
    text = section("Verbs")
    told = {name for name in re.findall(r"`(\w+)", text) if name in verbs.__all__}
    assert told == {*verbs.__all__} - {"kernel"}
    assert {*first_cells("Verbs")} <= {*verbs.__all__}


def test_every_field_that_a_policy_may_read():
    rows = [line.split(" | ")[0] for line in section("State").splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert told == {"now", "own.NAME", *(f"{room}.{field}" for room in READABLE for field in readable(room))}


def test_answers_exist():
    answers = {*first_cells("A policy of your own")}
    assert {"order", "params", "memory", "patience"} <= answers <= {field.name for field in fields(Policy)}
