"""What jobs ask for, and what nodes have, as users write it: resources, memory in three readings, GPUs by type."""

import json

import pytest

TWO_TYPES = """[[node]]
name = "fast"
cpus = 8
memory = "64G"
gpus = 2
gpu_type = "a100"
speed = 2

[[node]]
name = "slow"
cpus = 8
memory = "64G"
gpus = 4
gpu_type = "v100"
"""


def placed(schedule: str) -> dict[str, str]:
    """By job: its node, or why it was rejected."""
    rows = [line.split(",") for line in schedule.splitlines()[1:]]
    return {row[0]: row[5] if row[4] == "REJECTED" else row[6] for row in rows}


@pytest.fixture
def farm(tmp_path):
    (tmp_path / "farm.toml").write_text(TWO_TYPES)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "cout = 2",
            "node fast: cout is not known; did you mean count? A resource besides cpus, memory and gpus is declared in "
            "resources = [...]",
        ),
        (
            'licences = "x"\ncpus = "8"',
            "node fast: licences is 'x'; expected a list of names of [[licence]] tables",
        ),
        (
            'memory = "64"',
            "node fast: memory is '64'; expected a whole number from 0 to 2^62 - 1, or a text with K, M, G or T such "
            'as "32G"',
        ),
        ("[[license]]", "license is not known; did you mean [[licence]]?"),
        ("[[licence]]\nname = 'a'\ncopy = 1", "licence a: copy is not known; did you mean copies?"),
    ],
)
def test_a_typo_in_a_platform_file_is_one_line_and_exit_3(backfill, tmp_path, line, complaint):
    (tmp_path / "farm.toml").write_text(f'[[node]]\nname = "fast"\n{line}\n')
    done = backfill("simulate", "tiny.csv", "--platform", "farm.toml", "-q")
    assert (done.code, done.out, done.complaint) == (3, "", f"farm.toml: {complaint}")


def test_a_declared_resource_is_one_that_jobs_may_hold(backfill, tmp_path):
    (tmp_path / "farm.toml").write_text('resources = ["tape"]\n[[node]]\ncpus = 8\ntape = 2\n')
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,tape\na,0,9,2\nb,0,9,1\nc,0,9,3\n")
    done = backfill("simulate", "jobs.csv", "--platform", "farm.toml", "--verify", "--schedule", "-")
    assert [line.split(",")[2] for line in done.out.splitlines()[1:]] == ["0", "9", ""]
    assert placed(done.out)["c"] == "tape"


def test_the_reading_of_memory_is_said_once_and_the_other_reading_has_a_column(backfill, tmp_path, farm):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,walltime,procs,memory\na,0,9,9,12,48000M\nb,0,9,9,2,1G\n")
    done = backfill("simulate", "jobs.csv", "--platform", "farm.toml", "--schedule", "-")
    said = (
        "jobs: memory is per task: procs=12 with memory=48000M hold 562.5 GiB in total; use memory_per_job for "
        "the memory of a whole job"
    )
    assert done.err.splitlines().count(said) == done.err.count("memory is per task") == 1
    assert placed(done.out)["a"] == "memory"  # 562.5 GiB are more than both nodes have
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,walltime,procs,memory_per_job\na,0,9,9,12,48000M\n")
    done = backfill("simulate", "jobs.csv", "--platform", "farm.toml", "--verify", "--schedule", "-")
    assert (done.code, "memory" in done.err) == (0, False)
    assert placed(done.out)["a"] == "fast*8;slow*4"


def test_gpus_of_a_type_are_those_of_its_nodes(backfill, tmp_path, farm):
    asked = {"a": "v100:2", "b": "gpu:a100:2", "c": "2", "d": "a100:3", "e": "h100:1", "f": ""}
    rows = [f"{job},0,9,{gpus}" for job, gpus in asked.items()]
    (tmp_path / "jobs.csv").write_text("\n".join(["job,submit,runtime,gpus", *rows]) + "\n")
    done = backfill("simulate", "jobs.csv", "--platform", "farm.toml", "--verify", "--schedule", "-")
    assert done.code == 0
    assert placed(done.out) == {"a": "slow", "b": "fast", "c": "slow", "d": "nodes", "e": "constraint", "f": "fast"}


def test_a_copy_keeps_types_and_columns(backfill, tmp_path, farm):
    (tmp_path / "jobs.csv").write_text(
        "job,submit,runtime,gpus,memory_per_job,partition,qos\na,0,9,v100:2,1G,long,low\nb,0,9,1,,short,\n"
    )
    assert backfill("import", "csv", "jobs.csv", "--platform", "farm.toml", "--out", "copy.csv", "-q").code == 0
    both = [
        backfill("simulate", log, "--platform", "farm.toml", "--json", "-q").out for log in ("jobs.csv", "copy.csv")
    ]
    assert json.loads(both[0])["metrics"] == json.loads(both[1])["metrics"]
    assert (tmp_path / "copy.csv").read_text().splitlines()[1] == "a,0,9,,1,1,2,1073741824,long,low,v100"


def test_gpus_that_cannot_be_told_are_one_line_and_exit_3(backfill, tmp_path, farm):
    (tmp_path / "jobs.csv").write_text('job,submit,runtime,gpus\na,0,9,"a100:1,v100:1"\n')
    done = backfill("simulate", "jobs.csv", "--platform", "farm.toml", "-q")
    assert (done.code, done.out) == (3, "")
    assert done.complaint == (
        "jobs.csv:2: gpus is 'a100:1,v100:1'; expected a whole number from 0 to 4611686018427387904, or type:number of "
        "one type such as a100:2"
    )
