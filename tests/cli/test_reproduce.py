"""reproduce: the logs that a paper needs."""

from pathlib import Path

import pytest

from backfill.cli.reproduce_pool import OfPool, reproduce_on_pool
from backfill.model.errors import MissingExtra


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ("ibb", "--log", "KTH.swf"),
            2,
            "--log KTH.swf: expected an SWF file whose name has LANL-CM5 or METACENTRUM-2009",
        ),
        (("ibb", "--log", "LANL-CM5.swf"), 3, "LANL-CM5.swf: cannot be read: No such file or directory"),
        (("farm", "--log", "LANL-CM5.swf"), 2, "--log LANL-CM5.swf: this paper needs no log; leave it out"),
    ],
)
def test_a_log_that_cannot_be_used_is_one_line(backfill, words, code, told):
    done = backfill("reproduce", *words, "-q")
    assert done.code == code
    assert done.complaint.startswith(told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ibb", "--pool", "slurm"), "--pool is 'slurm'; expected htcondor"),
        (("farm", "--pool", "htcondor"), "--pool is for the experiment of ibb on a real pool; farm has none"),
        (("ibb", "--scale", "0.1"), "--scale is for a real pool; add --pool htcondor"),
        (("ibb", "--policy", "ibb"), "--policy is for a real pool; add --pool htcondor"),
        (("ibb", "--cycle", "3s"), "--cycle is for a real pool; add --pool htcondor"),
        (("ibb", "--pool", "htcondor", "--quick"), "--quick cannot be combined with --pool; leave one of them out"),
        (("ibb", "--pool", "htcondor", "--scale", "2"), "--scale is 2.0; expected a number > 0 and <= 1"),
        (
            ("ibb", "--pool", "htcondor", "--policy", "bb"),
            "--policy is 'bb'; expected one of fcfs, best-fit, ibb, easy",
        ),
        (("ibb", "--pool", "htcondor", "--cycle", "soon"), "--cycle is 'soon'; expected a span of time"),
        (("ibb", "--pool", "htcondor", "--replications", "0"), "--replications is 0; expected a whole number >= 1"),
    ],
)
def test_what_a_pool_cannot_do_is_one_line(backfill, words, told):
    done = backfill("reproduce", *words, "-q")
    assert done.code == 2
    assert told in done.complaint
    assert "Traceback" not in done.complaint


def test_without_its_module_a_pool_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("backfill.pools.htcondor.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'backfill\[htcondor\]'"):
        reproduce_on_pool(OfPool(None, (), None), None, 0, "never-made")
    assert not Path("never-made").exists()
