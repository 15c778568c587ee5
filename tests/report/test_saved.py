"""A saved result gives the page again, and what is not one is told in a line."""

import json

import pytest

import backfill as bf
from backfill.analysis.metrics import Trim
from backfill.api import SCHEMA
from backfill.model.errors import InputError
from backfill.report import saved
from backfill.report.page import render, write_page
from backfill.report.saved import RESULT, load, rewrite

FARM = """
[[node]]
name = "m"
count = 3
cpus = 4
[[node]]
name = "big"
cpus = 8
"""


def same(tmp_path, found) -> None:
    """The page of the saved result is the fresh one to the byte, and so is what is saved of it again."""
    found.report(tmp_path / "at once.html", "backfill x")
    found.save(tmp_path / "saved", "backfill x")
    page = rewrite(tmp_path / "saved", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "at once.html").read_bytes()
    assert page.shown
    with saved._judged(tmp_path / "saved") as outcome:
        pass
    kept = json.loads((tmp_path / "saved" / RESULT).read_text())
    assert {name: value for name, value in outcome.data.items() if name != "files"} == json.loads(
        json.dumps(found.outcome("backfill x").data)
    )
    saved.save(tmp_path / "twice", outcome)
    assert json.loads((tmp_path / "twice" / RESULT).read_text()).keys() == kept.keys()
    assert rewrite(tmp_path / "twice", tmp_path / "thrice.html").title == page.title
    assert (tmp_path / "thrice.html").read_bytes() == (tmp_path / "at once.html").read_bytes()


def test_the_page_of_a_saved_result_is_that_of_the_result(tmp_path):
    log = bf.generate("lublin?jobs=200&cpus=20&load=0.9")
    same(tmp_path, bf.simulate(log, policy="easy", warmup=20))


def test_the_page_of_a_saved_comparison_is_that_of_the_comparison(tmp_path):
    log = bf.generate("lublin?jobs=200&cpus=20&load=0.9")
    same(tmp_path, bf.compare(log, None, ["fcfs", "easy", "k-reservations:k=3"]))


def test_the_page_of_a_saved_result_counts_its_dead_time(tmp_path):
    log = bf.generate("lublin?jobs=200&cpus=20&load=0.9").with_dead_time(60_000_000)
    same(tmp_path, bf.compare(log, None, ["fcfs", "easy"]))


def test_the_replay_of_reality_is_kept_under_the_names_of_the_comparison(tmp_path):
    rows = [f"{i} {10 * i} {7 * i} 100 2 -1 -1 2 200 -1 1 1 1 1 1 1 -1 -1" for i in range(1, 40)]
    (tmp_path / "real.swf").write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    found = bf.compare(bf.read(tmp_path / "real.swf"), None, ["easy", "k-reservations"])
    assert [each.policy for each in found.replays] == ["easy", "k-reservations"]
    same(tmp_path, found)


def test_means_over_replications_are_kept(tmp_path):
    same(tmp_path, bf.compare("lublin?jobs=60&cpus=16", None, ["fcfs", "easy"], replications=3))


def test_licences_and_deadlines_are_kept(tmp_path):
    same(tmp_path, bf.compare(bf.generate("farm?machines=6&licences=4&jobs=80"), None, ["bf-fcfs", "bf-mod:k=2"]))


def test_use_imbalance_and_what_is_unusable_are_kept(tmp_path):
    (tmp_path / "farm.toml").write_text(FARM.replace("cpus = 4\n", "cpus = 4\nmemory = 8\n") + "memory = 4\ngpus = 2\n")
    rows = [f"{i},{7 * i},{20 + i % 5},{1 + i % 3},{1 + i % 2},{2 if i % 4 else 7},{i % 2}" for i in range(60)]
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,tasks,cpus,memory,gpus\n" + "\n".join(rows) + "\n")
    farm = bf.Platform.read(tmp_path / "farm.toml")
    log = bf.read(tmp_path / "jobs.csv", resources=farm.resources)
    same(tmp_path, bf.compare(log, farm, ["easy", "ibb"]))
    page = (tmp_path / "at once.html").read_text()
    assert "Imbalance of the resources over time" in page
    assert "Free but unusable cpus over time" in page


def test_gangs_chains_and_rejected_jobs_are_kept(tmp_path):
    (tmp_path / "farm.toml").write_text(FARM)
    (tmp_path / "jobs.csv").write_text(
        "job,submit,runtime,tasks,cpus,after,user\na,0,10,4,3,,u\nb,1,10,1,8,a,\nc,2,5,1,9,,v\nd,3,7,20,1,,v\n"
    )
    same(tmp_path, bf.simulate(bf.read(tmp_path / "jobs.csv"), bf.Platform.read(tmp_path / "farm.toml")))


ODD = {
    "ids": 'job,submit,runtime,walltime,procs,user\n007,0,10,10,1,\u00e4 b\n08,1,5,5,2,"c,d"\n"x,""y",2,1,1,2,\n',
    "fractions": "job,submit,runtime,walltime,procs\na,0.000001,10.5,11,1\nb,0.3333333,5,5,2\n",
    "negative submits, out of order": "job,submit,runtime,walltime,procs\na,9,10,10,2\nb,-50,5,5,1\nc,3,4,5,2\n",
    "run time 0 and jobs that are killed": "job,submit,runtime,walltime,procs\na,0,0,0,2\nb,1,0,5,1\nc,2,50,5,2\n",
    "deadlines": "job,submit,runtime,walltime,procs,deadline,priority,group\na,9,10,10,2,15,3,g\nb,1,5,5,1,7,,h\n",
    "none that fits": "job,submit,runtime,procs\na,0,10,5\nb,1,1,9\n",
    "none that counts": "job,submit,runtime,procs\na,0,10,1\n",
}


@pytest.mark.parametrize("jobs", ODD)
def test_odd_jobs_are_kept(tmp_path, jobs):
    (tmp_path / "jobs.csv").write_text(ODD[jobs])
    same(
        tmp_path,
        bf.simulate(bf.read(tmp_path / "jobs.csv"), bf.Platform.pool(2), cooldown=int(jobs == "none that counts")),
    )


def test_trims_are_kept_but_for_jobs_and_a_span_at_once(tmp_path):
    log = bf.generate("lublin?jobs=120&cpus=16&load=1.1")
    same(tmp_path, bf.simulate(log, warmup="2d", cooldown="1h"))
    both = bf.simulate(
        log, warmup=Trim(jobs=60, span=1)
    )  # which the JSON cannot say; the command line has no such trim
    both.report(tmp_path / "fresh.html")
    both.save(tmp_path / "both")
    rewrite(tmp_path / "both", tmp_path / "again.html")
    assert (tmp_path / "fresh.html").read_bytes() != (tmp_path / "again.html").read_bytes()


def test_json_alone_gives_tables(tmp_path):
    result = bf.simulate(bf.generate("lublin?jobs=50&cpus=16"), policy="easy")
    (tmp_path / "out.json").write_text(json.dumps(result.to_dict()))
    page = load(tmp_path / "out.json")
    assert not page.shown
    assert "bounded slowdown" in render(page)
    write_page(tmp_path / "out.html", page)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not JSON"),
        ("[]", "expected a JSON object"),
        ("{}", "is not a saved result: KeyError: 'options'"),
        ('{"results": []}', "is not a saved result: IndexError"),
        ('{"results": [{"options": 1}]}', "is not a saved result"),
    ],
)
def test_what_is_not_a_saved_result_is_told(tmp_path, text, complaint):
    (tmp_path / RESULT).write_text(text)
    with pytest.raises(InputError, match=complaint):
        load(tmp_path)


def test_a_folder_without_a_result_is_told(tmp_path):
    with pytest.raises(InputError, match=r"result\.json: cannot be read: No such file"):
        load(tmp_path)


def test_a_schedule_of_other_jobs_is_told(tmp_path):
    log = bf.generate("lublin?jobs=20&cpus=16")
    bf.simulate(log).save(tmp_path / "a")
    bf.simulate(log.head(10)).save(tmp_path / "b")
    (tmp_path / "b" / "jobs.csv.gz").write_bytes((tmp_path / "a" / "jobs.csv.gz").read_bytes())
    changed(tmp_path / "b", "files", to={})
    with pytest.raises(InputError, match="have different jobs"):
        load(tmp_path / "b")


@pytest.fixture
def kept(tmp_path):
    """A saved result, and how to change its JSON."""
    bf.simulate(bf.generate("lublin?jobs=50&cpus=16"), policy="easy").save(tmp_path / "kept")
    return tmp_path / "kept"


def changed(folder, *place, to) -> None:
    found = json.loads((folder / RESULT).read_text())
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = to
    (folder / RESULT).write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("place", "to", "complaint"),
    [
        (("metrics", "mean_wait_s"), "long", "is not a saved result: TypeError"),
        (("metrics", "mean_wait_s"), float("nan"), "is not JSON: NaN is not a number"),
        (("schema",), 99, "has schema '99'; this version of backfill reads 1"),
        (("options",), None, "is not a saved result"),
    ],
)
def test_a_saved_result_that_was_edited_is_refused(kept, tmp_path, place, to, complaint):
    changed(kept, *place, to=to)
    with pytest.raises(InputError, match=complaint):
        rewrite(kept, tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()


def test_a_schedule_that_is_not_the_one_that_was_saved_is_refused(kept, tmp_path):
    other = bf.simulate(bf.generate("lublin?jobs=50&cpus=16"), policy="fcfs", overrun="extend")
    other.save(tmp_path / "other")
    (tmp_path / "other" / "schedule-1.csv.gz").replace(kept / "schedule-1.csv.gz")
    with pytest.raises(InputError, match="is not the file that was saved"):
        load(kept)


def test_json_that_is_nested_too_deeply_is_told(tmp_path):
    (tmp_path / RESULT).write_text("[" * 100_000)
    with pytest.raises(InputError, match="is not JSON"):
        load(tmp_path)


def test_it_reads_the_schema_that_is_written():
    assert saved.SCHEMA == SCHEMA


def test_the_page_says_what_was_left_out_and_who_stated_the_machine(tmp_path):
    rows = ["1 0 0 10 2 -1 -1 2 10 -1 1 1 1 1 1 1 -1 -1", "2 0 0 -1 2 -1 -1 2 10 -1 1 1 1 1 1 1 -1 -1"]
    (tmp_path / "two.swf").write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    log = bf.read(tmp_path / "two.swf")
    result = bf.simulate(log, policy="easy")
    same(tmp_path, result)
    page = (tmp_path / "at once.html").read_text()
    assert "left out 1 job: run time &lt; 0 or unknown" in page
    assert "the machine: 4 cpus, as the log says" in page
    bf.simulate(log, bf.Platform.pool(8, nodes=2)).report(tmp_path / "given.html")
    assert "the machine: 8 cpus on 2 nodes, as given; the log says 4 cpus" in (tmp_path / "given.html").read_text()
