"""The orders of the queue: one score per name, lowest first; ties go by submit, then file order."""

import math

import numpy as np

from backfill.compiler.kernel import kernel

ORDERS = ("fcfs", "priority", "sjf", "ljf", "saf", "laf", "lxf", "wfp3", "unicef", "f1", "f2", "f3", "f4")
FCFS, PRIORITY, SJF, LJF, SAF, LAF, LXF, WFP3, UNICEF, F1, F2, F3, F4 = range(13)
DYNAMIC = (LXF, WFP3, UNICEF)  # their scores contain the wait, so they change at every pass
FORMULAS = {
    "fcfs": "submit",
    "priority": "-priority",
    "sjf": "r",
    "ljf": "-r",
    "saf": "r n",
    "laf": "-r n",
    "lxf": "-(wait + r) / r",
    "wfp3": "-(wait / r)^3 n",
    "unicef": "-wait / (log2(max(n, 2)) r)",
    "f1": "log10(r) n + 870 log10(s)",
    "f2": "sqrt(r) n + 25600 log10(s)",
    "f3": "r n + 6860000 log10(s)",
    "f4": "r sqrt(n) + 530000 log10(s)",
}
_LEARNT = "Carastan-Santos and de Camargo, SC'17"
_SCORED = "Tang, Lan, Desai and Buettner, Cluster 2009, in the form of Zhang et al., SC'20"
SOURCES = {
    "lxf": "Chiang, Arpaci-Dusseau and Vernon, JSSPP 2002",
    "wfp3": _SCORED,
    "unicef": _SCORED,
    **dict.fromkeys(("f1", "f2", "f3", "f4"), _LEARNT),
}
MICRO = 1e-6
CUT = np.int64(53 - 30)  # binary digits of a number that rounding removes
HALF = np.int64(1) << (CUT - np.int64(1))


@kernel(inline=True)
def rounded(x):
    """Round to 30 binary digits, ties to even: the last bits differ between machines, and an order must not.

    The digits are cut in the bits of the number: a loop over the queue then needs no calls of the C library. Numbers
    below 2^-800 are rounded 2^200 times as large, since those below 2^-1022 have fewer digits.
    """
    small = abs(x) < 2.0**-800
    bits = np.float64(x * (2.0**200 if small else 1.0)).view(np.int64)
    bits += HALF - 1 + ((bits >> CUT) & 1)
    return np.int64(bits >> CUT << CUT).view(np.float64) * (2.0**-200 if small else 1.0)


@kernel()
def rank_changes(order):
    """Return whether an order depends on the present instant."""
    return order in DYNAMIC


@kernel(inline=True)
def _scales(walltime, cpus, wait):
    """Return r (in microseconds), n and the wait of the formulas."""
    return float(walltime) if walltime > 0 else 0.1 / MICRO, float(cpus), float(wait)


@kernel(inline=True)
def _lxf(r, w):
    return -w / r  # less 1, since adding 1 would hide the wait of a job with a walltime of 10^11 s


@kernel(inline=True)
def _wfp3(r, n, w):
    return rounded(-(w / r) * (w / r) * (w / r) * n)


@kernel(inline=True)
def _unicef(r, n, w):
    return rounded(-w / (math.log2(max(n, 2.0)) * r))


@kernel()
def score_stretch(order, wait, walltime, cpus, scores):
    """Write scores in an order that changes with time, of jobs that lie side by side, to `scores` (q,).

    wait, walltime (q,): microseconds; cpus (q,). One plain loop for each order, which looks nothing up, so that the
    compiler makes vectors of it.
    """
    if order == WFP3:
        for i in range(len(scores)):
            r, n, w = _scales(walltime[i], cpus[i], wait[i])
            scores[i] = _wfp3(r, n, w)
    elif order == LXF:
        for i in range(len(scores)):
            r, _, w = _scales(walltime[i], 0, wait[i])
            scores[i] = _lxf(r, w)
    else:
        for i in range(len(scores)):
            r, n, w = _scales(walltime[i], cpus[i], wait[i])
            scores[i] = _unicef(r, n, w)


@kernel()
def score(order, wait, walltime, cpus, since, priority):
    """Return the score of one job, lowest first.

    wait, walltime, since (submit less the first submit): microseconds. In the formulas r is the walltime in seconds,
    0.1 if it is 0; n the processors of the whole job; s = max(1, since) in seconds. Whole microseconds give the same
    order up to LXF, with at most one rounding, so that equal scores are equal numbers.
    """
    r, n, w = _scales(walltime, cpus, wait)
    if order == FCFS:
        return float(since)
    if order == PRIORITY:
        return -priority
    if order == SJF:
        return r
    if order == LJF:
        return -r
    if order == SAF:
        return r * n
    if order == LAF:
        return -r * n
    if order == LXF:
        return _lxf(r, w)
    if order == WFP3:
        return _wfp3(r, n, w)
    if order == UNICEF:
        return _unicef(r, n, w)
    r *= MICRO
    s = math.log10(max(1.0, since * MICRO))
    if order == F1:
        return rounded(math.log10(r) * n + 870.0 * s)
    if order == F2:
        return rounded(math.sqrt(r) * n + 25_600.0 * s)
    if order == F3:
        return rounded(r * n + 6_860_000.0 * s)
    return rounded(r * math.sqrt(n) + 530_000.0 * s)
