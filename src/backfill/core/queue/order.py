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


@kernel()
def rounded(x):
    """Round to 1e-9 relative: repeated rounding differs in the last bit between machines, and an order must not."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(float(np.rint(mantissa * 2.0**30)), exponent - 30)


@kernel()
def rank_changes(order):
    """Return whether an order depends on the present instant."""
    return order in DYNAMIC


@kernel()
def score(order, wait, walltime, cpus, since, priority):
    """Return the score of one job, lowest first.

    wait, walltime, since (submit less the first submit): microseconds. In the formulas r is the walltime in seconds,
    0.1 if it is 0; n the processors of the whole job; s = max(1, since) in seconds. Whole microseconds give the same
    order up to LXF, with at most one rounding, so that equal scores are equal numbers.
    """
    r = float(walltime) if walltime > 0 else 0.1 / MICRO
    n = float(cpus)
    w = float(wait)
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
    if order == LXF:  # less 1, since adding 1 would hide the wait of a job with a walltime of 10^11 s
        return -w / r
    if order == WFP3:
        return rounded(-(w / r) * (w / r) * (w / r) * n)
    if order == UNICEF:
        return rounded(-w / (math.log2(max(n, 2.0)) * r))
    r *= MICRO
    s = math.log10(max(1.0, since * MICRO))
    if order == F1:
        return rounded(math.log10(r) * n + 870.0 * s)
    if order == F2:
        return rounded(math.sqrt(r) * n + 25_600.0 * s)
    if order == F3:
        return rounded(r * n + 6_860_000.0 * s)
    return rounded(r * math.sqrt(n) + 530_000.0 * s)
