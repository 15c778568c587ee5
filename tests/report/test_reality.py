"""The waits of the log beside those of the policies."""

import pytest

from backfill.analysis.metrics import Metrics
from backfill.report.page import Page, PolicyRun, Provenance, render
from backfill.report.reality import Reality, class_rows, replay_rows


def replay(policy: str, simulated_s: float) -> dict:
    """As the JSON has it."""
    relative = simulated_s / 3600 - 1
    one = {"by": "size", "class": "1 cpu", "jobs": 1234, "recorded_s": 3600.0, "simulated_s": simulated_s,
           "relative": relative}  # fmt: skip
    return {"policy": policy, "jobs": 1234, "recorded_s": 3600.0, "simulated_s": simulated_s, "relative": relative,
            "off_s": abs(simulated_s - 3600), "correlation": -0.25,
            "within_s": {"60": 0.4, "600": 0.612, "3600": 0.9}, "classes": [one],
            "sentence": f"{policy}: near"}  # fmt: skip


BOTH = Reality("easy comes closest to the waits of the log", [replay("fcfs", 36_000), replay("easy", 3960)])


def test_each_policy_stands_beside_the_log():
    assert replay_rows(BOTH, "h") == [
        ("fcfs", ["1.0 h", "10 h", "+900%", "61%", "−0.25"]),
        ("easy", ["1.0 h", "1.1 h", "+10%", "61%", "−0.25"]),
    ]
    assert class_rows(BOTH, "min") == [("size", "1 cpu", "1,234", "60 min", ["600 min (+900%)", "66 min (+10%)"])]


def test_the_first_screen_says_what_the_log_recorded_and_leads_to_the_section():
    made = Provenance(version="1", seed=0, command="")
    runs = [PolicyRun(policy, Metrics(mean_wait_s=1.0)) for policy in ("fcfs", "easy")]
    page = render(Page.of("t", runs, made, reality=BOTH))
    told = 'In the log itself these jobs waited 3,600 s on average: see <a href="#reality">against reality</a>.'
    assert page.index(told) < page.index('id="summary"')
    assert "easy comes closest to the waits of the log" in page
    assert "reality" not in render(Page.of("t", runs, made)).partition("<body>")[2]


@pytest.mark.parametrize(
    ("simulated_s", "told"),
    [(4400, ""), (4600, "(+28%)"), (2600, "(-28%)"), (36_000, "(10 times as long)")],
)
def test_the_first_screen_warns_where_the_simulation_is_far_from_the_log(simulated_s, told):
    made = Provenance(version="1", seed=0, command="")
    real = Reality("x", [replay("fcfs", 99_000), replay("easy", simulated_s)])
    page = render(Page.of("t", [PolicyRun("easy", Metrics(mean_wait_s=1.0))], made, reality=real))
    far = f"The simulation is far from that, even under <bdi>easy</bdi> {told}: trust differences between policies"
    assert (far in page) == bool(told)
    assert ("far from that" in page) == bool(told)


def test_it_is_read_from_the_json_of_a_result_or_a_comparison():
    assert Reality.of({"replay": replay("easy", 1.0)}) == Reality("easy: near", [replay("easy", 1.0)])
    two = {"results": [{"replay": each} for each in BOTH.replays], "reality": BOTH.sentence}
    assert Reality.of(two) == BOTH
    assert Reality.of({"results": [{}]}) is None
