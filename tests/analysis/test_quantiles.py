import pytest

from backfill.analysis.quantiles import two_sided_t


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (30, 2.04227), (120, 1.97993)],
)
def test_the_quantile_of_student_is_that_of_the_printed_tables(freedom, value):
    """Abramowitz and Stegun 1964, table 26.10."""
    assert two_sided_t(freedom) == pytest.approx(value, abs=5e-6 * value)


def test_other_levels():
    assert two_sided_t(1, 0.5) == pytest.approx(1)
    assert two_sided_t(10, 0.01) == pytest.approx(3.16927, abs=1e-5)
