"""Graph files, as bytes: GraphML, GML, GEXF, edge and adjacency lists, node-link JSON and NPZ matrices.

Rules that hold here:
- Nothing here opens a file, and nothing is unpickled.
- Whatever the bytes are, `parse` returns a valid `Network` or raises a one-line `TopologyError`.
- Names that are all whole numbers must be 0..n-1 and stay; any others are numbered in natural order ("n2" < "n10"),
  unless the caller numbers them. The agents of a matrix have no names: they are its rows.
- An edge's weight is its attribute ``weight``, 1 without. A file of directed edges must hold each edge both ways.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import networkx as nx
import numpy as np
from scipy import sparse

from topology.errors import DisconnectedError, GraphFileError, TopologyError
from topology.named_edges import NamedEdges, Numbering, by_themselves, network_of
from topology.network import Network
from topology.text_lists import read_adjacency_list, read_edge_list

LARGEST_MATRIX = 1 << 30
"""No array of an NPZ file may unpack to more bytes."""

_LARGEST_DEPTH = 64
"""XML elements may be nested this deep; graphs need less than ten."""


def parse(data: bytes, format: str, numbering: Numbering = by_themselves) -> Network:
    """Read the network in ``data``.

    Parameters
    ----------
    data
        The bytes of a graph file.
    format
        One of `FORMATS`, or a usual file suffix of one, without its dot.
    numbering
        The agents' numbers by the file's names.

    Raises
    ------
    GraphFileError
        The bytes are no graph in this format.
    TopologyError
        Another subclass: the graph is no network, or ``numbering`` raised it.
    """
    reader = _READERS[_known(format)]
    try:
        found = reader(data)
        return found if isinstance(found, Network) else network_of(found, numbering)
    except TopologyError:
        raise
    # Readers of six formats raise whatever they stumble over: key, index, value, type, recursion, memory, ...
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise GraphFileError(f"this is no graph in format {_known(format)}: {reason}") from None


def write(network: Network, format: str) -> bytes:
    """Write ``network`` in one of `FORMATS`; `parse` reads back the same network, bit for bit."""
    name = _known(format)
    if name not in _WRITERS:
        raise GraphFileError(f"graph format {name!r} is read and not written: written are {', '.join(FORMATS)}")
    return _WRITERS[name](network)


def _known(format: str) -> str:
    name = _SUFFIXES.get(format.lower(), format.lower())
    if name not in _READERS:
        suffixes = ", ".join(sorted(_SUFFIXES))
        raise GraphFileError(
            f"graph format {format!r} is unknown: known are {', '.join(FORMATS)} (suffixes {suffixes})"
        )
    return name


# Graphs of networkx ---------------------------------------------------------------------------------------------------


def _from_graph(graph: nx.Graph) -> NamedEdges:
    return NamedEdges(graph.nodes, graph.edges(data="weight", default=1.0), graph.is_directed())


def _to_graph(network: Network) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(network.agents))
    graph.add_weighted_edges_from(network.edges)
    return graph


# XML: GraphML and GEXF ----------------------------------------------------------------------------------------------


def _refuse_bombs(data: bytes) -> None:
    """Entities can make a small file huge, and nesting can exhaust the stack; graphs need neither."""
    parser = expat.ParserCreate()
    depth = 0

    def doctype(*_: Any) -> None:
        raise GraphFileError("the file has a document type declaration, which can define entities: remove it")

    def start(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > _LARGEST_DEPTH:
            raise GraphFileError(f"the file nests elements more than {_LARGEST_DEPTH} deep")

    def end(*_: Any) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.Parse(data, True)


def _read_graphml(data: bytes) -> NamedEdges:
    _refuse_bombs(data)
    return _from_graph(nx.read_graphml(io.BytesIO(data)))


def _write_graphml(network: Network) -> bytes:
    buffer = io.BytesIO()
    nx.write_graphml_xml(_to_graph(network), buffer)
    return buffer.getvalue()


def _read_gexf(data: bytes) -> NamedEdges:
    _refuse_bombs(data)
    return _from_graph(nx.read_gexf(io.BytesIO(data)))


def _write_gexf(network: Network) -> bytes:
    buffer = io.BytesIO()
    nx.write_gexf(_to_graph(network), buffer)
    # The writer puts the day into <meta>; the same network is to give the same bytes.
    root = ElementTree.fromstring(buffer.getvalue())
    space = root.tag.partition("}")[0].removeprefix("{")
    ElementTree.register_namespace("", space)
    for meta in root.findall(f"{{{space}}}meta"):
        root.remove(meta)
    cleaned: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return cleaned


# Text: GML, edge lists, JSON ----------------------------------------------------------------------------------------


def _read_gml(data: bytes) -> NamedEdges:
    lines = data.decode("utf-8-sig").splitlines()
    try:
        graph = nx.parse_gml(lines, label="label")
    except nx.NetworkXError as error:
        if "label" not in str(error):
            raise
        graph = nx.parse_gml(lines, label="id")
    return _from_graph(graph)


def _write_gml(network: Network) -> bytes:
    return "".join(f"{line}\n" for line in nx.generate_gml(_to_graph(network))).encode("utf-8")


def _write_edge_list(network: Network) -> bytes:
    edges = network.edges
    lines = [f"{i} {j} {weight!r}\n" for i, j, weight in edges] if edges else ["0\n"]
    return "".join(lines).encode("ascii")


def _read_node_link(data: bytes) -> NamedEdges:
    document = json.loads(data)
    if not isinstance(document, Mapping):
        raise GraphFileError("this is no graph in format node-link: it must be an object with nodes and edges")
    edges = "edges" if "edges" in document else "links"
    # As a multigraph, so that an edge that is there twice is seen and not overwritten.
    return _from_graph(nx.node_link_graph({**document, "multigraph": True}, edges=edges))


def _write_node_link(network: Network) -> bytes:
    return json.dumps(nx.node_link_data(_to_graph(network), edges="edges")).encode("ascii")


# NPZ matrices -------------------------------------------------------------------------------------------------------


def _read_npz(data: bytes) -> Network:
    """A dense matrix (the only array), or a CSR, CSC or COO matrix as `scipy.sparse.save_npz` writes it."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > LARGEST_MATRIX:
            raise GraphFileError(f"the arrays unpack to more than {LARGEST_MATRIX} bytes")
        for entry in archive.infolist():
            arrays[entry.filename.removesuffix(".npy")] = _read_array(entry.filename, archive.read(entry))
    if "format" in arrays:
        return Network(_sparse_matrix(arrays))
    if len(arrays) != 1:
        raise GraphFileError(f"the file holds the arrays {sorted(arrays)}: give one matrix, dense or as scipy saves it")
    (matrix,) = arrays.values()
    if matrix.ndim != 2:
        raise GraphFileError(f"the array has {matrix.ndim} dimensions: a weight matrix has 2")
    return Network(sparse.csr_array(matrix.astype(np.float64)))


def _read_array(name: str, data: bytes) -> np.ndarray[Any, Any]:
    header = io.BytesIO(data)
    version = np.lib.format.read_magic(header)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read(header)
    # Checked before numpy allocates what the header promises.
    if (
        kind.hasobject
        or np.prod([int(side) for side in shape], dtype=object) * kind.itemsize != len(data) - header.tell()
    ):
        raise GraphFileError(f"array {name} does not hold the numbers that its header promises")
    array: np.ndarray[Any, Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    if array.dtype.kind not in "biufSU":
        raise GraphFileError(f"array {name} has type {array.dtype}: weights are real numbers")
    return array


def _sparse_matrix(arrays: Mapping[str, np.ndarray[Any, Any]]) -> sparse.csr_array:
    saved = arrays["format"].item()
    layout = saved.decode("ascii") if isinstance(saved, bytes) else str(saved)
    rows, columns = (int(side) for side in arrays["shape"])
    values = arrays["data"].astype(np.float64)
    # A connected graph has at least n-1 edges; this also keeps a tiny file from asking for a huge matrix.
    if rows != columns or rows - 1 > values.size:
        raise DisconnectedError(
            f"a {rows} x {columns} matrix with {values.size} weights: it must be square, and connected graphs of "
            "n agents have at least n - 1 edges"
        )
    if layout == "coo":
        places = (arrays["row"], arrays["col"])
        return sparse.coo_array((values, places), shape=(rows, columns)).tocsr()
    if layout not in {"csr", "csc"}:
        raise GraphFileError(f"sparse matrices are read in csr, csc or coo layout, not {layout!r}")
    kind = sparse.csr_array if layout == "csr" else sparse.csc_array
    matrix = kind((values, arrays["indices"], arrays["indptr"]), shape=(rows, columns))
    matrix.check_format(full_check=True)
    return sparse.csr_array(matrix)


def _write_npz(network: Network) -> bytes:
    buffer = io.BytesIO()
    sparse.save_npz(buffer, network.weights)
    return buffer.getvalue()


_READERS: dict[str, Callable[[bytes], NamedEdges | Network]] = {
    "graphml": _read_graphml,
    "gml": _read_gml,
    "gexf": _read_gexf,
    "edge-list": read_edge_list,
    "adjacency-list": read_adjacency_list,
    "node-link": _read_node_link,
    "npz": _read_npz,
}
_WRITERS: dict[str, Callable[[Network], bytes]] = {
    "graphml": _write_graphml,
    "gml": _write_gml,
    "gexf": _write_gexf,
    "edge-list": _write_edge_list,
    "node-link": _write_node_link,
    "npz": _write_npz,
}

FORMATS = tuple(_WRITERS)
"""The names that `parse` and `write` know. `parse` knows "adjacency-list" too, which has no weights."""

_SUFFIXES = {
    "graphml": "graphml",
    "xml": "graphml",
    "gml": "gml",
    "gexf": "gexf",
    "edgelist": "edge-list",
    "adjlist": "adjacency-list",
    "edges": "edge-list",
    "csv": "edge-list",
    "tsv": "edge-list",
    "txt": "edge-list",
    "json": "node-link",
    "npz": "npz",
}
