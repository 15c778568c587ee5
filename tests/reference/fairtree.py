"""Fair Tree and the classic fair-share factor, as their pages describe them: recursive, in exact fractions.

Source: slurm.schedmd.com/fair_tree.html and classic_fair_share.html; fair_tree.c of Slurm 22.05.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf


@dataclass(frozen=True)
class Node:
    """An association; the first one is root, and each account stands before what is below it."""

    parent: int  # -1 for root
    user: bool
    shares: int | None  # None: those of the parent
    usage: Fraction = Fraction(0)  # its own and that of all below it


def over(tree: Sequence[Node], i: int) -> int:
    """The nearest account above with shares of its own."""
    above = tree[i].parent
    while above > 0 and tree[above].shares is None:
        above = tree[above].parent
    return max(above, 0)


def level(tree: Sequence[Node], i: int) -> Fraction | float:
    """Its share among its siblings divided by its usage among them."""
    node, above = tree[i], over(tree, i)
    if node.shares is None:
        return inf
    if node.shares == 0:
        return Fraction(0)
    if node.usage == 0:
        return inf
    siblings = [other for j, other in enumerate(tree) if j > 0 and over(tree, j) == above]
    shares = Fraction(node.shares, sum(other.shares or 0 for other in siblings))
    return shares / (node.usage / tree[above].usage)


def fair_tree(tree: Sequence[Node]) -> dict[int, Fraction]:
    """User association -> its rank, counted down from the number of users, as a share of that number."""
    users = sum(node.user for node in tree)
    ranked: list[tuple[int, bool]] = []  # users from best to worst, and whether each ties with the one before it

    def rank(accounts: list[int], tied: bool) -> None:
        below = [i for i, node in enumerate(tree) if i > 0 and over(tree, i) in accounts]
        below = [i for i in below if tree[i].user or tree[i].shares is not None]
        before = None
        for value in sorted({level(tree, i) for i in below}, reverse=True):
            for i in [i for i in below if level(tree, i) == value and tree[i].user]:
                ranked.append((i, tied if before is None else before == value))
                before = value
            if merged := [i for i in below if level(tree, i) == value and not tree[i].user]:
                rank(merged, tied if before is None else before == value)
                before = value

    rank([0], False)
    found: dict[int, Fraction] = {}
    last = Fraction(1)
    for place, (i, tied) in enumerate(ranked):
        last = last if tied else Fraction(users - place, users)
        found[i] = last
    return found


def classic(tree: Sequence[Node], damping: int = 1) -> dict[int, float]:
    """User association -> 2^-(effective usage / normalized shares / damping)."""
    total = tree[0].usage

    def facts(i: int) -> tuple[Fraction, Fraction]:
        """Normalized shares and effective usage."""
        if i == 0:
            return Fraction(1), Fraction(0)
        node, above = tree[i], over(tree, i)
        shares, usage = facts(above)
        if node.shares is None:
            return shares, usage
        siblings = [other for j, other in enumerate(tree) if j > 0 and over(tree, j) == above]
        whole = sum(other.shares or 0 for other in siblings)
        part = Fraction(node.shares, whole) if whole else Fraction(0)
        own = node.usage / total if total else Fraction(0)
        return shares * part, own if above == 0 else own + (usage - own) * part

    found = {}
    for i, node in enumerate(tree):
        if node.user:
            shares, usage = facts(i)
            found[i] = 2.0 ** -float(usage / shares / damping) if shares else 0.0
    return found
