"""Spans are measured by a clock that nobody sets; the calendar is for what people ask for and are shown."""

import json

import pytest

from backfill.daemon import clock as clocks
from backfill.daemon.shown import row
from backfill.queue.engine import Engine
from tests.queue.world import CAPACITY, SECOND, Clock, FlakyStore, Launcher, Machine

HOUR = 3600 * SECOND


@pytest.fixture
def times(monkeypatch):
    """Return the readings of the machine's clocks, which a test sets."""
    told = {"boot": "one", "boottime": 500, "wall": 10**15}
    monkeypatch.setattr(clocks, "boot_us", lambda: told["boottime"])
    monkeypatch.setattr(clocks, "wall_us", lambda: told["wall"])
    monkeypatch.setattr(clocks, "boot_id", lambda: told["boot"])
    return told


@pytest.mark.parametrize("step", [-24 * HOUR, -3 * SECOND, 0, 24 * HOUR])
def test_a_step_of_the_calendar_moves_no_span_also_where_the_daemon_is_another_one(times, step):
    first = clocks.QueueClock(0, {})
    begin = first.now()
    times["boottime"] += 7 * SECOND
    times["wall"] += step + 7 * SECOND
    assert first.now() - begin == 7 * SECOND
    second = clocks.QueueClock(first.now(), first.facts)
    assert second.now() - begin == pytest.approx(7 * SECOND, abs=1)
    assert second.wall() - second.now() == pytest.approx(step, abs=1)
    assert second.instant(dict(times)) == second.now()


def test_after_another_boot_the_clock_starts_at_the_calendar_but_never_before_the_log(times):
    first = clocks.QueueClock(0, {})
    seen = first.now()
    times.update(boot="two", boottime=3, wall=times["wall"] + HOUR)
    assert clocks.QueueClock(seen, first.facts).now() == times["wall"]
    record = {"boot": "one", "boottime": 500, "wall": 10**15 + 9}
    assert clocks.QueueClock(seen, first.facts).instant(record) == 10**15 + 9
    times["wall"] -= 24 * HOUR
    assert clocks.QueueClock(seen, first.facts).now() == seen + 1


class Silent:
    """A planner that never answers."""

    def kept(self, epoch_seq, program):
        return 0, 0

    def begin(self, epoch, history, since):
        pass


def queue_at(clock):
    import random

    engine = Engine(FlakyStore(), clock, Launcher(Machine(random.Random(0), clock, {})), Silent(),
                    {"walltime": HOUR, "grace": 0}, encode=json.dumps)  # fmt: skip
    engine.open(CAPACITY, "fake", "1")
    engine.flush()
    return engine


def submit(engine, **job):
    got = []
    request = {"do": "submit", "token": f"t{job}", "user": "ana", "spec": {"argv": ["true"]}}
    engine.request(request | {"job": {"need": {"cpus": 1}, **job}}, got.append)
    engine.flush()
    return got[0]


def test_a_begin_means_the_calendar_however_that_is_set():
    clock = Clock()
    engine = queue_at(clock)
    number = submit(engine, begin=clock.wall() + 2 * HOUR)["id"]
    late = submit(engine, deadline=clock.wall() + 3 * HOUR, held=True)["id"]
    first = engine.next_timer()
    assert first == pytest.approx(clock.t + 2 * HOUR, abs=SECOND)
    clock.ahead -= HOUR  # it is an hour earlier than was thought
    assert engine.look_at_clock()
    engine.flush()
    assert engine.next_timer() == pytest.approx(first + HOUR, abs=SECOND)
    assert not engine.look_at_clock()
    clock.t += 2 * HOUR
    engine.tick()
    engine.flush()
    assert not engine.book.jobs[number].waits
    clock.ahead += HOUR  # and now it is not
    engine.look_at_clock()
    engine.flush()
    assert engine.book.jobs[number].waits
    assert late in engine.book.jobs
    clock.ahead += 2 * HOUR
    engine.look_at_clock()
    engine.flush()
    assert engine.store.job(late).state == "DEADLINE"


def test_the_moment_between_two_looks_at_a_fast_clock_is_no_step():
    clock = Clock()
    clock.speed = 1000.0
    engine = queue_at(clock)
    clock.ahead += 10 * SECOND  # 10 ms go by
    assert not engine.look_at_clock()
    clock.ahead += HOUR
    assert engine.look_at_clock()


def test_what_is_shown_are_times_of_the_calendar():
    clock = Clock()
    engine = queue_at(clock)
    number = submit(engine, held=True)["id"]
    clock.ahead += HOUR
    engine.look_at_clock()
    engine.flush()
    assert row(engine, engine.book.jobs[number], clock.now())["submit_s"] == pytest.approx(clock.wall() / 1e6, abs=0.1)


def test_a_machine_that_slept_is_a_cause_of_late_starts():
    clock = Clock()
    engine = queue_at(clock)
    clock.t += HOUR
    clock.sleeps += HOUR
    assert engine.look_at_clock()
    assert engine.book.troubles[-1] == (clock.t, "machine-suspended")
    assert not engine.look_at_clock()
