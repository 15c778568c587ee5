"""Outages of `sacctmgr show event` and reservations of `scontrol show reservation`, on the clock of a log."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.clock import Clock
from backfill.model.errors import EventsError
from backfill.model.platform import Platform
from backfill.traces.accounting.slurm_events import DOWN, DRAIN, _joined, read_slurm_events
from backfill.traces.files import Source
from backfill.traces.table import read_table

BERLIN = Clock.parse("2026-03-02T07:00:00Z[Europe/Berlin]")  # 8:00 there
LOG = replace(
    read_table(
        b"job,submit,runtime,walltime,user,group,reservation\n"
        b"1,0,600,3600,ann,phys,course\n2,60,600,7200,bob,chem,\n3,90,60,60,eve,chem,party\n"
    ),
    clock=BERLIN,
)
NODES = Platform(
    nodes=("n1", "n2", "n3", "n4"),
    resources=("cpus",),
    capacity=np.array([[16]] * 4),
    speed=np.ones(4),
    site=np.zeros(4, np.int64),
    licences=(),
    copies=np.array([], np.int64),
    name="farm",
)
HEADER = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
EVENTS = f"""{HEADER}
c||2026-03-01T00:00:00|Unknown||Cluster Registered TRES|
c|n1|2026-03-02T06:00:00|2026-03-02T07:30:00|DOWN|old|root(0)
c|n1|2026-03-02T09:00:00|2026-03-02T10:00:00|DRAIN|disk | fan|root(0)
c|n2|2026-03-02T09:00:00|2026-03-02T10:00:00|DOWN*|Not responding|slurm(64030)
c|n2|2026-03-02T09:30:00|2026-03-02T11:00:00|DOWN|again|slurm(64030)
c|n2|2026-03-02T10:30:00|2026-03-02T12:00:00|DRAINED|check|root(0)
c|n3|2026-03-02T12:00:00|Unknown|FAIL|flaky|root(0)
c|n4|2026-03-02T13:00:00|Unknown|DOWN|power|root(0)
c|n4|2026-03-02T08:30:00|2026-03-02T08:30:00|UNK|cold-start|root(0)
c|gpu7|2026-03-02T13:00:00|Unknown|DOWN|power|root(0)
"""
RESERVATIONS = """ReservationName=course StartTime=2026-03-02T14:00:00 EndTime=2026-03-02T16:00:00 Duration=02:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=SPEC_NODES
   TRES=cpu=32
   Users=ann,bob Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

ReservationName=cores StartTime=2026-03-03T14:00:00 EndTime=2026-03-03T15:00:00 Duration=01:00:00
   Nodes=n[3-4] NodeCnt=2 CoreCnt=6 Features=(null) PartitionName=main Flags=DAILY,SPEC_NODES
     NodeName=n3 CoreIDs=0-1
     NodeName=n4 CoreIDs=0-2,7
   TRES=cpu=12
   Users=(null) Groups=(null) Accounts=phys Licenses=lic:2 State=INACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

ReservationName=maint StartTime=2026-03-05T08:00:00 EndTime=2027-03-05T08:00:00 Duration=365-00:00:00
   Nodes=n[1-4] NodeCnt=4 CoreCnt=64 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES
   TRES=cpu=64
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

ReservationName=lics StartTime=2026-03-02T14:00:00 EndTime=2026-03-02T16:00:00 Duration=02:00:00
   Nodes=(null) NodeCnt=0 CoreCnt=0 Features=(null) PartitionName=(null) Flags=ANY_NODES
   TRES=license/lic=2
   Users=root Groups=(null) Accounts=(null) Licenses=lic:2 State=INACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

"""
PARTY = (
    "ReservationName=party StartTime=2026-03-02T20:00:00 EndTime=2026-03-02T21:00:00 Duration=01:00:00 Nodes=n3 "
    "NodeCnt=1 CoreCnt=6 Flags={flags} TRES=cpu=6 Users={users} Groups={groups} Accounts={accounts} Licenses=(null)\n"
)


def taken(text, log=LOG, **more):
    return read_slurm_events(Source.of(text.encode()), log, NODES, **more)


def told(text, **more):
    """The filled cells of each event, dates without the day's beginning and the zone."""
    events = taken(text, **more).events
    rows = zip(*events.cells.values(), strict=True)
    return [" ".join(cell.removesuffix("+01:00").removesuffix(":00") for cell in row if cell) for row in rows]


def refusal(text, **more):
    with pytest.raises(EventsError) as caught:
        taken(text, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_outages_end_runs_and_drains_are_known_so_early_that_no_run_meets_them():
    assert told(EVENTS) == [
        "2026-03-02T08:00 window n1 2026-03-02T09:00 2026-03-02T10:00",
        "2026-03-02T09:00 down n2",
        "2026-03-02T11:00 up n2",
        "2026-03-02T09:00 window n2 2026-03-02T11:00 2026-03-02T12:00",  # two hours, the longest walltime, before
        "2026-03-02T10:00 window n3 2026-03-02T12:00 100000000000",
        "2026-03-02T13:00 down n4",
    ]
    found = taken(EVENTS)
    assert (found.outages, found.drains, found.reservations, found.windows) == (2, 3, 0, 0)
    assert found.left_out == {
        "rows of the whole cluster": 1,
        "those over before the log begins": 1,
        "rows in state UNK, which is no outage": 1,
        "rows of nodes that the platform does not have": 1,
    }
    assert not found.notes


def test_every_form_of_the_output_says_the_same():
    want = told(EVENTS)
    lines = EVENTS.splitlines()
    parsable = "".join(f"{line}|\n" for line in lines)
    cells = [line.split("|") for line in lines[1:]]
    moved = "".join(f"{row[4]}|{row[1]}|{row[3]}|{row[2]}|{'|'.join(row[5:-1])}\n" for row in cells)
    assert told(parsable) == told(EVENTS.replace("\n", "\r\n")) == told(EVENTS + EVENTS) == want
    assert told(moved, fields="State%20,nodename,End,TimeStart,Reason") == want
    assert told("State|NodeName|TimeEnd|TimeStart|Reason\n" + moved) == want
    seconds = f"{HEADER}\nc|n4|1772452800|Unknown|DOWN|power|root(0)\n"
    assert told(seconds) == ["2026-03-02T13:00 down n4"]
    assert told(seconds.replace("1772452800", "2026-03-02T07:00:00"), zone="America/New_York") == told(seconds)


def test_reservations_are_known_from_the_begin_of_the_log():
    begin = "2026-03-02T08:00"
    want = [
        f"{begin} reserve n1 2026-03-02T14:00 2026-03-02T16:00 course ann;bob",
        f"{begin} reserve n2 2026-03-02T14:00 2026-03-02T16:00 course ann;bob",
        f"{begin} reserve n3 cpus 2026-03-03T14:00 2026-03-03T15:00 4 cores phys",
        f"{begin} reserve n4 cpus 2026-03-03T14:00 2026-03-03T15:00 8 cores phys",
        f"{begin} window * 2026-03-05T08:00 2027-03-05T08:00",
    ]
    assert told(RESERVATIONS) == want
    one_line = "\n".join(" ".join(each.split()) for each in RESERVATIONS.split("\n\n"))
    assert told(one_line) == told(RESERVATIONS + one_line) == want
    found = taken(RESERVATIONS)
    assert (found.outages, found.drains, found.reservations, found.windows) == (0, 0, 2, 1)
    assert found.left_out == {"reservations without nodes of the platform": 1}
    assert found.not_carried == {"DAILY": 1, "Licenses": 1}
    assert found.notes == ("1 job will be rejected: the file has no reservation party",)
    assert found.events.cells["group"][2] == "phys"


def test_both_outputs_may_follow_one_another():
    both = EVENTS + RESERVATIONS + EVENTS + "No reservations in the system\n"
    alone = [row for row in told(RESERVATIONS) if not row.startswith("2026-03-02T08:00 reserve n3 cpus")]
    assert told(both) == told(EVENTS) + alone  # n3 is drained at that time
    lost = {"DAILY": 1, "Licenses": 1, "cpus of nodes that are closed at the time": 1}
    assert taken(both).not_carried == lost
    gone = EVENTS.replace("2026-03-02T12:00:00|Unknown|FAIL", "2026-03-02T12:00:00|Unknown|DRAIN")
    party = PARTY.format(users="ann", groups="", accounts="", flags="")
    assert told(gone + party) == told(gone)
    assert taken(gone + party).reservations == 0


@pytest.mark.parametrize(
    ("said", "event", "lost"),
    [
        ({"users": "ann"}, "reserve n3 cpus {} 6 party ann", {}),
        ({"users": "ann", "accounts": "phys"}, "reserve n3 cpus {} 6 party ann", {"Accounts beside Users": 1}),
        ({"groups": "wheel"}, "window n3 cpus {} 6", {"Groups": 1}),
        ({"users": "-ann"}, "window n3 cpus {} 6", {"owners, if all but some": 1}),
        ({"accounts": "phys,-chem"}, "window n3 cpus {} 6", {"owners, if all but some": 1}),
        ({"users": "ann", "flags": "FLEX,MAGNETIC"}, "reserve n3 cpus {} 6 party ann", {"FLEX": 1, "MAGNETIC": 1}),
        ({"users": "root", "flags": "MAINT,OVERLAP"}, "window n3 cpus {} 6", {}),
    ],
)
def test_what_events_cannot_say_of_a_reservation_is_counted(said, event, lost):
    text = PARTY.format(**({"users": "(null)", "groups": "(null)", "accounts": "(null)", "flags": ""} | said))
    span = "2026-03-02T20:00 2026-03-02T21:00"
    assert told(text) == [f"2026-03-02T08:00 {event.format(span)}"]
    assert taken(text).not_carried == lost


def test_of_two_reservations_on_the_same_nodes_the_second_is_for_nobody():
    party = PARTY.format(users="ann", groups="(null)", accounts="(null)", flags="OVERLAP")
    whole = party.replace("CoreCnt=6", "CoreCnt=16").replace("cpu=6", "cpu=16").replace("party", "ball")
    assert told(whole + party)[1].startswith("2026-03-02T08:00 window n3 cpus")
    assert told(party + party.replace("party", "ball"))[1].endswith("6 ball ann")  # beside one another
    later = party.replace("-02T2", "-03T2")
    assert told(party + later)[1].startswith("2026-03-02T08:00 window n3")  # its name is taken
    lost = "owners of one beside another of its name or on its nodes"
    assert taken(party + later).not_carried == taken(whole + party).not_carried == {lost: 1}


def test_broken_lines_are_counted_and_a_file_of_nothing_else_is_refused():
    lines = EVENTS + "c|n1|soon|Unknown|DOWN|x|y\nc|n1|2026\nhello\n" + f"c|n1|2026-03-03|2026-03-02|DOWN|x|y\n{PARTY}"
    found = taken(lines.format(users="ann", groups="", accounts="", flags="").replace("Nodes=n3", "Nodes=n[x]"))
    assert found.left_out["broken line"] == 5
    assert found.notes[0].startswith(
        "broken line: <bytes>:12: TimeStart is 'soon'; expected a number of seconds or a date"
    )
    assert found.notes[1] == "broken line: <bytes>:13: 3 cells; expected 7, as in the header"
    assert found.notes[3] == "and 2 more broken lines"
    assert refusal(f"{HEADER}\nc|n1|soon|Unknown|DOWN|x|y\n").startswith("<bytes>:2: TimeStart is 'soon'; expected")
    assert refusal("hello\n").startswith("<bytes>:1: is 'hello'; expected")
    assert refusal("c|n1|2026\n").startswith("<bytes>:1: no header with NodeName and TimeStart; expected the output of")
    assert (
        refusal("NodeName|State|TimeStart\n")
        == "<bytes>:1: no column TimeEnd; expected NodeName, TimeStart, TimeEnd, State"
    )
    other = EVENTS.replace("|n", "|m")
    assert refusal(other).startswith(
        "<bytes>: no outage or reservation of the 4 nodes of farm in the time of the log; "
    )


def test_a_log_without_a_calendar_has_no_place_for_dates():
    said = refusal(EVENTS, log=replace(LOG, clock=None))
    assert said == "<bytes>: bytes states no calendar (time_zero), so dates have no place in it"


SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.sampled_from([DRAIN, DOWN])), max_size=6)


@given(spans=SPANS)
def test_spans_of_a_node_are_joined_without_overlaps(spans):
    spans = [(begin, begin + length, kind) for begin, length, kind in spans]
    joined = [*_joined(spans)]
    for t in range(20):
        want = max((kind for begin, end, kind in spans if begin <= t < end), default=0)
        assert [kind for begin, end, kind in joined if begin <= t < end] == ([want] if want else [])
    assert all(one[1] < other[0] or one[2] != other[2] for one, other in pairwise(joined))
