"""Graph files: every format gives back what was written, and no bytes do worse than a one-line error."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from topology import families, files
from topology.errors import (
    AsymmetricError,
    DisconnectedError,
    GraphFileError,
    NegativeWeightError,
    NonFiniteWeightError,
    SelfLoopError,
    TopologyError,
)
from topology.network import from_edges

AWKWARD = from_edges(4, [(0, 1, 0.1), (1, 2, 5e-324), (0, 2, 1 / 3), (2, 3, 1.7976931348623157e308)])
NETWORKS = [
    AWKWARD,
    families.build("path", 1, 0),
    families.build("star", 12, 0),
    families.build("random-regular", 20, 1, degree=3),
]


@pytest.mark.parametrize("format", files.FORMATS)
@pytest.mark.parametrize("network", NETWORKS)
def test_written_and_parsed_is_the_same_bit_for_bit(network: Any, format: str) -> None:
    data = files.write(network, format)
    assert files.parse(data, format).digest() == network.digest()
    assert files.write(network, format) == data


@settings(deadline=None, max_examples=30)
@given(st.floats(min_value=5e-324, max_value=1e300), st.sampled_from(files.FORMATS))
def test_every_weight_survives(weight: float, format: str) -> None:
    network = from_edges(2, [(0, 1, weight)])
    assert files.parse(files.write(network, format), format).edges == [(0, 1, weight)]


@pytest.mark.parametrize(
    ("suffix", "format"),
    [("xml", "graphml"), ("txt", "edge-list"), ("csv", "edge-list"), ("edgelist", "edge-list"), ("JSON", "node-link")],
)
def test_usual_suffixes_name_formats(suffix: str, format: str) -> None:
    assert files.parse(files.write(AWKWARD, format), suffix).digest() == AWKWARD.digest()


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(
        GraphFileError, match="'dot' is unknown: known are graphml, gml, gexf, edge-list, node-link, npz"
    ):
        files.parse(b"", "dot")


GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="w" for="edge" attr.name="weight" attr.type="double"/>
  <graph edgedefault="{direction}">
    <node id="n10"/><node id="n9"/><node id="n1"/>
    <edge source="n1" target="n9"><data key="w">2.5</data></edge>
    {more}
  </graph>
</graphml>"""


def test_names_are_numbered_in_natural_order_and_weights_default_to_1() -> None:
    text = GRAPHML.format(direction="undirected", more='<edge source="n9" target="n10"/>')
    assert files.parse(text.encode(), "graphml").edges == [(0, 1, 2.5), (1, 2, 1.0)]


def test_directed_files_must_hold_each_edge_both_ways() -> None:
    back = '<edge source="n9" target="n1"><data key="w">{}</data></edge>'
    rest = '<edge source="n9" target="n10"/><edge source="n10" target="n9"/>'
    good = GRAPHML.format(direction="directed", more=back.format("2.5") + rest)
    assert files.parse(good.encode(), "graphml").edges == [(0, 1, 2.5), (1, 2, 1.0)]
    for more, named in (
        (rest, r"edge n1-n9 .* and 0 back"),
        (back.format("2.6") + rest, r"edge n9-n1 .* and 2\.5 back"),
    ):
        with pytest.raises(AsymmetricError, match=named):
            files.parse(GRAPHML.format(direction="directed", more=more).encode(), "graphml")


def test_an_edge_list_takes_comments_commas_and_repeats() -> None:
    text = b"# friends\nann, bob\nbob ann 1  # again\n\nbob\tcid\t0.5\n"
    assert files.parse(text, "edge-list").edges == [(0, 1, 1.0), (1, 2, 0.5)]


def test_gml_by_label_or_by_id() -> None:
    labelled = b'graph [ node [ id 7 label "b" ] node [ id 3 label "a" ] edge [ source 7 target 3 weight 2 ] ]'
    assert files.parse(labelled, "gml").edges == [(0, 1, 2.0)]
    assert files.parse(b"graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]", "gml").edges == [
        (0, 1, 1.0)
    ]


def test_both_spellings_of_node_link() -> None:
    for edges in ("links", "edges"):
        document = {"nodes": [{"id": 0}, {"id": 1}], edges: [{"source": 0, "target": 1, "weight": 3}]}
        assert files.parse(json.dumps(document).encode(), "json").edges == [(0, 1, 3.0)]


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_matrices_as_scipy_saves_them_and_dense_ones(layout: str) -> None:
    buffer = io.BytesIO()
    sparse.save_npz(buffer, AWKWARD.weights.asformat(layout))
    assert files.parse(buffer.getvalue(), "npz").digest() == AWKWARD.digest()
    assert files.parse(npz(W=AWKWARD.weights.toarray()), "npz").digest() == AWKWARD.digest()


def saved(layout: str, agents: int, **arrays: list[int]) -> bytes:
    numbers = {name: np.array(values) for name, values in arrays.items()}
    return npz(format=np.array(layout.encode()), shape=np.array([agents, agents]), data=np.ones(2), **numbers)


def promising(shape: tuple[int, ...]) -> bytes:
    """A member whose header promises ``shape`` and that holds nothing."""
    header, buffer = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("W.npy", header.getvalue())
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "format", "error", "named"),
    [
        (b"a b\nb c 2\nc b 3", "txt", GraphFileError, "edge c-b is there twice, with weights 2 and 3"),
        (b"a b x", "txt", GraphFileError, "edge a-b has weight 'x'"),
        (b"a b nan", "txt", NonFiniteWeightError, "edge a-b"),
        (b"a b -1", "txt", NegativeWeightError, "edge a-b has weight -1"),
        (b"a a", "txt", SelfLoopError, "agent a"),
        (b"a b\nc d", "txt", DisconnectedError, "2 components, {a, b} {c, d}"),
        (b"a b 1 2", "txt", GraphFileError, "line 1 has 4 fields"),
        (b"", "txt", GraphFileError, "no agents"),
        (b"0 1\n1 3", "txt", GraphFileError, "must be 0 to 2: there is a 3 but no 2"),
        (b"0 1\n1 01", "txt", GraphFileError, "but no 2"),
        (b"\xff\xfe", "txt", GraphFileError, "edge-list"),
        (b"{}", "json", GraphFileError, "node-link"),
        (b"[]", "json", GraphFileError, "must be an object"),
        (b"[" * 100_000, "json", GraphFileError, "RecursionError"),
        (b'{"nodes":[{"id":[1]},{"id":2}],"links":[]}', "json", GraphFileError, "named by a tuple"),
        (
            b'{"nodes":[{"id":0},{"id":1}],"links":[{"source":0,"target":1,"weight":true}]}',
            "json",
            GraphFileError,
            "0-1",
        ),
        (
            b'{"nodes":[{"id":0},{"id":1}],"links":[{"source":0,"target":1},{"source":0,"target":1,"weight":2}]}',
            "json",
            GraphFileError,
            "twice",
        ),
        (b"graph [ " * 50_000, "gml", GraphFileError, "gml"),
        (b"<a>", "graphml", GraphFileError, "graphml"),
        (b"<a>" * 100_000, "gexf", GraphFileError, "nests elements more than 64 deep"),
        (b'<!DOCTYPE a [<!ENTITY x "xx">]><graphml>&x;</graphml>', "graphml", GraphFileError, "document type"),
        ('<!DOCTYPE a [<!ENTITY x "xx">]><a>&x;</a>'.encode("utf-16"), "gexf", GraphFileError, "document type"),
        (b"PK", "npz", GraphFileError, "npz"),
        (npz(W=np.ones(3)), "npz", GraphFileError, "1 dimensions"),
        (npz(W=np.ones((2, 2)), V=np.ones((2, 2))), "npz", GraphFileError, "['V', 'W']"),
        (npz(W=np.array([[{}]], dtype=object)), "npz", GraphFileError, "header promises"),
        (npz(W=np.ones((2, 2), dtype=complex)), "npz", GraphFileError, "complex128"),
        (promising((10**9, 10**9)), "npz", GraphFileError, "header promises"),
        (promising((2**32, 2**32)), "npz", GraphFileError, "header promises"),
        (saved("coo", 10**12, row=[0, 1], col=[1, 0]), "npz", DisconnectedError, "at least n - 1 edges"),
        (saved("coo", 2, row=[0, -1], col=[1, 0]), "npz", GraphFileError, "negative"),
        (saved("csr", 2, indptr=[0, 1, 2], indices=[1, 77]), "npz", GraphFileError, "indices must be < 2"),
        (saved("csr", 2, indptr=[0, 5, 2], indices=[1, 0]), "npz", GraphFileError, "indptr"),
        (saved("bsr", 2, indptr=[0, 1, 2], indices=[1, 0]), "npz", GraphFileError, "csr, csc or coo"),
    ],
)
def test_garbage_and_bombs_are_one_line_errors(data: bytes, format: str, error: type[Exception], named: str) -> None:
    with pytest.raises(TopologyError) as caught:
        files.parse(data, format)
    assert type(caught.value) is error
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arrays_that_unpack_to_too_much_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_MATRIX", 1 << 20)
    data = npz(W=np.zeros((1000, 1000)))
    assert len(data) < 1 << 14
    with pytest.raises(GraphFileError, match="unpack to more than 1048576 bytes"):
        files.parse(data, "npz")


def outcome(data: bytes, format: str) -> str:
    try:
        return files.parse(data, format).digest()
    except TopologyError as error:
        return str(error)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(files.FORMATS), st.data())
def test_damaged_files_parse_or_raise_one_line(format: str, data: st.DataObject) -> None:
    whole = bytearray(files.write(AWKWARD, format))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    assert "\n" not in outcome(bytes(whole[:cut]), format)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(files.FORMATS), st.binary(max_size=200))
def test_random_bytes_parse_or_raise_one_line(format: str, data: bytes) -> None:
    assert "\n" not in outcome(data, format)


RING = from_edges(4, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 3, 1.0)])


def written(write: Any, graph: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    write(graph, buffer, **options)
    return buffer.getvalue()


def test_what_networkx_writes_is_read() -> None:
    graph = nx.cycle_graph(4)
    assert files.parse(written(nx.write_edgelist, graph), "txt").digest() == RING.digest()
    assert files.parse(written(nx.write_edgelist, graph, data=False), "txt").digest() == RING.digest()
    assert files.parse(written(nx.write_adjlist, graph), "adjlist").digest() == RING.digest()
    for a, b in graph.edges:
        graph.edges[a, b].update(weight=0.5 + a + b, colour="red, and {blue}")
    half = from_edges(4, [(a, b, 0.5 + a + b) for a, b in graph.edges])
    assert files.parse(written(nx.write_edgelist, graph), "txt").digest() == half.digest()
    assert files.parse(written(nx.write_weighted_edgelist, graph), "txt").digest() == half.digest()


@pytest.mark.parametrize("graph", [nx.cycle_graph(4), nx.complete_graph(3), nx.star_graph(2), nx.cycle_graph("abcd")])
def test_an_adjacency_list_is_not_read_as_edges(graph: Any) -> None:
    data = written(nx.write_adjlist, graph)
    with pytest.raises(GraphFileError, match=r"\.adjlist"):
        files.parse(data, "txt")
    assert len(files.parse(data, "adjlist").edges) == graph.number_of_edges()


def test_an_adjacency_list_is_read_and_not_written() -> None:
    with pytest.raises(GraphFileError, match="'adjacency-list' is read and not written"):
        files.write(RING, "adjlist")
    with pytest.raises(GraphFileError, match="line 1 has attributes"):
        files.parse(b"a b {}", "adjlist")


@pytest.mark.parametrize("format", ["graphml", "gml", "gexf", "edge-list", "node-link"])
def test_a_byte_order_mark_is_passed_over(format: str) -> None:
    data = b"\xef\xbb\xbf" + files.write(RING, format)
    assert files.parse(data, format).digest() == RING.digest()


@pytest.mark.parametrize(
    "text", ["a b {", "a b c {}", "a b [1]{1}", "{'weight': 1}", "a b {} {}", "a b {'weight': {}}"]
)
def test_attributes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(GraphFileError):
        files.parse(text.encode(), "txt")


def test_the_caller_may_number_the_agents() -> None:
    place = {"c2": 0, "c10": 1, "c1": 2}
    found = files.parse(b"c1 c2 0.5\nc2 c10", "txt", lambda names: [place[name] for name in names])
    assert found.edges == [(0, 1, 1.0), (0, 2, 0.5)]
    with pytest.raises(GraphFileError, match="each must be there once"):
        files.parse(b"a b", "txt", lambda names: [0, 0])
