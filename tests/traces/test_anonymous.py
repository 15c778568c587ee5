"""Logs without names: what is replaced, what stays, and that no policy sees a difference."""

import numpy as np
import pytest

import backfill as bf
from backfill.model.errors import UsageError
from backfill.model.platform_file import parse_platform
from backfill.traces.anonymous import Aliases, anonymous, anonymous_platform
from backfill.traces.table import read_table

LOG = b"""job,submit,runtime,walltime,tasks,cpus,user,group,project,partition,constraint,licences,after
thesis,0,100,200,1,2,ann,phys,secret,long,ssd,matlab:1,
17_3,1,50,60,1,3,bob,chem,,short,n1&ssd,,thesis
19,2,50,60,1,3,ann,phys,secret,long,,matlab:1,
"""
FARM = """[[node]]
name = "n1"
cpus = 4
features = ["ssd"]
[[licence]]
name = "matlab"
copies = 1
[[partition]]
name = "long"
groups = ["phys"]
[[partition]]
name = "short"
[[limit]]
name = "ann's"
per = "user"
users = ["ann"]
running_jobs = 1
"""
ALL = ("partition", "queue", "qos", "site", "node", "feature", "licence")


def test_people_and_named_jobs_get_aliases_and_numbers_stay():
    copy, told = anonymous(read_table(LOG), Aliases())
    jobs = copy.jobs
    assert jobs.job.tolist() == ["job1", "17_3", "19"]
    assert [jobs.user[k] for k in range(3)] == ["user1", "user2", "user1"]
    assert [jobs.group[k] for k in range(3)] == ["group1", "group2", "group1"]
    assert [jobs.partition[k] for k in range(3)] == ["long", "short", "long"]
    assert (copy.name, copy.sha256, copy.notes) == ("anonymous", "", ())
    assert {each.kind: (each.names, each.jobs) for each in told} == {
        "job": (1, 1),
        "user": (2, 3),
        "group": (2, 3),
        "project": (1, 2),
    }


def test_a_platform_gets_the_same_aliases_and_every_start_stays():
    log, farm, aliases = read_table(LOG), parse_platform("farm.toml", FARM), Aliases()
    hidden = anonymous_platform(farm, aliases, ALL)
    copy, _ = anonymous(log, aliases, ALL)
    text = hidden.to_toml() + str([*copy.jobs.constraint.names, *copy.licences, *copy.jobs.partition.names])
    for name in ("ann", "phys", "chem", "ssd", "matlab", "long", "short", "secret"):
        assert name not in text
    before = bf.simulate(log, farm, policy="easy").schedule
    after = bf.simulate(copy, hidden, policy="easy").schedule
    assert set(before.state.tolist()) == set(after.state.tolist())
    for column in ("start", "end", "state"):
        np.testing.assert_array_equal(getattr(before, column), getattr(after, column))


def test_aliases_are_kept_for_the_next_log(tmp_path):
    aliases = Aliases()
    anonymous(read_table(LOG), aliases)
    aliases.write(tmp_path / "secret.csv")
    again = Aliases.read(tmp_path / "secret.csv")
    assert again.known == aliases.known
    assert again.of("user", "bob") == "user2"
    assert again.of("user", "new") == "user3"
    (tmp_path / "bad.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match=r"bad\.csv:1: expected the columns kind,name,alias"):
        Aliases.read(tmp_path / "bad.csv")


def test_an_unknown_kind_is_refused():
    with pytest.raises(UsageError, match="also is 'colour'; expected partition, queue"):
        anonymous(read_table(LOG), Aliases(), ("colour",))
