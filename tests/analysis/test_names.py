import pytest

from backfill.analysis.names import names_of
from backfill.model.errors import UsageError


def test_a_policy_that_comes_once_needs_no_parameters_in_its_name():
    assert names_of([("fcfs", {}), ("k-reservations", {"k": 4})]) == ["fcfs", "k-reservations"]


def test_one_that_comes_twice_is_told_apart_by_them():
    names = names_of([("k-reservations", {"k": 4}), ("easy", {}), ("k-reservations", {"k": 8})])
    assert names == ["k-reservations:k=4", "easy", "k-reservations:k=8"]


def test_only_what_sets_them_apart_is_told():
    names = names_of([("x", {"k": 4, "w": 1, "order": "sjf"}), ("x", {"k": 4, "w": 2, "order": "sjf"})])
    assert names == ["x:w=1,order=sjf", "x:w=2,order=sjf"]


@pytest.mark.parametrize("policies", [[("easy", {}), ("easy", {})], [("x", {"k": 4.0}), ("x", {"k": 4})]])
def test_the_same_policy_twice_is_refused(policies):
    with pytest.raises(UsageError, match="is given twice"):
        names_of(policies)


def test_one_policy_is_no_comparison():
    with pytest.raises(UsageError, match="needs two policies or more; got 1"):
        names_of([("easy", {})])
