"""Linked lists in the memory of a policy; most know both neighbours of an item.

They hold numbers that are greater by 1, since memory begins as 0: 0 is nobody.
"""

from backfill.compiler.kernel import kernel


@kernel()
def append(previous, following, first, last, which, item):
    """Put an item at the end of a list."""
    previous[item], following[item] = last[which], 0
    if last[which] > 0:
        following[last[which] - 1] = item + 1
    else:
        first[which] = item + 1
    last[which] = item + 1


@kernel()
def unlink(previous, following, first, last, which, item):
    """Take an item out of a list."""
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
    """Take an item out of a list that knows only the following one of each. before: the one in front of it, -1 none."""
    if before < 0:
        first[which] = following[item]
    else:
        following[before] = following[item]
    if last[which] == item + 1:
        last[which] = before + 1
