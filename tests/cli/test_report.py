"""backfill report, and --save of the verbs that have results."""

import re


def test_a_saved_result_gives_the_page_again(backfill, tmp_path):
    done = backfill("simulate", "tiny.csv", "--cpus", "4", "--save", "kept", "--report", "a.html")
    assert done.code == 0
    assert "kept in kept; next: backfill report kept" in done.err
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "jobs.csv.gz", "platform.toml", "result.json", "schedule-1.csv.gz",
    ]  # fmt: skip
    done = backfill("report", "kept", "--out", "b.html")
    assert (done.code, done.out, done.err) == (0, "", "wrote b.html\n")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()


def test_a_saved_comparison_gives_the_page_again(backfill, tmp_path):
    two = ("--policy", "fcfs", "--policy", "easy")
    assert backfill("compare", "tiny.csv", "--cpus", "4", *two, "--save", "kept", "--report", "a.html").code == 0
    assert backfill("report", "kept").code == 0
    page = (tmp_path / "report.html").read_text()
    assert page == (tmp_path / "a.html").read_text()
    assert "easy</bdi> against <bdi>fcfs" in page


def test_the_json_of_a_result_gives_its_tables(backfill, tmp_path):
    (tmp_path / "out.json").write_text(backfill("simulate", "tiny.csv", "--cpus", "4", "--json", "-q").out)
    done = backfill("report", "out.json")
    assert done.err == "tables only: the file holds no schedules; a folder made by --save DIR does\nwrote report.html\n"


def test_what_is_not_a_result_is_bad_input(backfill):
    done = backfill("report", "tiny.csv")
    assert (done.code, re.sub(":.*", "", done.complaint)) == (3, "tiny.csv")
    done = backfill("report", "nothing")
    assert (done.code, done.complaint) == (3, "nothing: cannot be read: No such file or directory")


def test_a_folder_that_cannot_be_made_is_told_before_the_work(backfill):
    done = backfill("simulate", "nothing.csv", "--save", "tiny.csv/kept")
    assert (done.code, done.complaint) == (1, "tiny.csv/kept: cannot be written: Not a directory")
    done = backfill("simulate", "nothing.csv", "--save", "a/b")
    assert (done.code, done.complaint) == (1, "a/b: cannot be written: No such file or directory")
