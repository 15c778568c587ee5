"""Times, sizes and lists as Slurm's users write them."""

import re

import pytest

from backfill.client.options import has, parse
from backfill.client.requests import environment, instant_of, request_of, script_of
from backfill.client.sbatch import of_script
from backfill.queue import words
from backfill.queue.schema import SPEC, Refused
from backfill.queue.words import Unreadable

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300), ("5:30", 330), ("1:30:00", 5400), ("2-12", 216_000), ("1-0:30", 88_200), ("1-2:03:04", 93_784),
        ("90s", 90), ("1.5h", 5400), ("2d", 172_800), ("20m", 1200),
    ],
)  # fmt: skip
def test_a_time_is_read_as_slurm_does(text, seconds):
    assert words.parse_time(text) == seconds * SECOND


@pytest.mark.parametrize("text", ["", "0", "-5", "1:2:3:4", "soon", "5 5", "1h30", "99999999999"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(Unreadable):
        words.parse_time(text)


def test_instants():
    now = 1_700_000_000 * SECOND
    assert words.parse_instant("now+90", now) == now + 90 * SECOND
    assert words.parse_instant("now+2hours", now) == now + 7200 * SECOND
    assert words.parse_instant("1800000000", now) == 1_800_000_000 * SECOND
    assert 0 < words.parse_instant("12:00", now) - now <= 86_400 * SECOND
    with pytest.raises(Unreadable):
        words.parse_instant("tomorrow-ish", now)


def test_a_span_alone_is_that_long_ago():
    now = 1_700_000_000 * SECOND
    assert words.parse_past("2h", now) == now - 7200 * SECOND
    assert words.parse_past("now+2h", now) == now + 7200 * SECOND
    assert 0 <= now - words.parse_past("12:00", now) < 86_400 * SECOND
    for text in ("", "yesterday", "h"):
        with pytest.raises(Unreadable, match=r"is not a time; expected for instance now\+2h"):
            words.parse_past(text, now)


def test_sizes_are_mebibytes_without_a_unit():
    assert [words.parse_memory(text) for text in ("16", "16G", "512m", "1.5k")] == [2**24, 2**34, 2**29, 1536]


def test_arrays_licences_jobs_and_dependencies():
    assert words.parse_array("1-3,7,10-14:2%5") == ([1, 2, 3, 7, 10, 12, 14], 5)
    assert words.parse_licences("matlab:2,comsol,matlab") == {"matlab": 3, "comsol": 1}
    assert (words.parse_id("12"), words.parse_id("12_3")) == (12, [12, 3])
    found = words.parse_dependency("afterok:12:13,afterany:14_2,singleton")
    assert found == {
        "after": [["afterok", 12], ["afterok", 13], ["afterany", [14, 2]]], "any_of": False, "singleton": True
    }  # fmt: skip
    assert words.parse_dependency("after:1?after:2")["any_of"] is True
    for text in ("afterok", "later:3", "after:1,after:2?after:3", "afterok:x"):
        with pytest.raises(Unreadable):
            words.parse_dependency(text)
    with pytest.raises(Unreadable):
        words.parse_array("1-999999")


def test_an_instant_out_of_range_is_answered_in_the_units_of_the_option():
    assert words.parse_instant("now+1157407days", 0) == 1157407 * 86_400 * SECOND
    for text, said in (
        ("now+99999999999999", "'now+99999999999999' is too far ahead; expected at most now+1157407days"),
        ("99999999999999", "'99999999999999' is too late; expected at most 4611686018427 seconds since 1970"),
    ):
        with pytest.raises(Unreadable, match=f"^--begin: {re.escape(said)}$"):
            instant_of("begin", text)
    with pytest.raises(Unreadable, match="is not a time"):
        words.parse_instant("now+" + "9" * 5000, 0)


def test_the_environment_of_a_job_has_no_variable_without_a_name(monkeypatch):
    monkeypatch.setattr("os.environ", {"": "novalue", "HOME": "/home/ana"})  # as `env =novalue` makes it
    assert environment("ALL") == {"HOME": "/home/ana"}
    with pytest.raises(Unreadable, match=r"^--export: '=5' has no name; expected NAME=VALUE$"):
        environment("ALL,=5")
    with pytest.raises(Refused, match="of 1 to 1,048,576 characters"):
        SPEC.check({"argv": ["true"], "cwd": "/", "env": {"": "5"}, "umask": 0}, "spec")


def test_a_job_is_named_after_its_command_whatever_its_bytes():
    assert request_of({}, ["/bin/\udcff"])["job"]["name"] == "?"


def test_a_script_with_the_line_ends_of_windows_is_refused(tmp_path):
    script = tmp_path / "a b.sh"
    script.write_bytes(b"#!/bin/sh\r\necho\r\n")
    said = f"{script} has the line ends of Windows (CR LF); mend it: sed -i 's/\\r$//' '{script}'"
    with pytest.raises(Unreadable, match=f"^{re.escape(said)}$"):
        script_of(str(script))
    script.write_bytes(b"#!/bin/sh\necho a\r\n")
    assert script_of(str(script)) is not None


def test_options_may_be_joined_cut_short_and_end_at_the_command():
    given, left, behind = parse("submit", ["-c4", "--time=10", "--job-n", "fit", "run.sh", "--time", "9"])
    assert (given["cpus"], given["walltime"], given["name"]) == (4, 600 * SECOND, "fit")
    assert (left, behind) == (["run.sh", "--time", "9"], False)
    assert parse("submit", ["--", "-c", "3"])[1:] == (["-c", "3"], True)
    with pytest.raises(Unreadable, match="--time needs a value"):
        parse("submit", ["--time"])
    with pytest.raises(Unreadable, match="--hold takes no value"):
        parse("submit", ["--hold=yes"])


def test_options_of_a_script_stand_before_its_first_command():
    script = "#!/bin/sh\n# a comment\n#SBATCH --time=5 -J 'my job'\n\n#BACKFILL -c 2\necho\n#SBATCH -c 9\n"
    assert of_script(script) == ({"walltime": 300 * SECOND, "name": "my job", "cpus": 2}, True)


def test_options_of_a_script_may_follow_an_indented_comment_but_are_not_indented():
    script = "#!/bin/sh\n#SBATCH --time=7\n\t# two cpus\n  \n#SBATCH -c 2\n  #SBATCH -c 3\n  echo x\n#SBATCH -c 4\n"
    assert of_script(script) == ({"walltime": 420 * SECOND, "cpus": 2}, True)


def test_a_line_of_a_script_that_cannot_be_read_is_named():
    for line, said in (
        ("#BACKFILL -w n1", "#BACKFILL -w n1: unknown option -w; see backfill submit --help"),
        ("#BACKFILL -C ssd&&gpu", "--constraint: 'ssd&&gpu'; expected features joined by & and |"),
        ("#SBATCH --time soon", "#SBATCH --time soon: --time: 'soon' is not a time"),
        ("#SBATCH --hold yes", "#SBATCH --hold yes: 'yes' is not an option"),
        ("#SBATCH -J 'open", "#SBATCH -J 'open: No closing quotation"),
    ):
        with pytest.raises(Unreadable, match=re.escape(said)):
            of_script(f"#!/bin/sh\n{line}\n")


HELP = ("-h", "--help")


def test_help_is_asked_for_before_the_command_alone():
    assert has(HELP, "submit", ["-h"])
    assert has(HELP, "submit", ["--time", "5", "--help"])
    assert has(HELP, "show", ["12", "-h"])
    for command in (["fit.sh", "-h"], ["-t", "5", "fit.sh", "--help"], ["--", "ls", "-h"], ["-J", "-h", "fit.sh"]):
        assert not has(HELP, "submit", command)
