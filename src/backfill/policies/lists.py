"""Linked lists in the memory of a policy; in most of them an item knows both neighbours.

They store item numbers plus 1, since memory starts as 0: 0 means none.
"""

from backfill.compiler.kernel import kernel


@kernel()
def append(previous, following, first, last, which, item):
    """Append an item to a list."""
    previous[item], following[item] = last[which], 0
    if last[which] > 0:
        following[last[which] - 1] = item + 1
    else:
        first[which] = item + 1
    last[which] = item + 1


@kernel()
def unlink(previous, following, first, last, which, item):
    """Remove an item from a list."""
    if previous[item] > 0:
        following[previous[item] - 1] = following[item]
    else:
        first[which] = following[item]
    if following[item] > 0:
        previous[following[item] - 1] = previous[item]
    else:
        last[which] = previous[item]


@kernel()
def unlink_behind(following, first, last, which, before, item):
    """Remove an item from a singly linked list. before: the item in front of it, -1 if none."""
    if before < 0:
        first[which] = following[item]
    else:
        following[before] = following[item]
    if last[which] == item + 1:
        last[which] = before + 1
