from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.model.errors import PlatformError
from backfill.model.platform import Platform
from backfill.model.platform_file import parse_platform
from backfill.workloads.farm import farm


def refusal(text: str) -> str:
    with pytest.raises(PlatformError) as caught:
        parse_platform("farm.toml", text)
    return str(caught.value).removeprefix("farm.toml: ")


def test_one_table_describes_many_nodes():
    platform = parse_platform(
        "dir/farm.toml", '[[node]]\nname = "m"\ncount = 3\ncpus = 8\nmemory = "32G"\nsite = "a"\n'
    )
    assert platform.nodes == ("m1", "m2", "m3")
    assert (platform.resources, platform.capacity.tolist()) == (("cpus", "memory"), [[8, 32 * 2**30]] * 3)
    assert (platform.name, platform.sites, platform.site.tolist()) == ("farm", ("a",), [0, 0, 0])
    assert platform.speed.tolist() == [1, 1, 1]


def test_a_node_without_a_name_or_a_count_is_called_after_its_place():
    assert parse_platform("f", '[[node]]\ncpus = 1\n[[node]]\nname = "x"\n[[node]]\ncount = 1\n').nodes == (
        "node1",
        "x",
        "node31",
    )


def test_nodes_stand_in_order_of_speed_then_of_the_file():
    platform = parse_platform(
        "f",
        """
        [[node]]
        name = "slow"
        site = "a"
        cpus = 1
        [[node]]
        name = "fast"
        count = 2
        speed = 2
        cpus = 2
        site = "b"
        [[node]]
        name = "other"
        gpus = 4
        """,
    )
    assert platform.nodes == ("fast1", "fast2", "slow", "other")
    assert platform.speed.tolist() == [2, 2, 1, 1]
    assert platform.resources == ("cpus", "gpus")
    assert platform.capacity.tolist() == [[2, 0], [2, 0], [1, 0], [0, 4]]
    assert [platform.sites[k] for k in platform.site] == ["b", "b", "a", ""]


def test_licences_float_between_the_nodes_that_may_host_them():
    platform = parse_platform(
        "f",
        """
        [[node]]
        cpus = 1
        name = "all"
        [[node]]
        name = "one"
        licences = ["matlab"]
        node_licences = {abaqus = 2}
        [[node]]
        name = "none"
        licences = []
        [[licence]]
        name = "matlab"
        copies = 5
        [[licence]]
        name = "ansys"
        copies = 0
        """,
    )
    assert (platform.licences, platform.copies.tolist()) == (("matlab", "ansys"), [5, 0])
    assert platform.hosts.tolist() == [[True, True], [True, False], [False, False]]
    assert platform.resources == ("cpus", "abaqus")
    assert platform.capacity[1].tolist() == [0, 2]


AMOUNT = "expected a whole number from 0 to 2^62 - 1 that may carry K, M, G or T"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "node: expected at least one [[node]] table"),
        ("node = 1", "node: expected at least one [[node]] table"),
        ("node = [1]", "node: expected at least one [[node]] table"),
        (
            "[[license]]\nname = 'a'",
            "license: unknown; expected [[node]], [[licence]], [[partition]], [[qos]], [[limit]] tables",
        ),
        ("name = 1\n[[node]]", "name: expected a text"),
        ("[[node]]\nname = 'm'\nspeed = -1", "node m: speed is -1; expected a number from 0.000001 to 1,000,000"),
        ("[[node]]\n[[node]]\nspeed = nan", "node 2: speed is nan; expected a number from 0.000001 to 1,000,000"),
        ("[[node]]\nspeed = '1'", "node 1: speed is '1'; expected a number from 0.000001 to 1,000,000"),
        ("[[node]]\nspeed = true", "node 1: speed is True; expected a number from 0.000001 to 1,000,000"),
        ("[[node]]\ncount = 0", "node 1: count is 0; expected a whole number from 1 to 1000000"),
        ("[[node]]\ncount = 2.0", "node 1: count is 2.0; expected a whole number from 1 to 1000000"),
        ("[[node]]\ncpus = true", f"node 1: cpus is True; {AMOUNT}"),
        ("[[node]]\ncpus = 1.5", f"node 1: cpus is 1.5; {AMOUNT}"),
        ("[[node]]\ncpus = '1.5'", f"node 1: cpus is '1.5'; {AMOUNT}"),
        ("[[node]]\nmemory = '32X'", f"node 1: memory is '32X'; {AMOUNT}"),
        ("[[node]]\ncpus = 5000000000000000000", f"node 1: cpus is 5000000000000000000; {AMOUNT}"),
        ("[[node]]\ncolour = ['red']", f"node 1: colour is ['red']; {AMOUNT}"),
        ("[[node]]\nname = 'a;b'", "node a;b: name is 'a;b'; expected a text without * ; and ,"),
        ("[[node]]\nname = ''", "node 1: name is ''; expected a text without * ; and ,"),
        ("[[node]]\nsite = 1", "node 1: site is 1; expected a text"),
        (
            '[[node]]\nfeatures = "gpu"',
            "node 1: features is 'gpu'; expected a list of names, each a text without spaces",
        ),
        (
            '[[node]]\nfeatures = ["a&b"]',
            "node 1: features is ['a&b']; expected a list of names, each a text without spaces",
        ),
        ("[[node]]\nname = 'a'\ncpus = 1\ncount = 2\n[[node]]\nname = 'a2'", "node: two nodes are called a2"),
        ("[[node]]\nlicences = 'x'", "node 1: licences is 'x'; expected a list of names of [[licence]] tables"),
        ("[[node]]\nlicences = ['x']", "node node1: licence 'x' has no [[licence]] table; known: none"),
        (
            "[[node]]\nnode_licences = {a = -1}",
            "node 1: node_licences is {'a': -1}; expected a table of names, each with",
        ),
        ("[[node]]\ncpus = 1\nnode_licences = {cpus = 1}", "node node1: 'cpus' is both a resource and a node licence"),
        ("[[node]]\na = 1\n[[licence]]\nname = 'a'\ncopies = 1", "node node1: 'a' is a floating licence already"),
        ("[[node]]\n[[licence]]\nname = 'a'", f"licence a: copies is missing; {AMOUNT}"),
        ("[[node]]\n[[licence]]\ncopies = 1", "licence 1: name is missing; expected a text without * ; , and :"),
        (
            "[[node]]\n[[licence]]\nname = 'a:1'\ncopies = 1",
            "licence a:1: name is 'a:1'; expected a text without * ; , and :",
        ),
        ("[[node]]\n[[licence]]\nname = 'a'\ncopies = -1", f"licence a: copies is -1; {AMOUNT}"),
        ("[[node]]\n[[licence]]\nname = 'a'\ncopies = 1\nx = 2", "licence a: x is not known; expected name and copies"),
        (
            "[[node]]\n" + "[[licence]]\nname = 'a'\ncopies = 1\n" * 2,
            "licence a: has two [[licence]] tables; expected one",
        ),
        ("[[node]]\ncount = 4\ncpus = '2048P'", "f: the nodes hold more than 2^62 of a resource between them"),
        ("node = [", "is not valid TOML: "),
        ("a = " + "[" * 10**5, "is not valid TOML: "),
        ("a = " + "1" * 5000, "is not valid TOML: "),
    ],
)
def test_a_bad_platform_is_refused_naming_node_key_and_value(text: str, message: str):
    assert refusal(text).removeprefix("farm: ").startswith(message.removeprefix("f: "))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(PlatformError, match="cannot be read: No such file or directory"):
        Platform.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PlatformError, match="cannot be read: 'utf-8' codec"):
        Platform.read(tmp_path / "bytes.toml")


VALUES = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=4), st.lists(st.text(max_size=3), max_size=2)
)
KEYS = st.sampled_from(["name", "count", "site", "speed", "cpus", "memory", "licences", "node_licences", "copies", "x"])


def toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(f"\\U{ord(c):08x}" for c in value) + '"'
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case _:
            return repr(value)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["node", "licence"]), st.dictionaries(KEYS, VALUES, max_size=3)), max_size=3))
def test_tables_of_anything_raise_nothing_but_a_platform_error(tables: list[tuple[str, dict[str, object]]]):
    text = "".join(f"[[{kind}]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in keys.items()) for kind, keys in tables)
    try:
        platform = parse_platform("f", text)
    except PlatformError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert len(platform.nodes) >= 1


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_no_text_raises_anything_but_a_platform_error(text: str):
    with pytest.raises(PlatformError):
        parse_platform("f", text)


def test_a_platform_as_toml_is_read_as_the_same_platform():
    platform = farm(5, 12, 3, seed=4).platform
    again = parse_platform("f", platform.to_toml())
    assert again.sha256 == platform.sha256
    sites = parse_platform(
        "f", '[[node]]\nname = "a \\"b\\""\nsite = "x"\nspeed = 1.5\ncpus = 2\n[[node]]\nmemory = 7\n'
    )
    assert parse_platform("f", sites.to_toml()).sha256 == sites.sha256
    kinds = parse_platform(
        "f",
        '[[node]]\nname = "m"\ncount = 3\ncpus = 2\nfeatures = ["gpu", "x=1"]\n[[node]]\nname = "m4"\ncpus = 2\n'
        '[[node]]\nname = "1"\ncpus = 2\n[[node]]\nname = "a"\ncpus = 2\n[[node]]\nname = "a2"\ncpus = 2\n',
    )
    assert kinds.features == (("gpu", "x=1"),) * 3 + ((),) * 4
    assert kinds.to_toml().count("[[node]]") == 5
    again = parse_platform("f", kinds.to_toml())
    assert (again.sha256, again.features) == (kinds.sha256, kinds.features)
    locked = parse_platform(
        "f", '[[node]]\ncpus = 2\nnode_licences = {a = 1, "b c" = 2}\n[[node]]\ncpus = 3\n"d e" = 4\n'
    )
    again = parse_platform("f", locked.to_toml())
    assert (again.sha256, again.node_licences) == (locked.sha256, ("a", "b c"))


@st.composite
def platforms(draw):
    """Any platform: resources in any order and of none at all, licences that nobody may host or of no copies."""
    nodes = draw(st.integers(1, 4))
    others = draw(st.permutations(["memory", "gpus", "abaqus", "r-3"]).map(lambda names: names[:3]))
    few = st.integers(0, 2)
    amounts = [[draw(few) for _ in range(4)] for _ in range(nodes)]
    amounts[draw(st.integers(0, nodes - 1))][0] = 3
    licences = draw(st.sampled_from([(), ("matlab",), ("matlab", "ansys")]))
    sites = [draw(st.sampled_from("ab")) for _ in range(nodes)]
    return Platform(
        nodes=tuple(draw(st.permutations(["m1", "m2", "n1", "x", "m3"]))[:nodes]),
        resources=("cpus", *others),
        capacity=np.array(amounts),
        speed=np.array(sorted((draw(st.sampled_from([1.0, 0.3, 2.5])) for _ in range(nodes)), reverse=True)),
        site=np.array([list(dict.fromkeys(sites)).index(site) for site in sites]),
        sites=tuple(dict.fromkeys(sites)),
        licences=licences,
        copies=np.array([draw(few) for _ in licences], np.int64),
        hosts=np.array([[draw(st.booleans()) for _ in licences] for _ in range(nodes)], np.bool_).reshape(
            nodes, len(licences)
        ),
        name="any",
        node_licences=tuple(name for name in others if name in draw(st.sets(st.sampled_from(others)))),
    )


@given(platform=platforms())
def test_a_platform_that_is_written_and_read_is_the_same(platform):
    again = parse_platform("f", platform.to_toml())
    assert again.sha256 == platform.sha256
    assert again.to_toml() == platform.to_toml()
    assert (again.resources, again.node_licences) == (platform.resources, platform.node_licences)


def test_an_order_of_resources_names_each_once():
    with pytest.raises(PlatformError, match="f: resources: expected cpus, gpus, each once"):
        parse_platform("f", 'resources = ["gpus", "cpus", "gpus"]\n[[node]]\ncpus = 1\ngpus = 1')
