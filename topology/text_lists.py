"""Edge lists and adjacency lists: a line of text for each edge, or for each agent and its neighbours.

Both are lines of names between spaces, so that one can be taken for the other. A file of edges that may also be an
adjacency list, with another meaning, is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from topology.errors import GraphFileError
from topology.named_edges import Name, NamedEdges


def read_edge_list(data: bytes) -> NamedEdges:
    """Read lines ``a b``, ``a b weight`` or, as networkx writes them, ``a b {'weight': 2.0}``."""
    names: dict[Name, None] = {}
    edges: list[tuple[Name, Name, Any]] = []
    lines = list(_lines(data))
    for number, fields, attributes in lines:
        if len(fields) > 3:
            raise GraphFileError(
                f"line {number} has {len(fields)} fields: an edge is two agents and maybe a weight; an adjacency list "
                "has the suffix .adjlist"
            )
        for name in fields[:2]:
            names[name] = None
        if attributes is not None:
            edges.append((*_two(number, fields), _dictionary(number, attributes).get("weight", 1.0)))
        elif len(fields) > 1:
            edges.append((fields[0], fields[1], fields[2] if len(fields) == 3 else 1.0))
    _refuse_adjacency([fields for _, fields, _ in lines])
    return NamedEdges(names, edges)


def read_adjacency_list(data: bytes) -> NamedEdges:
    """Read lines ``a b c``: agent a and its neighbours, each edge at one of its ends or at both."""
    names: dict[Name, None] = {}
    edges: list[tuple[Name, Name, Any]] = []
    for number, fields, attributes in _lines(data):
        if attributes is not None:
            raise GraphFileError(f"line {number} has attributes: an adjacency list holds names alone")
        names.update(dict.fromkeys(fields))
        edges += [(fields[0], other, 1.0) for other in fields[1:]]
    return NamedEdges(names, edges)


def _lines(data: bytes) -> Iterator[tuple[int, list[str], str | None]]:
    """(number, fields, attributes in braces) of each line that holds anything; "#" starts a comment."""
    for number, line in enumerate(data.decode("utf-8-sig").splitlines(), start=1):
        head, brace, rest = line.partition("#")[0].partition("{")
        fields = head.replace(",", " ").split()
        if fields or brace:
            yield number, fields, brace + rest if brace else None


def _two(number: int, fields: list[str]) -> tuple[str, str]:
    if len(fields) != 2:
        raise GraphFileError(f"line {number} has {len(fields)} fields before its attributes: an edge is two agents")
    return fields[0], fields[1]


def _dictionary(number: int, text: str) -> dict[Any, Any]:
    try:
        found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, dict):
        raise GraphFileError(f"line {number}: attributes are written {{'weight': 2.0}}, not {text.strip()[:40]!r}")
    return found


def _refuse_adjacency(lines: list[list[str]]) -> None:
    """Raise GraphFileError if each line may be an agent with its neighbours, and that is another graph."""
    firsts = [fields[0] for fields in lines]
    agents = set(firsts)
    weighted = next((fields for fields in lines if len(fields) == 3), None)
    if len(agents) < len(firsts) or weighted is None:
        return
    if all(name in agents for fields in lines for name in fields):
        raise GraphFileError(
            f"line {' '.join(weighted)!r} may be an edge with its weight, or an agent with its neighbours: an "
            "adjacency list has the suffix .adjlist; in an edge list write the weight with a point, such as 3.0"
        )
