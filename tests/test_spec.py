"""One description of a run: made from texts or from values, judged once, handed on whole."""

import inspect
import pickle
from dataclasses import fields

import pytest

import backfill as bf
from backfill.analysis.metrics import Trim
from backfill.cli.options import RunOptions
from backfill.model.errors import BackfillError, PolicyError, UsageError
from backfill.policies import get
from backfill.spec import Given, RunSpec, names
from backfill.verbs import HEAD, head, place, start
from backfill.worlds.estimates import Estimates
from backfill.worlds.options import Options, OptionsGiven

POLICY = """from backfill import Param, policy
from backfill.verbs import HEAD, head, place, start

@policy("own", compiled=False, settable=("order",), params={"k": Param(1, 0, 9)})
def own(state):
    while head(state) >= 0 and place(state, head(state)):
        start(state, head(state), HEAD)
"""


def plain(state):
    """FCFS in plain Python."""
    while head(state) >= 0 and place(state, head(state)):
        start(state, head(state), HEAD)


def facts(spec: RunSpec) -> tuple:
    return (spec.name, dict(spec.given), spec.params, spec.options, spec.warmup, spec.cooldown, spec.watched)


def test_the_command_line_and_python_take_the_same_options_with_the_same_defaults():
    others = {"warmup", "cooldown", "place"}  # of the metrics, and an answer of the policy
    taken = set(Given.__annotations__)
    assert taken == {each.name for each in fields(RunOptions)} == {each.name for each in fields(Options)} | others
    assert set(OptionsGiven.__annotations__) == taken - others
    assert facts(RunSpec.of("easy", **vars(RunOptions()))) == facts(RunSpec.of("easy"))


def test_a_place_is_an_answer_of_policies_that_have_none():
    assert facts(RunSpec.of("easy", place="pack")) == facts(RunSpec.of("easy:place=pack"))
    assert facts(RunSpec.of("easy:place=spread", place="pack")) == facts(RunSpec.of("easy:place=spread"))
    assert RunSpec.of("fcfs", place="pack").name == "fcfs:place=pack"


def test_every_function_shows_what_it_takes():
    for function in (bf.simulate, bf.compare):
        shown = inspect.signature(function).parameters
        assert set(Given.__annotations__) <= set(shown)
        assert (shown["ties"].default, shown["estimates"].default, shown["seed"].default) == ("batch", "requested", 0)
        with pytest.raises(TypeError, match="unexpected keyword argument 'tie'; did you mean ties"):
            function(bf.generate("lublin?jobs=5&cpus=16"), tie="step")
    with pytest.raises(UsageError, match="compare runs several"):
        bf.simulate(bf.generate("lublin?jobs=5&cpus=16"), policy=["easy", "fcfs"])


def test_a_metric_that_is_not_there_is_answered_with_the_nearest():
    numbers = bf.simulate(bf.generate("lublin?jobs=5&cpus=16"), policy="fcfs").metrics
    with pytest.raises(KeyError, match="no metric 'mean_wait'; did you mean mean_wait_s"):
        numbers["mean_wait"]
    with pytest.raises(KeyError, match="no metric 'xyzzy'; known: jobs, mean_wait_s"):
        numbers["xyzzy"]
    assert numbers.get("mean_wait") is None


def test_texts_and_values_give_the_same():
    values = RunSpec.of(
        get("k-reservations"), {"k": 3, "order": "sjf"}, promise="a",
        estimates=Estimates("inflate", 2.0), seed=7, ties="step", warmup=Trim(jobs=5), cooldown=Trim(span=3600 * 10**6),
    )  # fmt: skip
    texts = RunSpec.of(
        "k-reservations:k=8,order=sjf", ["k=3"], promise="a",
        estimates="inflate:2", seed=7, ties="step", warmup="5", cooldown="1h",
    )  # fmt: skip
    assert facts(texts) == facts(values)
    assert values.name == "k-reservations:order=sjf,k=3, ties step, estimates inflate:2"


@pytest.mark.parametrize(
    ("policy", "params", "given", "complaint"),
    [
        ("eazy", None, {}, "unknown policy 'eazy'; did you mean easy"),
        (3, None, {}, "policy is 3; expected a name, a policy or a function"),
        ("easy", {"k": 1}, {}, "policy easy has no parameter 'k'"),
        ("easy", ["k"], {}, "set is 'k'; expected KEY=VALUE"),
        ("k-reservations:k=-1", None, {}, "k is -1; expected a whole number"),
        ("easy", None, {"ties": "stop"}, "ties is 'stop'; expected batch or step"),
        ("easy", None, {"seed": -1}, "seed is -1; expected a whole number from 0"),
        ("easy", None, {"estimates": "foo"}, "estimates is 'foo'; expected requested, exact"),
        ("easy", None, {"warmup": "x"}, "warmup is 'x'; expected a number of jobs or a span"),
        ("easy", None, {"cooldown": -1}, "cooldown is '-1'; expected a number of jobs or a span"),
        ("easy", None, {"ties": "step", "overrun": "extend"}, "ties step counts a job at its limit as gone"),
    ],
)
def test_what_cannot_be_is_told_when_the_run_is_described(policy, params, given, complaint):
    with pytest.raises(UsageError, match=complaint):
        RunSpec.of(policy, params, **given)


@pytest.mark.parametrize("policy", ["k-reservations:order=sjf", "conservative", plain])
def test_it_is_the_same_in_another_process(policy):
    spec = RunSpec.of(policy, {"k": 2} if policy == "k-reservations:order=sjf" else None, warmup="1h", seed=3)
    sent = pickle.loads(pickle.dumps(spec))
    assert facts(sent) == facts(spec)
    assert sent.policy.binds == spec.policy.binds
    log = bf.generate("lublin?jobs=50&cpus=16&load=1.2")
    assert bf.simulate(log, policy=sent.policy, params=sent.params).metrics["jobs"] == 50


def test_the_policy_of_a_text_is_not_sent_but_loaded_where_it_is_first_needed(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(POLICY)
    spec = RunSpec.of(f"{tmp_path / 'own.py'}:own:k=2,order=sjf")
    data = pickle.dumps(spec)
    assert b"backfill_own" not in data
    sent = pickle.loads(data)
    assert (sent.policy.order, sent.params, sent.policy is sent.policy) == ("sjf", {"k": 2}, True)
    (tmp_path / "own.py").write_text("1 / 0\n")
    late = pickle.loads(data)  # no error yet: it would end a worker before it could say so
    with pytest.raises(PolicyError, match=r"own\.py:1: ZeroDivisionError"):
        late.policy  # noqa: B018


def test_a_replication_has_its_seed_and_the_same_policy():
    spec = RunSpec.of("easy", seed=5, ties="step")
    assert spec.replicated(0) is spec
    again = spec.replicated(3)
    assert (again.options.seed, again.options.ties, again.policy) == (8, "step", spec.policy)
    assert again.policy is spec.policy


def test_names_side_by_side():
    assert names([RunSpec.of(text) for text in ("easy", "k-reservations:k=3")]) == ["easy", "k-reservations:k=3"]
    with pytest.raises(UsageError, match="policy easy is given twice"):
        names([RunSpec.of("easy"), RunSpec.of("easy")])


def test_a_result_tells_its_description():
    log = bf.generate("lublin?jobs=50&cpus=16")
    result = bf.simulate(log, None, "k-reservations", params={"k": 2}, warmup=3, overrun="extend", promise="7")
    assert facts(result.spec) == facts(
        RunSpec.of("k-reservations:k=2", warmup="3", overrun="extend", promise="7")
    )  # fmt: skip
    assert (result.warmup, result.options.overrun, result.watched, result.params) == (Trim(3), "extend", "7", {"k": 2})


@pytest.mark.parametrize("kind", BackfillError.__subclasses__())
def test_every_error_of_ours_can_be_sent(kind):
    error = kind.__new__(kind, "what it says")
    sent = pickle.loads(pickle.dumps(error))
    assert (type(sent), str(sent)) == (kind, "what it says")


def test_an_option_keeps_its_form_for_the_command_line_when_it_is_sent():
    with pytest.raises(UsageError) as told:
        RunSpec.of("easy", seed=-1)
    sent = pickle.loads(pickle.dumps(told.value))
    assert (str(sent), sent.option, sent.exit_code) == (str(told.value), told.value.option, 2)
