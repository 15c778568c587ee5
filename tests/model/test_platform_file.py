from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.errors import PlatformError
from backfill.model.platform import Platform
from backfill.model.platform_file import parse_platform, platform_text
from backfill.workloads.farm import farm
from tests.shares import examples


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


AMOUNT = 'expected a whole number from 0 to 2^62 - 1, or a text with K, M, G or T such as "32G"'
DECLARED = "A resource besides cpus, memory and gpus is declared in resources = [...]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "node: expected at least one [[node]] table"),
        ("node = 1", "node: expected at least one [[node]] table"),
        ("node = [1]", "node: expected at least one [[node]] table"),
        ("[[license]]\nname = 'a'", "license is not known; did you mean [[licence]]?"),
        ("[[nodes]]\ncpus = 1", "nodes is not known; did you mean [[node]]?"),
        (
            "colour = 'red'",
            "colour is not known; expected one of [[partition]], [[qos]], [[limit]], [[fairshare]], name, ",
        ),
        ("cpus = 4\n[[node]]", "cpus is not known; expected in a [[node]] table"),
        ("[[node]]\nname = 'm'\ncout = 2", f"node m: cout is not known; did you mean count? {DECLARED}"),
        ("[[node]]\nMEM = '1G'", f"node 1: MEM is not known; did you mean memory? {DECLARED}"),
        ("[[node]]\ncpus = 1\n[[node]]\ncolour = ['red']", "node 2: colour is not known; expected one of name, count,"),
        ("[[node]]\ncpus = 1\ntape = 3", "node 1: tape is not known; expected one of name, count, site, speed, "),
        ("resources = ['tape']\n[[node]]\ntpe = 3", f"node 1: tpe is not known; did you mean tape? {DECLARED}"),
        (
            "[[node]]\nresources = ['tape']",
            "node 1: resources is not known; expected at the top of the file, above the",
        ),
        ("[[node]]\n" + "x" * 100 + " = 1", "node 1: " + "x" * 57 + "... is not known; expected one of name,"),
        ("resources = 'tape'\n[[node]]", "resources: expected a list of names of resources"),
        ("resources = ['a', 'a']\n[[node]]\na = 1", "resources: 'a' is listed 2 times; expected once"),
        ("resources = ['speed']\n[[node]]", "resources: 'speed' is a key of [[node]] tables; expected another name"),
        (
            "resources = ['cpus', 'tape']\n[[node]]\ncpus = 1",
            "resources: 'tape' is in no [[node]] table; expected an amount of it in one of them",
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
        ("[[node]]\ncpus = '8'", f"node 1: cpus is '8'; {AMOUNT}"),
        ("[[node]]\nmemory = '512'", f"node 1: memory is '512'; {AMOUNT}"),
        ("[[node]]\nmemory = '32X'", f"node 1: memory is '32X'; {AMOUNT}"),
        ("[[node]]\ncpus = 5000000000000000000", f"node 1: cpus is 5000000000000000000; {AMOUNT}"),
        ("resources = ['colour']\n[[node]]\ncolour = ['red']", f"node 1: colour is ['red']; {AMOUNT}"),
        (
            "[[node]]\ngpus = 4\ngpu_type = ['a100', 'h100']",
            "node 1: gpu_type is ['a100', 'h100']; expected one type: a text without spaces",
        ),
        ("[[node]]\ngpus = 4\ngpu_type = 'a:b'", "node 1: gpu_type is 'a:b'; expected one type: a text without spaces"),
        ("[[node]]\ngpu_type = 'a100'", "node node1: gpu_type is 'a100' without gpus; expected gpus of 1 or more"),
        ("[[node]]\ngpus = {a100 = 4}", f"node 1: gpus is {{'a100': 4}}; {AMOUNT}"),
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
        (
            "resources = ['a']\n[[node]]\na = 1\n[[licence]]\nname = 'a'\ncopies = 1",
            "node node1: 'a' is a floating licence already",
        ),
        ("[[node]]\n[[licence]]\nname = 'a'", f"licence a: copies is missing; {AMOUNT}"),
        ("[[node]]\n[[licence]]\ncopies = 1", "licence 1: name is missing; expected a text without * ; , and :"),
        (
            "[[node]]\n[[licence]]\nname = 'a:1'\ncopies = 1",
            "licence a:1: name is 'a:1'; expected a text without * ; , and :",
        ),
        ("[[node]]\n[[licence]]\nname = 'a'\ncopies = -1", f"licence a: copies is -1; {AMOUNT}"),
        (
            "[[node]]\n[[licence]]\nname = 'a'\ncopies = 1\nx = 2",
            "licence a: x is not known; expected one of name, copies",
        ),
        ("[[node]]\n[[licence]]\nname = 'a'\ncopy = 1", "licence a: copy is not known; did you mean copies?"),
        ("[[node]]\n[[licence]]\nname = 'a'\ncopies = '5'", f"licence a: copies is '5'; {AMOUNT}"),
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
    (tmp_path / "bytes.toml").write_bytes(b"# a\n\xff\xfe")
    with pytest.raises(PlatformError, match=r"bytes.toml:2: is not UTF-8 text: byte 0xff"):
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


@examples(150)
@given(
    st.lists(st.tuples(st.sampled_from(["node", "licence"]), st.dictionaries(KEYS, VALUES, max_size=3)), max_size=3),
    st.sampled_from(["", 'resources = ["x"]\n']),
)
def test_tables_of_anything_raise_nothing_but_a_platform_error(
    tables: list[tuple[str, dict[str, object]]], declared: str
):
    text = declared + "".join(
        f"[[{kind}]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in keys.items()) for kind, keys in tables
    )
    try:
        platform = parse_platform("f", text)
    except PlatformError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert len(platform.nodes) >= 1


@examples(100)
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
        "f",
        'resources = ["d e"]\n[[node]]\ncpus = 2\nnode_licences = {a = 1, "b c" = 2}\n[[node]]\ncpus = 3\n"d e" = 4\n',
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


def test_the_list_of_resources_declares_some_and_gives_their_order():
    def order(resources: str) -> tuple[str, ...]:
        return parse_platform("f", f"resources = [{resources}]\n[[node]]\nmemory = 1\ntape = 2\ncpus = 3\n").resources

    assert order('"cpus", "tape", "memory"') == ("cpus", "tape", "memory")
    assert order('"tape"') == ("cpus", "tape", "memory")  # cpus come first in any case, the others as they come up
    assert order('"memory", "tape", "cpus"') == ("cpus", "memory", "tape")


def test_a_declared_resource_is_written_with_its_declaration():
    platform = Platform.pool(4, tape=3)
    assert 'resources = ["cpus", "tape"]\n' in platform.to_toml()
    assert parse_platform("f", platform.to_toml()).sha256 == platform.sha256
    assert "resources" not in Platform.pool(4, memory=2**30, gpus=2).to_toml()


def test_the_type_of_its_gpus_is_a_feature_of_a_node():
    platform = parse_platform(
        "f",
        """
        [[node]]
        cpus = 8
        gpus = 4
        gpu_type = "a100"
        features = ["ssd"]
        [[node]]
        cpus = 8
        gpus = 2
        """,
    )
    assert platform.features == (("ssd", "a100"), ())
    assert platform.allows("a100").tolist() == [True, False]
    assert parse_platform("f", platform.to_toml()).sha256 == platform.sha256


def test_a_platform_that_is_estimated_from_a_log_stays_so_in_its_file():
    platform = replace(Platform.pool(cpus=8), estimated=True)
    text = platform_text(platform)
    assert text.splitlines()[1].startswith("estimated = true  # from the jobs of a log")
    again = parse_platform("x.toml", text)
    assert (again.estimated, again.size_text) == (True, "8 cpus, estimated from the log")
    assert again.as_dict()["estimated"] is True
    assert again.sha256 == platform.sha256
    assert "estimated" not in platform_text(Platform.pool(cpus=8))
    assert "estimated: expected true or false" in refusal("estimated = 3\n[[node]]\ncpus = 1\n")
