"""reproduce: the logs that a paper needs."""

import pytest


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
