"""Graph files, as bytes: GraphML, GML, GEXF, edge lists, node-link JSON and NPZ matrices.

Rules that hold here:
- Nothing here opens a file, and nothing is unpickled.
- Whatever the bytes are, `parse` returns a valid `Network` or raises a one-line `TopologyError`.
- Names that are all whole numbers must be 0..n-1 and stay; any others are numbered in natural order ("n2" < "n10").
- An edge's weight is its attribute ``weight``, 1 without. A file of directed edges must hold each edge both ways.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from topology.errors import (
    AsymmetricError,
    DisconnectedError,
    GraphFileError,
    NegativeWeightError,
    NonFiniteWeightError,
    SelfLoopError,
    TopologyError,
)
from topology.network import Network, describe_components

LARGEST_MATRIX = 1 << 30
"""No array of an NPZ file may unpack to more bytes."""

_LARGEST_DEPTH = 64
"""XML elements may be nested this deep; graphs need less than ten."""

Name = str | int


def parse(data: bytes, format: str) -> Network:
    """Read the network in ``data``.

    Parameters
    ----------
    data
        The bytes of a graph file.
    format
        One of `FORMATS`, or a usual file suffix of one, without its dot.

    Raises
    ------
    GraphFileError
        The bytes are no graph in this format.
    TopologyError
        Another subclass: the graph is no network.
    """
    reader = _READERS[_known(format)]
    try:
        return reader(data)
    except TopologyError:
        raise
    # Readers of six formats raise whatever they stumble over: key, index, value, type, recursion, memory, ...
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise GraphFileError(f"this is no graph in format {_known(format)}: {reason}") from None


def write(network: Network, format: str) -> bytes:
    """Write ``network`` in one of `FORMATS`; `parse` reads back the same network, bit for bit."""
    return _WRITERS[_known(format)](network)


def _known(format: str) -> str:
    name = _SUFFIXES.get(format.lower(), format.lower())
    if name not in FORMATS:
        suffixes = ", ".join(sorted(_SUFFIXES))
        raise GraphFileError(
            f"graph format {format!r} is unknown: known are {', '.join(FORMATS)} (suffixes {suffixes})"
        )
    return name


# Names and edges -----------------------------------------------------------------------------------------------------


def _number(names: Iterable[Name]) -> dict[Name, int]:
    """Each name's agent, in the agents' order."""
    listed = list(names)
    if not listed:
        raise GraphFileError("the file holds no agents")
    for name in listed:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise GraphFileError(f"agent {name!r} is named by a {type(name).__name__}: names are text or whole numbers")
    if all(isinstance(name, int) or re.fullmatch(r"-?[0-9]{1,18}", name) for name in listed):
        numbers = {name: int(name) for name in listed}
        missing = set(range(len(listed))) - set(numbers.values())
        if missing:
            wrong = max(numbers, key=lambda name: abs(numbers[name]))
            raise GraphFileError(
                f"{len(listed)} agents that are numbers must be 0 to {len(listed) - 1}: there is a {wrong} "
                f"but no {min(missing)}"
            )
        return dict(sorted(numbers.items(), key=lambda item: item[1]))
    return {name: agent for agent, name in enumerate(sorted(listed, key=_natural))}


def _natural(name: Name) -> tuple[list[str | tuple[int, str]], str]:
    """Text compares as text and digits as numbers; digits by length first, so that no number is too long."""
    pieces = re.split(r"([0-9]+)", str(name))
    key: list[str | tuple[int, str]] = []
    for place, piece in enumerate(pieces):
        digits = piece.lstrip("0")
        key.append(piece if place % 2 == 0 else (len(digits), digits))
    return key, str(name)


def _weight(a: Name, b: Name, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        weight = float(value)
    except (TypeError, ValueError):
        raise GraphFileError(f"edge {a}-{b} has weight {value!r}: weights are numbers") from None
    if not math.isfinite(weight):
        raise NonFiniteWeightError(f"edge {a}-{b} has weight {weight:g}: weights must be finite")
    if weight < 0:
        raise NegativeWeightError(f"edge {a}-{b} has weight {weight:g}: weights must not be negative")
    return weight


def _from_named(names: Iterable[Name], edges: Iterable[tuple[Name, Name, Any]], directed: bool) -> Network:
    """A network from named edges; an undirected edge that is there twice must have one weight."""
    weights: dict[tuple[Name, Name], float] = {}
    for a, b, value in edges:
        weight = _weight(a, b, value)
        if a == b:
            raise SelfLoopError(f"agent {a} is its own neighbour: self-loops are not accepted")
        for pair in [(a, b)] if directed else [(a, b), (b, a)]:
            if weights.setdefault(pair, weight) != weight:
                raise GraphFileError(f"edge {a}-{b} is there twice, with weights {weights[pair]:g} and {weight:g}")
    for (a, b), weight in weights.items():
        back = weights.get((b, a), 0.0)
        if back != weight:
            raise AsymmetricError(
                f"edge {a}-{b} has weight {weight:g} from {a} to {b} and {back:g} back: both must be equal"
            )
    agents = _number(names)
    rows = [agents[a] for a, _ in weights]
    columns = [agents[b] for _, b in weights]
    shape = (len(agents), len(agents))
    matrix = sparse.csr_array((np.array(list(weights.values()), dtype=np.float64), (rows, columns)), shape=shape)
    # Checked here as well, where the file's own names for the agents are known.
    count, labels = csgraph.connected_components(matrix, directed=False)
    if count > 1:
        raise DisconnectedError(f"the graph is not connected: {describe_components(count, labels, list(agents))}")
    return Network(matrix)


def _from_graph(graph: nx.Graph) -> Network:
    return _from_named(graph.nodes, graph.edges(data="weight", default=1.0), graph.is_directed())


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


def _read_graphml(data: bytes) -> Network:
    _refuse_bombs(data)
    return _from_graph(nx.read_graphml(io.BytesIO(data)))


def _write_graphml(network: Network) -> bytes:
    buffer = io.BytesIO()
    nx.write_graphml_xml(_to_graph(network), buffer)
    return buffer.getvalue()


def _read_gexf(data: bytes) -> Network:
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


def _read_gml(data: bytes) -> Network:
    lines = data.decode("utf-8").splitlines()
    try:
        graph = nx.parse_gml(lines, label="label")
    except nx.NetworkXError as error:
        if "label" not in str(error):
            raise
        graph = nx.parse_gml(lines, label="id")
    return _from_graph(graph)


def _write_gml(network: Network) -> bytes:
    return "".join(f"{line}\n" for line in nx.generate_gml(_to_graph(network))).encode("utf-8")


def _read_edge_list(data: bytes) -> Network:
    names: dict[Name, None] = {}
    edges: list[tuple[Name, Name, Any]] = []
    for number, line in enumerate(data.decode("utf-8").splitlines(), start=1):
        fields = line.partition("#")[0].replace(",", " ").split()
        if len(fields) > 3:
            raise GraphFileError(f"line {number} has {len(fields)} fields: an edge is two agents and maybe a weight")
        for name in fields[:2]:
            names[name] = None
        if len(fields) > 1:
            edges.append((fields[0], fields[1], fields[2] if len(fields) == 3 else 1.0))
    return _from_named(names, edges, directed=False)


def _write_edge_list(network: Network) -> bytes:
    edges = network.edges
    lines = [f"{i} {j} {weight!r}\n" for i, j, weight in edges] if edges else ["0\n"]
    return "".join(lines).encode("ascii")


def _read_node_link(data: bytes) -> Network:
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


_READERS: dict[str, Callable[[bytes], Network]] = {
    "graphml": _read_graphml,
    "gml": _read_gml,
    "gexf": _read_gexf,
    "edge-list": _read_edge_list,
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

FORMATS = tuple(_READERS)
"""The names that `parse` and `write` know."""

_SUFFIXES = {
    "graphml": "graphml",
    "xml": "graphml",
    "gml": "gml",
    "gexf": "gexf",
    "edgelist": "edge-list",
    "edges": "edge-list",
    "csv": "edge-list",
    "tsv": "edge-list",
    "txt": "edge-list",
    "json": "node-link",
    "npz": "npz",
}
