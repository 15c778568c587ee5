import pytest

from backfill.analysis.names import names_of
from backfill.model.errors import UsageError
from backfill.policies import get


def test_names_tell_what_sets_a_policy_apart():
    names = names_of([("k-reservations", {}), ("easy", {}), ("k-reservations", {"k": 8.0, "order": "sjf"})])
    assert names == ["k-reservations", "easy", "k-reservations:k=8,order=sjf"]


def test_what_is_told_is_what_differs_from_the_defaults():
    policy, left = get("k-reservations").choose({"k": 4, "order": "sjf"})
    assert policy.non_defaults(left) == {"order": "sjf"}
    assert get("bf-mod").non_defaults({"w_deadline": 3, "k": 1.3}) == {"w_deadline": 3}
    assert get("bb").non_defaults({"per_event": "until_empty"}) == {"per_event": "until_empty"}
    assert get("bb").non_defaults({"per_event": 1}) == {}


@pytest.mark.parametrize("policies", [[("easy", {}), ("easy", {})], [("x", {"k": 4.0}), ("x", {"k": 4})]])
def test_the_same_policy_twice_is_refused(policies):
    with pytest.raises(UsageError, match="is given twice"):
        names_of(policies)


def test_one_policy_is_no_comparison():
    with pytest.raises(UsageError, match="needs two policies or more; got 1"):
        names_of([("easy", {})])
