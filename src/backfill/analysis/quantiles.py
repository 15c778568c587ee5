"""Quantiles of Student's t distribution and its interval, without additional libraries."""

import math

from backfill.model.workload import Floats


def two_sided_t(freedom: int, outside: float = 0.05) -> float:
    """Return the value that |t| exceeds with probability `outside`, for `freedom` >= 1; to 10 digits.

    Computed by bisection of the exact distribution. Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < 1 - outside else (low, middle)
    return float(f"{math.tan(low) * math.sqrt(freedom):.10g}")


def student(values: Floats) -> tuple[float, float, float]:
    """Return the mean of at least two independent values, and its 95 % interval (Student's t)."""
    n = len(values)
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((values - mean) ** 2) / (n - 1))
    half = two_sided_t(n - 1) * deviation / math.sqrt(n)
    return mean, mean - half, mean + half


def _inside(angle: float, freedom: int) -> float:
    """Return the probability that |t| is less than sqrt(freedom) x tan(angle)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    term = cosine if freedom % 2 else 1.0
    series = 0.0
    for k in range(2 + freedom % 2, freedom + 1, 2):
        series += term
        term *= cosine * cosine * (k - 1) / k
    return 2 / math.pi * (angle + sine * series) if freedom % 2 else sine * series
