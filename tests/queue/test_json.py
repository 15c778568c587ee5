"""`--json` of every verb of the queue has its published schema."""

from tests.schemas import check

PROJECT = """name = "p"
[[job]]
name = "a"
command = "true"
time = "1m"
[[job]]
name = "b"
command = "true"
time = "1m"
after = ["a"]
"""


def test_what_verbs_of_the_queue_print_has_the_published_schema(live):
    def told(verb, *words, name="", code=0):
        return check(name or verb, live.run(verb, "--json", *words, check=code).stdout)

    told("submit", "-t", "1", "--wrap", "echo ran")
    refused = check("error", live.run("submit", "-c", 99, "--json", "--", "true", check=None).stderr)["error"]
    assert (refused["kind"], refused["field"]) == ("impossible", "cpus")
    told("wait", 1)
    told("log", 1)
    held = int(live.run("submit", "--parsable", "-H", "--", "true").stdout)
    assert "no output yet" in check("error", live.run("log", held, "--json", check=1).stderr)["error"]["message"]
    live.run("cancel", held)
    told("submit", "-t", "9", "-c", 4, "--wrap", "while [ ! -e go ]; do sleep 0.05; done")
    told("submit", "-t", "5", "-c", 2, "-J", "later", "--", "true")
    live.until(lambda: live.request("ping")["planner"]["ready"])
    told("submit", "--test-only", "-t", "5", "--", "true", name="submit-test")
    for verb in ("queue", "eta", "slots", "doctor", "top"):
        told(verb, code=None)
    told("eta", "--accuracy", name="eta-accuracy")
    told("explain", 4)
    told("show", 1, 3, 4)
    told("edit", 4, "--time", "4")
    for verb in ("hold", "release"):
        told(verb, 4)
    for verb in ("suspend", "resume"):
        told(verb, 3)
    told("pause")
    told("resume")
    told("reserve", "course", "--nodes", 1, "--from", "now+2h", "--for", "1h", "--user", "root")
    told("reserve", name="reservations")
    live.run("eta")
    told("plan")
    told("unreserve", "course")
    told("serve", "--policy", "fcfs", "--dry-run")
    told("requeue", 3)
    (live.folder / "p.toml").write_text(PROJECT)
    told("submit", "--project", live.folder / "p.toml", name="submit-project")
    told("show", "--project", "p", name="show-project")
    told("eta", "--project", "p", name="eta-project")
    urgent = told("submit", "-c", 4, "-t", "9", "--deadline", "now+10m", "--", "true")
    if urgent["misses_deadline"] is not None:  # None if the planner did not answer within a second
        assert urgent["misses_deadline"] is True
    told("explain", urgent["id"])
    told("eta", urgent["id"])
    told("cancel", "--all")
    told("history")
    told("history", "--by", "user", name="history-sums")
    live.run("serve", "--stop")
    told("replay", live.folder)
