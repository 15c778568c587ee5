"""Policies that loop, crash or are not there, and planners that somebody kills: the queue goes on. Real processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backfill.daemon import link
from backfill.daemon.link import OUTSIDE
from backfill.queue.engine import WITHDRAWALS
from backfill.system import processes
from tests.patience import PATIENCE_S, completed
from tests.queue.conftest import PYTHON
from tests.queue.virtual import Virtual

HEAD = "import os, time\nimport backfill as bf\n\n\n@bf.policy({name!r}, compiled=False)\ndef {name}(view):\n"
LOOPS = {
    "computes": "    while True:\n        pass\n",
    "sleeps": "    while True:\n        time.sleep(100)\n",
    "ends": "    os._exit(0)\n",
    "raises": "    raise SystemExit(0)\n",
    "segfaults": "    os.kill(os.getpid(), 11)\n",
}
LOADS = {"computes": "while True:\n    pass\n", "sleeps": "time.sleep(1000)\n"}  # as a module is imported


def own_policy(live, body, name="mine"):
    (live.folder / f"{name}.py").write_text(HEAD.format(name=name) + body)
    live.configure(f"{name}.py:{name}")


def own_module(live, body):
    (live.folder / "mine.py").write_text(HEAD.format(name="mine") + "    pass\n\n\n" + body)


def planner(live):
    return live.until(lambda: [*live.request("ping")["planner"]["pids"].values()])


@pytest.mark.parametrize("what", LOOPS)
def test_a_policy_that_does_not_decide_is_replaced_and_may_return(live, what):
    own_policy(live, LOOPS[what])
    number = live.submit("-t", "1", "--wrap", "echo ran")
    live.run("wait", number)  # which gives up before a looping policy was given up once
    found = live.request("queue")
    assert found["policy"] == "easy"
    assert "mine" in found["asked_policy"]
    last = live.run("queue").stdout.splitlines()[-1]
    assert "policy easy in place of" in last
    assert "backfill serve --policy" in last
    if what in ("computes", "sleeps"):
        return  # its trial takes as long as it may
    told = live.run("serve", "--policy", found["asked_policy"], check=1).stderr
    assert "--drop-promises lets" in told
    live.run("serve", "--policy", found["asked_policy"], "--drop-promises")
    assert live.request("queue")["policy"] == found["asked_policy"]


@pytest.mark.parametrize("what", LOADS)
def test_a_policy_that_does_not_load_is_replaced_as_one_that_does_not_decide(live, what):
    own_module(live, LOADS[what])
    live.configure("mine.py:mine")
    live.run("wait", live.submit("-t", "1", "--wrap", "echo ran"))
    found = live.request("queue")
    assert found["policy"] == "easy"
    assert "mine" in found["asked_policy"]
    said = "it loops" if what == "computes" else "it did not answer"
    assert (live.folder / "daemon.log").read_text().count(said) == 2


def questions(live):
    """The processes that answer questions: children of planners."""
    return [copy for pid in live.request("ping")["planner"]["pids"].values() for copy in processes.children(pid)]


def open_files(pid):
    return {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}


def alive(pids):
    return [pid for pid in pids if processes.state(pid) not in (b"", b"Z")]


@pytest.mark.parametrize("what", ["sleeps", pytest.param("computes", marks=pytest.mark.long)])
def test_a_policy_that_does_not_load_is_found_by_its_trial_and_holds_up_no_other_question(live, what):
    live.submit("-t", "1", "-H", "--", "true")
    live.until(lambda: live.request("ping")["planner"]["ready"])
    own_module(live, LOADS[what])
    words = [*PYTHON, "serve", "--policy", "mine.py:mine"]
    tries = [subprocess.Popen(words, env=live.env, cwd=live.folder, stderr=subprocess.PIPE, text=True) for _ in "12"]
    live.until(lambda: len(alive(questions(live))) == 2)
    live.run("eta")
    live.run("serve", "--policy", "fcfs", "--dry-run")
    assert all(one.poll() is None for one in tries)
    for one in tries:
        told = one.communicate(timeout=90)[1]
        assert "its policy seemed to loop" in told, told
        assert one.returncode == 1
    assert live.request("queue")["policy"] == "easy"
    told = live.run("serve", "--policy", "mine.py:mine", "--drop-promises").stdout
    assert "the trial failed (there is no answer: its process was ended because its policy seemed to loop" in told
    assert "mine" in live.request("queue")["asked_policy"]


def test_a_trial_ends_when_nobody_waits_for_it_any_more(live):
    live.submit("-t", "1", "-H", "--", "true")
    live.until(lambda: live.request("ping")["planner"]["ready"])
    own_module(live, LOADS["sleeps"])
    words = [*PYTHON, "serve", "--policy", "mine.py:mine"]
    asks = subprocess.Popen(words, env=live.env, cwd=live.folder, stderr=subprocess.DEVNULL)
    some = live.until(lambda: alive(questions(live)))
    # A copy of the planner closes its pipes first; if it kept one, the end of the planner would be seen late.
    live.until(lambda: not [file for file in open_files(some[0]) & open_files(*planner(live)) if ":" in file])
    live.kill(asks.pid)
    asks.wait()
    begun = time.monotonic()
    live.until(lambda: not alive(some))
    assert time.monotonic() - begun < 14  # its own limit is twice as late


def test_the_compiler_is_no_part_of_what_a_policy_takes():
    code = (
        "import signal, time; from backfill.worlds.watchdog import CPU, WATCHDOG; "
        "WATCHDOG.cpu_s, said = 0.2, []; WATCHDOG.on_compile = said.append\n"
        "with WATCHDOG.policy():\n"
        "    WATCHDOG.on_start(None); WATCHDOG.on_start(None); WATCHDOG.on_end(None)\n"
        "    begin = time.process_time()\n"
        "    while time.process_time() < begin + 0.4: pass\n"
        "    WATCHDOG.on_end(None)\n"
        "    print(said, 0 < signal.getitimer(CPU)[0] < 0.3, flush=True)\n"
        "print(signal.getitimer(CPU)[0], flush=True)\n"
        "with WATCHDOG.policy():\n"
        "    while True: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.splitlines() == ["[True, False] True", "0.0"], done.stderr
    assert done.returncode == -signal.SIGPROF


def heard(monkeypatch, *steps, blamed=False):
    """Return what is read of a planner that says these things and sleeps between them, and what was heard before."""
    monkeypatch.setattr(link, "SILENT_S", 2.0)
    code = "import json, sys, time\nfor one in json.loads(sys.argv[1]):\n"
    code += "    time.sleep(one) if isinstance(one, float) else print(json.dumps(one), flush=True)\n"

    async def work():
        asks, signs = link.PlannerLink(0), []
        asks._blamed = blamed
        words = [sys.executable, "-c", code, json.dumps(steps)]
        made = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
        try:
            return await asks._read(made, signs.append), signs
        except TimeoutError as error:
            made.kill()
            return str(error), signs
        finally:
            await made.wait()

    return completed(work())


def test_a_planner_that_compiles_may_be_silent_for_long(monkeypatch):
    said = {"compiles": True}, 2.5, {"compiles": False}, {"loaded": True}
    assert heard(monkeypatch, *said) == ({"loaded": True}, [{"compiles": True}, {"compiles": False}])
    for before in ({"progress": True}, {"compiles": False}):
        assert heard(monkeypatch, before, 5.0, {"loaded": True})[0].startswith("it did not answer for")
    for blamed, span in ((False, "2 s"), (True, "1 s")):
        told = heard(monkeypatch, {"progress": True}, PATIENCE_S, blamed=blamed)[0]
        assert told == f"it did not answer for {span}"


STUB = """
import json, os, signal, sys, time
from pathlib import Path
kind, folder = sys.argv[1], Path(sys.argv[2])
say = lambda **told: print(json.dumps(told), flush=True)
if kind == "compiled":
    say(compiles=True)
    while not (folder / "done").exists():
        time.sleep(0.01)
say(loaded=True)
for line in sys.stdin:
    if json.loads(line)["do"] == "ask" and (folder / "endless").exists():
        time.sleep(1000 if kind == "plain" else 0)
    elif json.loads(line)["do"] == "ask":
        os.kill(os.getpid(), signal.SIGPROF)
    say(passes=[], plan=[], wake=None, anew=True, binds=False)
"""


class Stubbed(link.PlannerLink):
    """Its planners are stubs; that of `easy` is compiled already."""

    def __init__(self, folder):
        super().__init__(0)
        self.folder, self.on_change = folder, lambda: None

    async def _start(self, kind):
        pipe, folder = asyncio.subprocess.PIPE, self.folder / "made" if self.policy == "easy" else self.folder
        words = (sys.executable, "-c", STUB, kind, str(folder))
        return await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, start_new_session=True)


class Decides:
    """Return what the link tells the engine if the policy is replaced at its first failure."""

    ready, said, epoch_seq, pass_seq = True, (), 0, 0

    def __init__(self, asks):
        self.asks, self.book, self.notes, self.took_over = asks, self, [], []
        asks.engine = self
        self.begin("mine.py:mine")

    def begin(self, policy):
        self.epoch = {"policy": policy, "asked": "mine.py:mine", "program": "it"}
        self.asks.begin(self.epoch, [], 0)

    def begun(self, answer):
        if self.epoch["policy"] != "easy":
            self.asks.ask(1, [])

    def failed(self, why, blame):
        assert blame
        assert "cpu time" in why
        self.begin("easy")

    def remake(self):
        """The compiled planner has come after the plain one, as it may where cpus are scarce."""
        self.begin(self.epoch["policy"])

    def take_over(self, policy, program):
        self.took_over.append((policy, program))


@pytest.mark.parametrize("wanted", [True, False])
def test_a_policy_that_was_too_slow_in_plain_python_returns_when_it_is_compiled(tmp_path, monkeypatch, wanted):
    monkeypatch.setattr(link, "ONLY_PLAIN", False)
    monkeypatch.setattr(link, "SLOW_S", 0.01)

    made = tmp_path / "made"
    made.mkdir()
    (made / "done").touch()

    async def work():
        asks = Stubbed(tmp_path)
        engine = Decides(asks)

        async def so(what):
            while not what():
                await asyncio.sleep(0.01)

        await so(lambda: engine.epoch["policy"] == "easy" and asks.kind == "compiled")
        await asyncio.sleep(0.1)
        assert not engine.took_over
        if not wanted:
            engine.epoch["asked"] = "fcfs"
        (tmp_path / "done").touch()
        await so(lambda: not wanted or engine.took_over)
        await so(lambda: len(asks._tasks) == 0)  # the process that compiled it is gone
        asks.close()
        await asyncio.gather(*asks._tasks)
        return engine.took_over

    assert completed(work()) == ([("mine.py:mine", "it")] if wanted else [])


class Waits(Decides):
    """Return what the link tells an engine that waits for each answer before it starts another planner."""

    failures, answers = (), 0

    def remake(self):
        pass

    def failed(self, why, blame):
        self.failures += ((why, blame),)
        self.begin("mine.py:mine")

    def decided(self, answer):
        self.answers += 1


def test_a_pass_in_plain_python_that_does_not_end_is_given_up_when_the_policy_is_compiled(tmp_path, monkeypatch):
    for name, value in (("ONLY_PLAIN", False), ("SLOW_S", 0.01), ("OUTDONE_S", 0.01)):
        monkeypatch.setattr(link, name, value)
    (tmp_path / "endless").touch()

    async def work():
        asks = Stubbed(tmp_path)
        engine = Waits(asks)
        while asks.kind != "plain" or asks._busy is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        (tmp_path / "done").touch()
        while not engine.answers:
            await asyncio.sleep(0.01)
        assert asks.kind == "compiled"
        asks.close()
        await asyncio.gather(*asks._tasks, return_exceptions=True)
        return engine.failures

    assert completed(work()) == (("it took too long in plain Python; the compiled planner continues", False),)


ASKED = """
import json, os, sys, time
print('{"loaded": 1}', flush=True)
for line in sys.stdin:
    if '"do":"question"' in line:
        FIRST
    print('{}', flush=True)
"""
ENDS, SLEEPS = "sys.exit(3)", "time.sleep(1000)"
COPIED = """
        pipe, copy = os.open(json.loads(line)["to"], os.O_WRONLY), os.fork()
        if not copy:
            time.sleep(1000)
        os.close(pipe)
        print(json.dumps({"asked": copy}), flush=True)
        continue
"""


class Asks(link.PlannerLink):
    """Its planners are made, and this is what they do first when they are asked a question."""

    def __init__(self, first):
        super().__init__(0)
        self.first = first

    async def _start(self, kind):
        pipe, words = asyncio.subprocess.PIPE, (sys.executable, "-c", ASKED.replace("FIRST", self.first))
        return await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, start_new_session=True)


class Told:
    """An engine whose planner is ready; failures: what it was told of planners that are gone."""

    ready, epoch_seq, pass_seq = True, 0, 0

    def __init__(self):
        self.book, self.outbox, self.failures, self.made = self, [["submit", 1, {}]], [], 0

    def begun(self, answer):
        self.made += 1

    def failed(self, why, blame):
        self.failures.append((why, blame))


def test_a_process_that_has_no_planner_yet_is_asked_nothing_and_a_planner_that_dies_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "ONLY_PLAIN", True)

    async def work():
        asks, told = Asks(ENDS), []
        engine = asks.engine = Told()
        asks.on_change = lambda: None
        await asks.warm("easy")
        asks.kind = "plain"
        while not asks._loaded:
            await asyncio.sleep(0.01)

        async def ask():
            before = len(told)
            asks.question(tmp_path, {"what": "eta"}, told.append)
            while len(told) == before:
                await asyncio.sleep(0.01)

        await ask()
        assert told[-1]["error"]["code"] == "starting"
        assert engine.outbox == [["submit", 1, {}]]  # it is not lost
        asks.begin({"policy": "easy", "asked": "easy", "program": "it"}, [], 0)
        while not engine.made:
            await asyncio.sleep(0.01)
        await ask()
        assert told[-1]["error"]["code"] == "question"
        while not engine.failures:  # without a pass that finds it gone
            await asyncio.sleep(0.01)
        assert engine.failures == [("it ended with exit code 3", False)]
        asks.close()
        await asyncio.gather(*asks._tasks, return_exceptions=True)

    completed(work())


@pytest.mark.parametrize("first", [SLEEPS, COPIED])
def test_a_question_to_a_planner_that_is_replaced_is_asked_again(tmp_path, monkeypatch, first):
    monkeypatch.setattr(link, "ONLY_PLAIN", True)

    async def work():
        asks, told = Asks(first), []
        engine = asks.engine = Told()
        asks.on_change = lambda: None
        asks.begin({"policy": "easy", "asked": "easy", "program": "it"}, [], 0)
        while not engine.made:
            await asyncio.sleep(0.01)
        planner = asks._made["plain"].pid
        asks.question(tmp_path, {"what": "eta"}, told.append)
        while not (asks._turn.locked() if first == SLEEPS else processes.children(planner)):
            await asyncio.sleep(0.01)
        asks._drop("plain")  # the compiled one has taken over
        while not told:
            await asyncio.sleep(0.01)
        await asyncio.gather(*asks._tasks, return_exceptions=True)
        return told[0]["error"]["code"], engine.failures

    assert completed(work()) == ("starting", [])


def test_a_planner_whose_daemon_is_gone_ends_without_a_word():
    command = [sys.executable, "-P", "-m", "backfill.daemon.planning", "easy", "60"]
    pipe = subprocess.PIPE
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as made:
        made.stdout.close()
        assert made.stderr.read() == ""
        assert made.wait(PATIENCE_S) == 0


def test_a_policy_of_the_table_may_think_for_longer_than_one_of_a_file():
    asks = link.PlannerLink(0)
    for policy, first, then in (("mine.py:mine", 6.0, 3.0), ("conservative", 60.0, 60.0)):
        asks.policy, asks._blamed = policy, False
        assert asks._cpu_s == first
        asks._blamed = True
        assert asks._cpu_s == then


def test_a_planner_says_that_it_compiles_before_it_has_loaded_anything_that_is_compiled():
    code = "import sys\nfrom backfill.daemon import planning\nimport backfill.worlds.watchdog\nprint([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "backfill.worlds.watchdog" in done.stdout
    assert "backfill.core" not in done.stdout


def test_a_policy_that_loops_is_replaced_at_once_on_request(live):
    own_policy(live, LOOPS["computes"])
    number = live.submit("-t", "1", "--wrap", "echo ran")
    live.until(lambda: live.request("ping")["planner"]["pids"])
    live.run("serve", "--policy", "fcfs", "--drop-promises")
    live.run("wait", number)
    found = live.request("queue")
    assert (found["policy"], found["asked_policy"]) == ("fcfs", "fcfs")


def test_a_policy_that_would_loop_is_found_by_its_trial(live):
    number = live.submit("-t", "1", "-c", "4", "--wrap", "while [ ! -e go ]; do sleep 0.05; done")
    live.submit("-t", "1", "-c", "4", "--", "true")
    own_policy(live, LOOPS["sleeps"])
    live.until(lambda: live.request("ping")["planner"]["ready"])
    told = live.run("serve", "--policy", "mine.py:mine", "--dry-run", check=1).stderr
    assert "its policy seemed to loop" in told
    assert live.request("queue")["policy"] == "easy"
    (live.folder / "go").touch()
    live.run("wait", number)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise ValueError('x')", "{file}:7: policy mine: ValueError: x"),
        ("import os; os._exit(3)", "there is no answer: its process ended by itself, with exit code 3"),
    ],
    ids=["raises", "ends"],
)
def test_a_policy_that_raises_or_ends_its_process_is_told_from_one_that_loops(live, line, said):
    live.submit("-t", "1", "-H", "--", "true")
    live.until(lambda: live.request("ping")["planner"]["ready"])
    file = live.folder / "mine.py"
    file.write_text(HEAD.format(name="mine") + f"    {line}\n")
    told = live.run("serve", "--policy", "mine.py:mine", check=1).stderr
    assert told == (
        f"backfill: {said.format(file=file)}; nothing was changed; --drop-promises lets {file}:mine take over untried\n"
    )
    assert live.request("queue")["policy"] == "easy"
    assert "Traceback" not in (live.folder / "daemon.log").read_text()


def test_a_policy_that_raises_on_a_live_queue_is_told_in_one_line(live):
    own_policy(live, "    raise ValueError('x')\n")
    live.run("wait", live.submit("-t", "1", "--wrap", "echo ran"))
    log = (live.folder / "daemon.log").read_text()
    assert ":7: policy mine: ValueError: x" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_planner_that_is_killed_is_made_anew_with_its_policy(live, number):
    assert number in OUTSIDE
    live.configure("easy-sjf")
    live.submit("-t", "1", "-H", "--", "true")
    for _ in range(5):
        for pid in planner(live):
            live.kill(pid) if number == signal.SIGKILL else _terminate(pid)
        job = live.submit("-t", "1", "--", "true")
        live.run("wait", job)
    found = live.request("queue")
    assert (found["policy"], found["asked_policy"]) == ("easy-sjf", "easy-sjf")
    assert "in place of" not in live.run("queue").stdout


def _terminate(pid):
    processes.send(pid, signal.SIGTERM)


def test_files_of_the_working_folder_are_nobodys_modules(live):
    for name in ("random", "json", "numpy", "numba", "asyncio", "signal"):
        (live.folder / f"{name}.py").write_text("raise RuntimeError('this is not yours')\n")
    # The folder in which all of them are called, each as a process that loads what it needs.
    number = live.submit("-t", "1", "--wrap", "echo ran", PYTHONHASHSEED="0")
    live.run("wait", number)
    assert json.loads(live.run("eta", "--json").stdout)["jobs"] == []
    assert "this is not yours" not in (live.folder / "daemon.log").read_text()
    live.run("simulate", "model:lublin?jobs=50&cpus=16", "--cpus", 16, "--policy", "fcfs")


@pytest.mark.parametrize("name", ["nosuch", "esy", "nosuch:k=3"])
def test_a_policy_that_is_not_there_is_told_by_the_first_command(live, name):
    live.configure(name)
    for words in (["submit", "--", "true"], ["queue"]):
        told = live.run(*words, check=4).stderr
        assert f"config.toml: unknown policy '{name.partition(':')[0]}'" in told
        assert told.count("\n") == 1
    live.configure("easy")
    live.run("wait", live.submit("--", "true"))


def test_a_planner_goes_on_from_the_disk_and_from_the_log_if_that_is_not_to_be_read(live):
    live.configure("conservative")
    for _ in range(8):
        live.submit("-t", "1", "--wrap", "true")
    runs = live.submit("-t", "10", "-c", "4", "--wrap", "while [ ! -e go ]; do sleep 0.1; done")
    live.until(lambda: live.job(runs)["state"] == "RUNNING")  # so that no kill hits the pass that starts it
    waits = live.submit("-t", "10", "-c", "4", "--wrap", "true")
    kept = live.folder / "planner.kept"
    live.until(lambda: kept.exists() and live.job(waits)["promise_s"])
    promise = live.job(waits)["promise_s"]
    for damage in (None, lambda: kept.write_bytes(kept.read_bytes()[:-50]), lambda: kept.write_bytes(b"{}")):
        if damage:
            damage()
        live.kill(*planner(live))
        later = live.submit("-t", "1", "-c", "4", "--wrap", "true")  # at which its death is noticed
        assert live.until(lambda later=later: live.job(later)["promise_s"]) > promise
        assert live.request("queue")["policy"] == "conservative"
        assert live.job(waits)["promise_s"] == promise
    live.run("serve", "--stop")
    (live.folder / "go").touch()
    live.run("wait", waits)
    log = (live.folder / "daemon.log").read_text()
    assert "other decisions" not in log
    assert "planner.kept cannot be read" in log
    live.run("replay", live.folder, "--check")


def test_a_job_whose_starts_never_fit_is_held_for_that_reason(tmp_path):
    queue = Virtual(tmp_path)
    _, other = queue.submit(4), queue.submit(4)
    for _ in range(WITHDRAWALS):
        queue.t += 1
        queue.engine.asked = queue.t
        start = {"starts": [[other, "fit"]], "preempts": [], "plan": [], "wake": None, "anew": False}
        queue.engine.decided({"now": queue.t, **start})
        assert queue.job(other).held in ("", "StartsDeclined")
        queue.flush()
    assert queue.job(other).held == "StartsDeclined"
    assert "count what is free differently" in queue.engine.notes[-1]
