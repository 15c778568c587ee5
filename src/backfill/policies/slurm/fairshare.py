"""Usage of associations with decay, and the fair-share factor: Fair Tree, or the classic formula.

Source: priority_multifactor.c and fair_tree.c of Slurm 22.05.8.
Associations are numbered with each parent before its children; 0 is root. `over` is the nearest association above that
has shares of its own: children of an account with `parent` shares count as children of that. Those that are ranked
below an association a are child[child_first[a]:child_first[a + 1]]: users, and accounts with shares of their own.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.policies.slurm.ends import SECOND
from backfill.policies.slurm.minutes import forget_minutes, use_minutes

PARENT = -1  # shares: those of the parent


@kernel(inline=True)
def decay_per_second(state):
    """Return the factor by which usage shrinks each second."""
    half_life = state.own.PriorityDecayHalfLife * 60.0
    return 1.0 - 0.693 / half_life if half_life > 0.0 else 1.0


@kernel()
def use(state, run, begin, end):
    """Charge a run for the time from `begin` to `end` to its association and to those above it."""
    own, job = state.own, state.runs.job[run]
    who, length = own.association[job], float((end - begin) // SECOND)
    if who < 0 or length <= 0.0:
        return
    decayed = length * decay_per_second(state) ** length
    use_minutes(state, job, length, decayed)
    amount = decayed * own.charge[job]
    while who >= 0:
        own.usage[who] += amount
        who = own.above[who]


@kernel()
def forget(state, seconds):
    """Let all usage decay for so many seconds."""
    factor = decay_per_second(state) ** seconds
    for who in range(len(state.own.usage)):
        state.own.usage[who] *= factor
    forget_minutes(state, factor)


@kernel()
def reset_until(state, now):
    """Forget all usage if a PriorityUsageResetPeriod has ended since the last calculation."""
    own, over = state.own, False
    while own.reset_at[0] < len(own.resets) and own.resets[own.reset_at[0]] <= now:
        over |= own.resets[own.reset_at[0]] > own.accounted[0]
        own.reset_at[0] += 1
    if over:
        own.usage[:] = 0.0
        forget_minutes(state, 0.0)


@kernel()
def rank_all(state):
    """Write the fair-share factor of every association to `share`."""
    own = state.own
    if own.fair_tree[0] != 0:
        users = np.int64(0)
        for who in range(len(own.over)):
            users += own.is_user[who]
        levels = level_values(state)
        rank_below(state, levels, np.zeros(1, np.int64), users)
    else:
        rank_classic(state)


@kernel()
def level_values(state):
    """Return shares among siblings divided by usage among siblings, for each association."""
    own, count = state.own, len(state.own.over)
    found, sums = np.zeros(count), np.zeros(count)
    for who in range(1, count):
        if own.shares[who] != PARENT:
            sums[own.over[who]] += own.shares[who]
    for who in range(1, count):
        if own.shares[who] == PARENT:
            found[who] = np.inf
        elif own.shares[who] > 0:
            above = own.usage[own.over[who]]
            used = own.usage[who] / above if above > 0.0 else 0.0
            found[who] = own.shares[who] / sums[own.over[who]] / used if used > 0.0 else np.inf
    return found


@kernel()
def rank_below(state, levels, accounts, users):
    """Rank the users below these accounts, depth first, the highest level value first.

    A stack holds the levels of the tree that are not finished: each is a list of siblings in order, and whether the
    account above was tied with the sibling before it.
    """
    own, count = state.own, len(state.own.over)
    lists, first, size = np.empty(count + 1, np.int64), np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    at, tied_above = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    size[0] = children(state, levels, accounts, lists, 0)
    depth, rank, next_rank = 0, users, users
    while depth >= 0:
        i = first[depth] + at[depth]
        if at[depth] == size[depth]:
            depth -= 1
            continue
        who = lists[i]
        tied = tied_above[depth] != 0 if at[depth] == 0 else levels[lists[i - 1]] == levels[who]
        at[depth] += 1
        if own.is_user[who] != 0:
            if not tied:
                rank = next_rank
            own.share[who] = rank / users
            next_rank -= 1
            continue
        merged = 1
        while at[depth] < size[depth] and levels[lists[i + merged]] == levels[who]:
            merged += 1
            at[depth] += 1
        begin = first[depth] + size[depth]
        size[depth + 1] = children(state, levels, lists[i : i + merged].copy(), lists, begin)
        first[depth + 1], at[depth + 1], tied_above[depth + 1] = begin, 0, np.int64(tied)
        depth += 1


@kernel()
def children(state, levels, accounts, lists, begin):
    """Write the children of accounts to `lists` from `begin` on: highest level value first, users before accounts.

    Return their number.
    """
    own, end = state.own, begin
    for account in accounts:
        for i in range(own.child_first[account], own.child_first[account + 1]):
            who, place = own.child[i], end
            while place > begin and goes_before(state, levels, who, lists[place - 1]):
                lists[place] = lists[place - 1]
                place -= 1
            lists[place] = who
            end += 1
    return end - begin


@kernel(inline=True)
def goes_before(state, levels, one, other):
    """Return whether an association goes before another one at its level."""
    if levels[one] != levels[other]:
        return levels[one] > levels[other]
    return state.own.is_user[one] > state.own.is_user[other]


@kernel()
def rank_classic(state):
    """Write 2^-(E / S / D): effective usage E, normalized shares S, dampening factor D."""
    own, count = state.own, len(state.own.over)
    sums, shares, effective = np.zeros(count), np.ones(count), np.zeros(count)
    for who in range(1, count):
        if own.shares[who] != PARENT:
            sums[own.over[who]] += own.shares[who]
    total = own.usage[0]
    for who in range(1, count):
        over = own.over[who]
        used = own.usage[who] / total if total > 0.0 else 0.0
        if own.shares[who] == PARENT:
            shares[who], effective[who] = shares[over], effective[over]
            continue
        part = own.shares[who] / sums[over] if sums[over] > 0.0 else 0.0
        shares[who] = shares[over] * part
        effective[who] = used if over == 0 else used + (effective[over] - used) * part
    for who in range(count):
        if shares[who] > 0.0:
            own.share[who] = 2.0 ** -(effective[who] / shares[who] / own.FairShareDampeningFactor)
        else:
            own.share[who] = 0.0


@kernel(inline=True)
def share_of(state, job):
    """Return the fair-share factor of a job; 0 without an association."""
    who = state.own.association[job]
    return state.own.share[who] if who != NONE else 0.0
