"""Chains in the memory of a policy: each job may stand behind one other job, and several behind the same one.

The front of a chain is found in O(log jobs), amortised, for any length: these are link-cut trees (Sleator and Tarjan,
J. Comput. Syst. Sci. 26, 1983; with splay trees, J. ACM 32, 1985) whose roots are the fronts. `up`, `left` and `right`
are memories of one number for each job. They store job numbers plus 1, since memory starts as 0: 0 means none.
"""

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE


@kernel()
def front_of(up, left, right, job):
    """Return the head of the job's chain; the job itself if nothing precedes it."""
    if up[job] == 0 and left[job] == 0:
        return job
    _expose(up, left, right, job)
    first = job
    while left[first] > 0:
        first = left[first] - 1
    _splay(up, left, right, first)
    return first


@kernel()
def stand_behind(up, front, job):
    """Put the front of a chain, as `front_of` just found it, behind a job of another chain."""
    up[front] = job + 1


@kernel()
def take_off(up, right, front):
    """Remove the front of a chain, as `front_of` just found it, from the chain."""
    up[right[front] - 1] = 0
    right[front] = 0


@kernel()
def step_out(up, left, right, job):
    """Detach a job from the one before it. Return the job that it stood behind; -1 for none."""
    _expose(up, left, right, job)
    if left[job] == 0:
        return NONE
    ahead = left[job] - 1
    up[ahead], left[job] = 0, 0
    while right[ahead] > 0:
        ahead = right[ahead] - 1
    _splay(up, left, right, ahead)
    return ahead


@kernel()
def _expose(up, left, right, job):
    """Make one splay tree hold the chain from its front to a job, with the job at its root and an empty right side."""
    beyond, each = 0, job + 1
    while each > 0:
        _splay(up, left, right, each - 1)
        right[each - 1] = beyond
        beyond, each = each, up[each - 1]
    _splay(up, left, right, job)


@kernel()
def _splay(up, left, right, job):
    while _is_inside(up, left, right, job):
        above = up[job] - 1
        if _is_inside(up, left, right, above):
            same = (left[above] == job + 1) == (left[up[above] - 1] == above + 1)
            _rotate(up, left, right, above if same else job)
        _rotate(up, left, right, job)


@kernel()
def _is_inside(up, left, right, job):
    """Return whether a job is in a splay tree, below its root."""
    above = up[job] - 1
    return above >= 0 and (left[above] == job + 1 or right[above] == job + 1)


@kernel()
def _rotate(up, left, right, job):
    """Exchange a job and its parent in a splay tree."""
    above = up[job] - 1
    if _is_inside(up, left, right, above):
        if left[up[above] - 1] == above + 1:
            left[up[above] - 1] = job + 1
        else:
            right[up[above] - 1] = job + 1
    up[job] = up[above]
    if left[above] == job + 1:
        child = left[above] = right[job]
        right[job] = above + 1
    else:
        child = right[above] = left[job]
        left[job] = above + 1
    if child > 0:
        up[child - 1] = above + 1
    up[above] = job + 1
