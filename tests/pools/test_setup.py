"""What a site installs beside its batch system: paths, accounts and names are quoted as each file reads them."""

import shlex
from pathlib import Path

import pytest

from backfill.pools.setup import Site, slurm_setup

HOME = Path("/srv/a 50% $queue")


def parts(**more):
    usual = {"account": "bq", "uid": 990, "settings": {"SlurmUser": "slurm(64030)"}, "program": ["/opt/b $q/backfill"]}
    return slurm_setup(Site(HOME, **usual | more))


@pytest.mark.parametrize(
    ("account", "uid", "told"),
    [
        ("bq", 990, "sacctmgr -i add user bq account=root adminlevel=Administrator"),
        ("slurm", 64030, "# It is: there is nothing to do."),
        ("toor", 0, "# It is: there is nothing to do."),
    ],
)
def test_an_account_gets_the_rights_that_it_lacks(account, uid, told):
    found = parts(account=account, uid=uid)
    assert found["rights"].splitlines()[-1] == told
    assert {f"[{one}] = true" for one in {0, 64030, uid}} <= {
        *found["filter"].split("{ ")[1].split(" }")[0].split(", ")
    }


def test_the_unit_and_the_line_of_cron_find_the_queue_and_slurm():
    found = parts(environment={"SLURM_CONF": "/etc/slurm/slurm.conf"})
    unit, line = found["unit"].splitlines(), found["watchdog"].splitlines()[-1]
    assert 'Environment="BACKFILL_HOME=/srv/a 50%% $queue"' in unit
    assert "Environment=SLURM_CONF=/etc/slurm/slurm.conf" in unit
    assert 'ExecStart="/opt/b $$q/backfill" serve' in unit
    words = shlex.split(line.replace("\\%", "%"))
    assert words[:5] == ["*"] * 5
    assert words[5:8] == [f"BACKFILL_HOME={HOME}", "SLURM_CONF=/etc/slurm/slurm.conf", "/opt/b $q/backfill"]
    assert "%" not in line.replace("\\%", "")


def test_settings_of_the_site_stay():
    found = parts(settings={"JobSubmitPlugins": "lua", "SchedulerParameters": "batch_sched_delay=5,bf_window=60"})
    assert "\nJobSubmitPlugins=lua\n" in found["conf"]
    assert "\nSchedulerParameters=bf_window=60,batch_sched_delay=0,sched_min_interval=0\n" in found["conf"]
