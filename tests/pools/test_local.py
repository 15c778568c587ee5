"""This machine as a pool: what it is told of attempts that are over."""

from backfill.pools.local.pool import LocalPool


def test_a_hint_about_an_attempt_that_is_over_is_not_looked_at(tmp_path):
    news = []
    pool = LocalPool(tmp_path, lambda: news.append(1), False, {})
    pool.hear("7.1")
    pool.hear("nonsense")
    assert not news
    assert not pool.read(()).attempts
    assert not (tmp_path / "run" / "7.1").exists()
