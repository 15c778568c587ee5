"""Laws of policies that plan by predictions."""

from dataclasses import replace

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.verify import verify
from backfill.model.schedule import NO_TIME
from backfill.worlds.prediction import RULES

PLANNING = ("easy", "easy-sjbf", "conservative", "k-reservations:k=4")


def log_of_users(seed=3, jobs=120):
    log = bf.generate(f"lublin?jobs={jobs}&cpus=32&seed={seed}&estimate_factor=5")
    users = np.random.default_rng(seed).integers(0, 6, jobs)
    columns = log.jobs.replace(user=type(log.jobs.user).of([f"u{user}" for user in users]))
    return replace(log, jobs=columns)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("policy", PLANNING)
def test_run_times_that_end_later_change_no_start_before(rule, policy):
    """Double the run time of each job that ends after an instant: nothing is decided otherwise until then."""
    log = log_of_users()
    first = bf.simulate(log, policy=policy, predict=rule)
    instant = int(np.median(first.schedule.end))
    later, runtime = first.schedule.end > instant, log.jobs.runtime.copy()
    runtime[later] = np.minimum(runtime[later] * 2 + 1, log.jobs.walltime[later])
    other = bf.simulate(replace(log, jobs=log.jobs.replace(runtime=runtime)), policy=policy, predict=rule)
    assert (runtime != log.jobs.runtime).any()
    before = first.schedule.start <= instant
    assert (other.schedule.start[before] == first.schedule.start[before]).all()
    assert (other.schedule.start[~before] > instant).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("policy", PLANNING)
def test_the_schedule_is_lawful_and_promises_nothing(rule, policy):
    result = bf.simulate(log_of_users(), policy=policy, predict=rule)
    assert result.verify() == []
    assert (result.schedule.promise == NO_TIME).all()
    assert len(result.simulation.promises) == 0
    assert "promised_jobs" not in result.metrics


def test_the_checker_finds_a_promise_that_predictions_cannot_give():
    result = bf.simulate(log_of_users(jobs=50), policy="easy", predict="average2")
    promised = replace(result.schedule, promise=result.schedule.start.copy())
    found = verify(result.workload, result.platform, promised, predicted=True)
    assert {violation.rule for violation in found} == {"promise"}


def test_nothing_is_promised_to_a_watched_job():
    with pytest.raises(bf.UsageError, match="no promise"):
        bf.simulate(log_of_users(jobs=5), policy="conservative", predict="average2", promise="1")


def test_jobs_are_killed_at_the_walltime_and_not_at_the_prediction():
    log = log_of_users()
    plain, predicted = (bf.simulate(log, predict=rule) for rule in (None, "average2"))
    ends = [result.schedule.end - result.schedule.start for result in (plain, predicted)]
    assert (ends[0] == ends[1]).all()
    assert (ends[1] > predicted.simulation.predicted).any()


def test_a_prediction_is_made_by_a_function_of_the_job_and_the_ended_jobs_of_its_user(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def last(job, ended):\n    return ended[-1].run_s if ended else job.walltime_s\n"
    )
    log = log_of_users()
    found = bf.simulate(log, predict=f"{tmp_path}/mine.py:last:correct=reqtime")
    first, predicted = found.schedule, found.simulation.predicted
    for row in range(len(log)):
        mine = (log.jobs.user.codes == log.jobs.user.codes[row]) & (first.end <= log.jobs.submit[row])
        if mine.any():
            ended = np.flatnonzero(mine)
            latest = first.end[ended].max()
            lengths = (first.end - first.start)[ended[first.end[ended] == latest]]
            whole = np.minimum(np.maximum(lengths // 1_000_000, 1) * 1_000_000, log.jobs.walltime[row])
            assert predicted[row] in whole.tolist()
        else:
            assert predicted[row] <= log.jobs.walltime[row]


def test_the_page_shows_errors_of_predictions_beside_those_of_walltimes_by_user(tmp_path):
    result = bf.simulate(log_of_users(), predict="average2")
    result.report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    section = page[page.index('<section id="predictions">') :]
    section = section[: section.index("</section>")]
    assert all(f">u{user}<" in section for user in range(6))
    users = result.to_dict()["predictions"]
    assert sum(user["jobs"] for user in users) == result.metrics["jobs"]
    errors = [user["jobs"] * user["prediction_error_s"] for user in users]
    assert sum(errors) / result.metrics["jobs"] == pytest.approx(result.metrics["prediction_error_s"])
    bf.simulate(log_of_users()).report(tmp_path / "plain.html")
    assert 'id="predictions"' not in (tmp_path / "plain.html").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def wrong(job, ended):\n    return 1 / 0\n", r"mine.py:2: ZeroDivisionError"),
        ("def wrong(job, ended):\n    return None\n", "function wrong: it predicts None for job 1; expected seconds"),
        ("def wrong(job, ended):\n    return float('nan')\n", "it predicts nan for job 1; expected seconds"),
        ("def other(job, ended):\n    return 1\n", "has no function 'wrong'"),
        ("def wrong(:\n", "mine.py:1: SyntaxError"),
    ],
)
def test_a_mistake_in_a_predictor_is_told_with_its_line(tmp_path, text, message):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(bf.PolicyError, match=message):
        bf.simulate(log_of_users(jobs=50), predict=f"{tmp_path}/mine.py:wrong")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"predict": "average3"}, "expected average2"),
        ({"predict": "average2:correct=never"}, "correct=reqtime"),
        ({"predict": "missing.py:fn"}, "cannot be read"),
        ({"predict": "average2", "overrun": "extend"}, "overrun extend"),
    ],
)
def test_what_cannot_be_predicted_is_one_clear_line(given, message):
    with pytest.raises(bf.UsageError, match=message):
        bf.simulate(log_of_users(jobs=5), **given)
