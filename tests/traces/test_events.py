import contextlib
import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.clock import Clock
from backfill.model.errors import EventsError, InputError, UsageError
from backfill.model.events import (
    CANCEL,
    CAPACITY,
    COLUMNS,
    DOWN,
    PRIORITY,
    UP,
    WALLTIME,
    WINDOW,
    BoundEvents,
    Events,
    events_of,
)
from backfill.model.platform import Platform
from backfill.model.units import NEVER, SECOND, TIME_MAX, seconds_text
from backfill.traces.events import read_events, write_events
from backfill.traces.table import read_table

JOBS = read_table(b"job,submit,runtime\n7,0,5\nb,1,5\nc,2,5\n")
POOL = Platform.pool(8, memory=2**40)
FARM = Platform(
    nodes=("n1", "n2", "N1", "big", "a[1]"),
    resources=("cpus", "memory"),
    capacity=np.array([[4, 2**30]] * 5),
    speed=np.ones(5),
    site=np.zeros(5, np.int64),
    licences=("x", "y"),
    copies=np.array([2, 3]),
    name="farm",
)


KINDS = "cancel, walltime, priority, down, up, capacity, window, reserve, unreserve"
SECONDS = "a number of seconds from -100000000000 to 100000000000"
INSTANT = f"{SECONDS}, a date such as 2026-03-01T12:00:00, or a span such as 2h"
WALLTIMES = "a walltime from 0 to 100000000000 s, or a span such as 2h"
SIZE = "a whole number from 0 to 2^62 that may carry K, M, G or T"


def bound(*lines: str, platform: Platform = FARM) -> BoundEvents:
    return read_events("\n".join(lines).encode()).bind(JOBS, platform)


def nodes(events: BoundEvents) -> list[list[int]]:
    return [events.nodes[row].tolist() for row in range(len(events))]


def refusal(*lines: str | bytes, platform: Platform = FARM) -> str:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    with pytest.raises(EventsError) as caught:
        read_events(data).bind(JOBS, platform)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message.removeprefix("<bytes>:")


def of_one(text: str, platform: Platform = FARM) -> str:
    """Return what is said of an event `time event name=value ...`."""
    time, event, *others = text.split()
    cells = {"time": time, "event": event, **dict(other.split("=", 1) for other in others)}
    said = refusal(",".join(cells), ",".join(cells.values()), platform=platform)
    assert said.startswith("2: ")
    return said.removeprefix("2: ")


def test_every_event_is_read_and_put_in_order_of_time():
    events = bound(
        "event,job,node,resource,value,until,time,amount",
        "window,,,y,100,200.5,90,1",
        "cancel,7,,,,,5,",
        "walltime,b,,,1.5,,5,",
        "priority,c,,,-2.5,,-3,",
        "down,,n*,,,,5,",
        "up,,big,,,,7,",
        "capacity,,big,memory,32G,,8,",
        "capacity,,,x,1,,9,",
        "window,,n?,,50,60,10,",
        "window,,a[1],cpus,50,60,10,2",
    )
    assert events.kind.tolist() == [
        PRIORITY, CANCEL, WALLTIME, DOWN, UP, CAPACITY, CAPACITY, WINDOW, WINDOW, WINDOW,
    ]  # fmt: skip
    assert events.time.tolist() == [t * SECOND for t in (-3, 5, 5, 5, 7, 8, 9, 10, 10, 90)]
    assert events.job.tolist() == [2, 0, 1, -1, -1, -1, -1, -1, -1, -1]
    assert nodes(events) == [[], [], [], [0, 1], [3], [3], [], [0, 1], [4], []]
    assert events.resource.tolist() == [-1, -1, -1, -1, -1, 1, 2, -1, 0, 3]
    assert events.value.tolist() == [
        0, 0, 1_500_000, 0, 0, 32 * 2**30, 1, 50 * SECOND, 50 * SECOND, 100 * SECOND,
    ]  # fmt: skip
    assert events.until.tolist() == [NEVER] * 7 + [60 * SECOND, 60 * SECOND, 200_500_000]
    assert events.amount.tolist() == [0] * 8 + [2, 1]
    assert events.priority.tolist() == [-2.5] + [0] * 9


def test_on_a_platform_of_one_node_a_resource_needs_no_node():
    events = bound(
        "time,event,resource,value,until,amount",
        "0,capacity,cpus,2,,",
        "0,window,memory,5,6,1G",
        platform=POOL,
    )
    assert nodes(events) == [[0], [0]]


def test_a_node_that_is_called_like_a_pattern_is_itself():
    assert nodes(bound("time,event,node", "0,down,a[1]", "0,down,[Nn]1", "0,down,*")) == [[4], [0, 2], [0, 1, 2, 3, 4]]


def test_times_are_exact():
    events = bound("time,event,job,value", "85899345920.000001,walltime,b,99999999999.999999")
    assert (events.time.tolist(), events.value.tolist()) == ([85_899_345_920_000_001], [TIME_MAX - 1])


def test_the_most_that_there_ever_is_counts_platform_and_events():
    events = bound(
        "time,event,node,resource,value",
        "0,capacity,n*,cpus,9",
        "1,capacity,n1,cpus,3",
        "2,capacity,,y,1",
        "2,capacity,,x,7",
    )
    capacity, copies = events.greatest(FARM)
    assert capacity.tolist() == [[9, 2**30], [9, 2**30], *[[4, 2**30]] * 3]
    assert copies.tolist() == [7, 3]


SAME = [
    {"time": 1.5, "event": "cancel", "job": 7},
    {"time": 1, "event": "window", "node": "n1", "value": 5, "until": 8},
    {"time": 1, "event": "capacity", "node": "n1", "resource": "memory", "value": "1K"},
    {"time": 0, "event": "priority", "job": "b", "value": 0.5},
]


def by_column(missing: object) -> dict[str, list[object]]:
    return {name: [row.get(name, missing) for row in SAME] for name in COLUMNS}


def equal(have: Events, want: Events) -> None:
    assert {name: list(have.cells[name]) for name in COLUMNS} == {name: list(want.cells[name]) for name in COLUMNS}
    got, expected = have.bind(JOBS, FARM), want.bind(JOBS, FARM)
    for name in ("time", "kind", "job", "resource", "value", "until", "amount", "priority"):
        assert getattr(got, name).tolist() == getattr(expected, name).tolist()
    assert nodes(got) == nodes(expected)


def test_every_form_of_a_table_says_the_same(tmp_path: Path):
    listed = Events.of(SAME)
    assert listed.bind(JOBS, FARM).job.tolist() == [1, -1, -1, 0]
    text = "\n".join(json.dumps(row) for row in SAME)
    plain = pd.DataFrame(SAME)
    assert plain["job"].tolist()[1] != plain["job"].tolist()[1]  # NaN
    numbers = pd.DataFrame({"time": [0.0, 2], "event": ["cancel", "down"], "job": [7, np.nan], "node": [pd.NA, "n1"]})
    assert Events.of(numbers).bind(JOBS, FARM).job.tolist() == [0, -1]
    for other in (
        Events.of(by_column(None)),
        Events.of(by_column(float("nan"))),
        Events.of(plain),
        Events.of(pl.DataFrame(SAME, strict=False)),
        Events.of(pl.DataFrame({name: [str(v) if v is not None else v for v in values]
                                for name, values in by_column(None).items()})),
        read_events(text.encode()),
        Events.of(listed),
    ):  # fmt: skip
        equal(other, listed)
    for name in ("e.jsonl", "e.ndjson", "e.json", "e.jsonl.gz"):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        found = read_events(tmp_path / name)
        equal(found, listed)
        assert found.name == "e"
        assert len(found.sha256) == 64


def test_a_table_of_python_has_a_hash_of_its_own():
    assert Events.of(SAME).sha256 == Events.of(by_column(None)).sha256
    assert Events.of(SAME).sha256 != Events.of(SAME[:3]).sha256


def test_no_events_are_events():
    for none in (Events.of([]), Events.of({}), Events.of({"time": [], "event": []}), read_events(b"time,event\n")):
        assert len(none.bind(JOBS, FARM)) == 0


def test_packed_csv_is_read(tmp_path: Path):
    (tmp_path / "E.CSV.gz").write_bytes(gzip.compress(b"event,time\nup,0\n".replace(b"up,0", b"cancel,0")))
    with pytest.raises(EventsError, match=r"E\.CSV\.gz:2: job is empty; expected a value: cancel needs job"):
        read_events(tmp_path / "E.CSV.gz")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("0 reboot", f"event is 'reboot'; expected {KINDS}"),
        ("0 cancel", "job is empty; expected a value: cancel needs job"),
        ("0 cancel job=b value=3", "value is '3'; expected nothing: cancel has no value"),
        ("0 cancel job=x", "job 'x' is unknown; expected the id of one of the 3 jobs of bytes"),
        ("soon cancel job=b", "time is 'soon'; expected INSTANT"),
        ("nan cancel job=b", "time is 'nan'; expected INSTANT"),
        ("1e12 cancel job=b", "time is '1e12'; expected INSTANT"),
        ("0 walltime job=b", "value is empty; expected a value: walltime needs job and value"),
        ("0 walltime job=b value=-1", "value is '-1'; expected WALLTIMES"),
        ("0 walltime job=b value=soon", "value is 'soon'; expected WALLTIMES"),
        ("0 walltime job=b value=2026-03-01", "value is '2026-03-01'; expected WALLTIMES"),
        ("0 priority job=b value=nan", "value is 'nan'; expected a finite number"),
        ("0 priority job=b value=high", "value is 'high'; expected a finite number"),
        ("0 down", "node is empty; expected a value: down needs node"),
        ("0 down node=n1 resource=cpus", "resource is 'cpus'; expected nothing: down has no resource"),
        ("0 down node=x9", "node 'x9' is unknown; expected n1, n2, N1, big, a[1], or a pattern such as n*"),
        ("0 up node=x*", "node 'x*' is unknown; expected n1, n2, N1, big, a[1], or a pattern such as n*"),
        ("0 capacity resource=cpus value=3", "node is empty; expected a node, since the platform has 5"),
        ("0 capacity node=n1 value=3", "resource is empty; expected a value: capacity needs resource and value"),
        ("0 capacity node=n1 resource=disk value=3", "resource 'disk' is unknown; expected cpus, memory, x, y"),
        ("0 capacity node=n1 resource=x value=3", "node is 'n1'; expected nothing: licences float between the nodes"),
        ("0 capacity resource=x value=-3", "value is '-3'; expected SIZE"),
        ("0 capacity resource=x value=1.5", "value is '1.5'; expected SIZE"),
        ("0 window value=5 until=6", "node is empty; expected a node: window needs node or resource"),
        ("0 window node=n1 value=5", "until is empty; expected a value: window needs value and until"),
        ("0 window node=n1 value=5 until=5", "until is '5'; expected a time after the window's begin, 5 s"),
        ("0 window node=n1 value=2h until=7200", "until is '7200'; expected a time after the window's begin, 7200 s"),
        (
            "0 window node=n1 value=5 until=+2x",
            "until is '+2x'; expected INSTANT, or with a + from the begin such as +2h",
        ),
        (
            "0 window node=n1 value=99999999999 until=+2h",
            "until is '+2h'; expected a time within 100000000000 s of time 0",
        ),
        (
            "2026-03-01T12:00:00 down node=n1",
            "time is '2026-03-01T12:00:00'; expected SECONDS, because bytes states no calendar (time_zero)",
        ),
        ("2026-03-01T25:00:00 down node=n1", "time is '2026-03-01T25:00:00'; expected INSTANT"),
        (
            "0 window node=n1 value=5 until=nan",
            "until is 'nan'; expected INSTANT, or with a + from the begin such as +2h",
        ),
        (
            "0 window node=big value=5 until=6 amount=2",
            "amount is '2'; expected nothing: a window of whole nodes has no amount",
        ),
        (
            "0 window resource=x value=5 until=6",
            "amount is empty; expected a value: a window of a resource needs amount",
        ),
        ("0 window resource=x value=5 until=6 amount=-2", "amount is '-2'; expected SIZE"),
        ("0 window resource=cpus value=5 until=6 amount=2", "node is empty; expected a node, since the platform has 5"),
        (
            "0 window node=n1 resource=x value=5 until=6 amount=2",
            "node is 'n1'; expected nothing: licences float between the nodes",
        ),
        ("0 window node=n1 job=b value=5 until=6", "job is 'b'; expected nothing: window has no job"),
    ],
)
def test_what_an_event_cannot_say_is_refused(event, said):
    for word, text in (("INSTANT", INSTANT), ("WALLTIMES", WALLTIMES), ("SECONDS", SECONDS), ("SIZE", SIZE)):
        said = said.replace(word, text)
    assert of_one(event) == said


def on_clock(*lines: str, clock: Clock) -> BoundEvents:
    return read_events("\n".join(lines).encode()).bind(replace(JOBS, clock=clock), FARM)


def test_times_may_be_dates_and_spans_on_the_clock_of_the_log():
    berlin = Clock.parse("2026-03-01T08:00:00Z[Europe/Berlin]")  # 9:00 there
    found = on_clock(
        "time,event,job,node,value,until",
        "2026-03-01T10:00:00,down,,n1,,",  # an hour after time 0
        "2026-03-01 10:00:00.5Z,up,,n1,,",
        "3h,window,,n2,2026-03-02,+1-02:00:00",
        "1:30,window,,n2,2d,2026-03-04T00:00+01:00",
        "0,walltime,b,,1-12:00:00,",
        clock=berlin,
    )
    hours = [round(t / 3600 / SECOND, 6) for t in found.time.tolist()]
    assert hours == [0, 1, 1.5, round(2 + 0.5 / 3600, 6), 3]
    assert [t / 3600 / SECOND for t in found.value.tolist()] == [36, 0, 48, 0, 15]
    assert [t / 3600 / SECOND for t in found.until[[2, 4]].tolist()] == [63, 41]


def test_a_date_counts_by_the_clock_of_the_log_also_under_another_load_and_in_a_copy(tmp_path: Path):
    jobs = read_table(b"job,submit,runtime\n1,2026-03-01T00:00:00,5\n2,2026-03-02T00:00:00,5\n").at_load(2.0)
    given = read_events(b"time,event,node\n2026-03-01T12:00:00,down,n1\n2026-03-01T12:30:00,up,n1\n")
    bound = given.bind(jobs, FARM)
    assert ((bound.time - jobs.jobs.submit[0]) / 3600 / SECOND).tolist() == [12, 12.5]
    write_events(events_of(jobs, given), tmp_path / "copy.csv")
    assert read_events(tmp_path / "copy.csv").bind(JOBS, FARM).time.tolist() == bound.time.tolist()


def test_an_end_before_the_begin_is_refused_in_the_words_of_the_file():
    with pytest.raises(EventsError) as caught:
        on_clock("time,event,node,value,until", "0,window,n1,2026-03-02T00:00:00,2026-03-01T00:00:00Z", clock=Clock(0))
    expected = "expected a time after the window's begin, 2026-03-02T00:00:00"
    assert str(caught.value) == f"<bytes>:2: until is '2026-03-01T00:00:00Z'; {expected}"
    far = "9999-01-01,down,n1,,"
    with pytest.raises(EventsError, match="expected a date within 100000000000 s of the log's time 0"):
        on_clock("time,event,node,value,until", far, clock=Clock(0))


def test_dates_and_spans_of_python_are_events_too():
    begin = datetime(2026, 3, 1, 12, tzinfo=UTC)
    table = {"time": [begin, timedelta(hours=2)], "event": ["down", "up"], "node": ["n1", "n1"]}
    frame = pd.DataFrame({"time": [pd.Timestamp(begin)], "event": ["down"], "node": ["n1"]})
    jobs = replace(JOBS, clock=Clock.parse("2026-03-01T11:00:00Z[UTC]"))
    assert Events.of(table).bind(jobs, FARM).time.tolist() == [3600 * SECOND, 7200 * SECOND]
    assert Events.of(frame).bind(jobs, FARM).time.tolist() == [3600 * SECOND]


def test_tables_that_are_none_are_refused():
    assert refusal("time,job", "0,b") == "1: no column event; the columns are 'time,job'"
    known = "time, event, job, node, resource, value, until, amount, reservation, user, group, project"
    assert refusal("time,event,nodes", "0,up,n1") == "1: column 'nodes' is unknown; did you mean node?"
    assert refusal("time,event,where", "0,up,n1") == f"1: column 'where' is unknown; expected {known}"
    assert refusal("time,event,job", "", "0,cancel") == "3: 2 cells; expected 3, as in the header"
    assert refusal(b"time,event,job", b"0,cancel,\xff") == "2: is not UTF-8 text: byte 0xff"
    assert refusal("time,event,time") == "1: column 'time' and column 'time' are the same"
    assert refusal('{"time":0,"event":"up","nodes":"n1"}') == "1: field 'nodes' is unknown; did you mean node?"
    assert refusal("{}", "[1]") == f"2: '[1]'; expected an object with {known}"
    assert refusal("{}") == f"1: event is empty; expected {KINDS}"
    assert refusal('{"time":0', "}").startswith("1: is not JSON: Expecting")
    assert refusal('{"time":0,"time":1}') == "1: field 'time' appears twice"
    assert refusal('{"time":true}') == "1: time is 'true'; expected a text or a number"
    assert refusal('{"time":[' + "[" * 100_000) == "1: is not JSON: nested too deeply"
    assert refusal(b'{"time":\xff') == "1: is not UTF-8 text: byte 0xff"
    assert refusal(f'{{"time":{"9" * 5000},"event":"up","node":"n1"}}').startswith("1: time is '9999")
    assert refusal('{"time":NaN,"event":"up","node":"n1"}').startswith("1: time is 'NaN'")


def test_the_line_is_that_of_the_file():
    lines = ("time,event,job", "", '0,cancel,"b"', "", "1,cancel,x")
    assert refusal(*lines).startswith("5: job 'x' is unknown")
    lines = ('{"time":0,"event":"cancel","job":"b"}', "", '{"time":0,"event":"cancel","job":"x"}')
    assert refusal(*lines).startswith("3: job 'x' is unknown")


def test_what_python_hands_over_is_refused_by_row():
    def said(table: object) -> str:
        with pytest.raises(InputError) as caught:
            Events.of(table).bind(JOBS, FARM)
        return str(caught.value)

    assert said([*SAME, {"time": 0, "event": "up", "node": "x9"}]).startswith("events: row 5: node 'x9' is unknown")
    assert said([{"time": 0, "when": 3}]).startswith("events: row 1: field 'when' is unknown; expected time, event")
    assert said({"time": [0]}) == "events: no column event; the columns are 'time'"
    assert said({"time": [0], "event": []}) == "events: columns have 0 and 1 rows; expected equal lengths"
    assert said({"time": [0], "event": ["up"], "when": [1]}).startswith("events: column 'when' is unknown")
    assert said([{"time": True, "event": "up", "node": "n1"}]).startswith("events: row 1: time is 'True'")
    for nothing in ("events.csv", "", 3, [1], None):
        with pytest.raises(UsageError, match="expected a list of dicts, a dict of columns or a DataFrame"):
            Events.of(nothing)


def test_files_that_are_none_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"events is '-'; expected a file: \.csv"):
        read_events("-")
    with pytest.raises(EventsError, match=r"e\.txt: unknown suffix; expected \.csv, \.jsonl"):
        read_events(tmp_path / "e.txt")
    with pytest.raises(EventsError, match=r"e\.csv: cannot be read: No such file"):
        read_events(tmp_path / "e.csv")
    with pytest.raises(EventsError, match="is empty"):
        read_events(b" ")


def test_more_than_the_core_can_count_is_refused():
    two = "time,event,node,resource,value", *(f"0,capacity,{n},cpus,4095P" for n in ("n1", "n2"))
    assert refusal(*two) == " the nodes may hold more than 2^62 cpus between them"


@given(micros=st.integers(-TIME_MAX, TIME_MAX))
def test_a_time_is_read_as_it_was_written(micros):
    as_json = json.dumps({"time": "T", "event": "cancel", "job": "b"}).replace('"T"', seconds_text(micros))
    for data in (f"time,event,job\n{seconds_text(micros)},cancel,b", as_json):
        assert read_events(data.encode()).time.tolist() == [micros]
    assert Events.of([{"time": Decimal(micros) / SECOND, "event": "cancel", "job": "b"}]).time.tolist() == [micros]


@given(data=st.binary(max_size=60), json_lines=st.booleans())
def test_no_bytes_do_harm(data, json_lines):
    head = b'{"time":' if json_lines else b"time,event,job\n"
    with contextlib.suppress(InputError):
        read_events(head + data).bind(JOBS, FARM)
