"""Logs without names: what is replaced, what stays, that no policy sees a difference, and that no word gets through."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backfill as bf
from backfill.cli import main
from backfill.model.errors import UsageError
from backfill.model.platform_file import parse_platform
from backfill.traces.anonymous import OTHERS, Aliases, anonymous, anonymous_platform
from backfill.traces.table import read_table
from tests.traces.test_mwf import ALEA
from tests.traces.test_swf import line

LOG = b"""job,submit,runtime,walltime,tasks,cpus,user,group,project,partition,constraint,licences,after,status,tape
thesis,0,100,200,1,2,ann,phys,secret,long,ssd,matlab:1,,completed,1
17_3,1,50,60,1,3,bob,chem,,short,n1&ssd,,thesis,OOM in /home/bob,
19,2,50,60,1,3,ann,phys,secret,long,,matlab:1,,OOM in /home/bob,2
"""
FARM = """resources = ["tape"]
[[node]]
name = "n1"
cpus = 4
tape = 2
features = ["ssd"]
[[licence]]
name = "matlab"
copies = 1
[[partition]]
name = "long"
groups = ["phys"]
max_size = {tape = 2}
[[partition]]
name = "short"
[[limit]]
name = "ann's"
per = "user"
users = ["ann"]
running_jobs = 1
running = {tape = 9}
"""


def log_of(text=LOG):
    return read_table(text, ("tape",))


def test_every_name_gets_an_alias_and_numbers_and_common_words_stay():
    copy, told = anonymous(log_of(), Aliases())
    jobs = copy.jobs
    assert jobs.job.tolist() == ["job1", "17_3", "19"]
    assert [jobs.user[k] for k in range(3)] == ["user1", "user2", "user1"]
    assert [jobs.group[k] for k in range(3)] == ["group1", "group2", "group1"]
    assert [jobs.partition[k] for k in range(3)] == ["part1", "part2", "part1"]
    assert [jobs.status[k] for k in range(3)] == ["completed", "status1", "status1"]
    assert [jobs.constraint[k] for k in range(3)] == ["feature1", "feature2&feature1", ""]
    assert (copy.licences, copy.resources) == (("lic1",), ("cpus", "resource1"))
    assert (copy.name, copy.sha256, copy.notes) == ("anonymous", "", ())
    assert {each.kind: (each.names, each.jobs) for each in told} == {
        "job": (1, 1),
        "user": (2, 3),
        "group": (2, 3),
        "project": (1, 2),
        "partition": (2, 3),
        "status": (1, 2),
        "licence": (1, 2),
        "feature": (2, 2),
        "resource": (1, 2),
    }


def test_kinds_of_names_may_be_kept():
    copy, told = anonymous(log_of(), Aliases(keep=OTHERS))
    assert copy.jobs.partition.names == ("long", "short")
    assert (copy.licences, copy.resources) == (("matlab",), ("cpus", "tape"))
    assert copy.jobs.constraint.names == ("ssd", "n1&ssd")
    assert [each.kind for each in told] == ["job", "user", "group", "project"]


@pytest.mark.parametrize("keep", [(), ("node",), ("feature",), ("licence", "resource"), OTHERS])
def test_a_platform_gets_the_same_aliases_and_every_start_stays(keep):
    log, farm, aliases = log_of(), parse_platform("farm.toml", FARM), Aliases(keep=keep)
    hidden = anonymous_platform(farm, aliases)
    copy, _ = anonymous(log, aliases)
    if not keep:
        text = hidden.to_toml() + str([*copy.jobs.constraint.names, *copy.licences, *copy.jobs.partition.names])
        for name in ("ann", "phys", "chem", "ssd", "matlab", "long", "short", "secret", "tape"):
            assert name not in text
    before = bf.simulate(log, farm, policy="easy").schedule
    after = bf.simulate(copy, parse_platform("hidden.toml", hidden.to_toml()), policy="easy").schedule
    for column in ("start", "end", "state"):
        np.testing.assert_array_equal(getattr(before, column), getattr(after, column))
    assert before.ran.any()


def test_aliases_are_kept_for_the_next_log(tmp_path):
    aliases = Aliases()
    anonymous(log_of(), aliases)
    aliases.write(tmp_path / "secret.csv")
    again = Aliases.read(tmp_path / "secret.csv")
    assert again.known == aliases.known
    assert again.of("user", "bob") == "user2"
    assert again.of("user", "new") == "user3"
    (tmp_path / "bad.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match=r"bad\.csv:1: expected the columns kind,name,alias"):
        Aliases.read(tmp_path / "bad.csv")


@pytest.mark.parametrize("kind", ["colour", "user"])
def test_a_kind_that_cannot_be_kept_is_refused(kind):
    with pytest.raises(UsageError, match=f"keep is '{kind}'; expected partition, queue"):
        Aliases(keep=(kind,))


# No word of the files that are read may stand in those that are written: neither in a cell nor in a header.

SECRET = st.text("zqxéß", min_size=5, max_size=8).map(lambda text: f"zq{text}")
ASCII = st.text("zqxy", min_size=5, max_size=8).map(lambda text: f"zq{text}")
FREE = ("user", "group", "project", "partition", "queue", "qos", "site", "status", "zqheader", "comment")
CASES = settings(max_examples=max(5, settings.default.max_examples // 4))


def words_of(path: Path) -> set[str]:
    """The words in a file that was written, with the names of its columns."""
    if path.suffix == ".parquet":
        frame = pl.read_parquet(path)
        text = "\n".join(map(str, (*frame.columns, *(cell for row in frame.rows() for cell in row))))
    else:
        text = path.read_text()
    return {word for word in re.findall(r"\w+", text) if word.startswith("zq")}


def share(folder: Path, log: Path, suffix: str, *words: str) -> None:
    for old in folder.glob("share.*"):
        old.unlink()
    assert main(["anonymize", str(log), "--out", str(folder / f"share{suffix}"), "-q", *words]) == 0
    written = [*folder.glob("share.*")]
    assert len(written) == (2 if words else 1)
    assert [path for path in written if words_of(path)] == []


@st.composite
def table(draw):
    """A workload table with random words wherever a text may stand, and its platform."""
    word = SECRET.map(lambda text: draw(st.sampled_from((text, f"{text}.{text[::-1]}"))))
    names = {kind: draw(st.lists(word, min_size=3, max_size=3, unique=True)) for kind in (*FREE, "job", "feature")}
    node, licence, locked, resource = draw(st.lists(word, min_size=4, max_size=4, unique=True))
    rows = [
        {
            "job": names["job"][row],
            "submit": row,
            "runtime": 5,
            **{kind: draw(st.sampled_from(names[kind])) for kind in FREE},
            "constraint": draw(st.sampled_from(["", names["feature"][0], f"!{node}|{names['feature'][1]}&{node}"])),
            "licences": draw(st.sampled_from(["", f"{licence}:1", f"{locked}:1;{licence}:2"])),
            "after": names["job"][0] if row else "",
            resource: 1,
            "time_zero": "1996-09-23T12:00:31Z[zqzq/Place]" if row == 0 else "",
        }
        for row in range(3)
    ]
    farm = f"""name = "zqfarm"
resources = ["{resource}"]
[[node]]
name = "{node}"
site = "{names["site"][0]}"
cpus = 4
"{resource}" = 2
features = ["{names["feature"][0]}", "{names["feature"][1]}"]
node_licences = {{"{locked}" = 1}}
[[licence]]
name = "{licence}"
copies = 2
[[partition]]
name = "{names["partition"][0]}"
groups = ["{names["group"][0]}", "zqgroup"]
users = ["zquser"]
max_size = {{"{resource}" = 2}}
[[qos]]
name = "{names["qos"][0]}"
[[limit]]
name = "zqlimit"
per = "project"
projects = ["{names["project"][0]}"]
partitions = ["{names["partition"][0]}"]
qos = ["{names["qos"][0]}"]
running_jobs = 1
running = {{"{resource}" = 9}}
[[fairshare]]
user = "zquser"
target = 40
[[fairshare]]
project = "{names["project"][0]}"
target = 10
"""
    return rows, farm


@pytest.mark.parametrize("suffix", [".csv", ".swf", ".parquet"])
@pytest.mark.filterwarnings("ignore")
def test_no_word_of_a_table_gets_through(tmp_path_factory, suffix):
    folder = tmp_path_factory.mktemp("words")

    @CASES
    @given(table(), st.booleans(), st.booleans())
    def law(case, parquet, alone):
        rows, farm = case
        log = folder / ("log.parquet" if parquet else "log.csv")
        frame = pl.DataFrame(rows)
        frame.write_parquet(log) if parquet else frame.write_csv(log)
        (folder / "farm.toml").write_text(farm)
        share(folder, log, suffix, *(() if alone or suffix == ".swf" else ("--platform", str(folder / "farm.toml"))))

    law()


@pytest.mark.parametrize("suffix", [".csv", ".swf", ".parquet"])
@pytest.mark.filterwarnings("ignore")
def test_no_word_of_an_swf_log_or_one_of_metacentrum_gets_through(tmp_path_factory, suffix):
    folder = tmp_path_factory.mktemp("words")

    @CASES
    @given(st.lists(ASCII, min_size=5, max_size=5, unique=True), st.booleans())
    def law(names, metacentrum):
        computer, queue, partition, feature, zone = names
        head = f"; Computer: {computer}\n; Queue: 1 {queue}\n; Partition: 2 {partition}\n; Note: {computer}\n"
        head += f"; UnixStartTime: 99\n; TimeZoneString: {zone}\n"
        jobs = [line(f1=job, f15=1, f16=2).decode().strip() for job in (1, 2)]
        if metacentrum:
            jobs = [f"{each} {{1,1}} {queue} 1:ppn=4:{feature}" for each in jobs]
        log = folder / "log.swf"
        log.write_text(head + "".join(f"{each} ; {computer}\n" for each in jobs))
        (folder / "log.swf.machines").write_text(ALEA.replace("ssd", feature).replace("cl_1", computer))
        share(folder, log, suffix)

    law()
