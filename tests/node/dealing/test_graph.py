"""A graph file, a file of budgets and an event reach the agents that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from node.configuration.events import EventSection, aimed_at
from node.configuration.public import dump
from node.configuration.reading import from_table
from node.dealing.budgets import from_file
from node.dealing.graph import network, public_assumptions
from node.dealing.preparation import prepare
from node.dealing.rows import deal_data


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "patients.csv"
    path.write_text("clinic,age,ill\n" + "".join(f"c{k},{k},{k % 2}\nc{k},{k},0\n" for k in range(1, 13)))
    return {
        "run": {"seed": 1},
        "data": {"source": "csv", "path": str(path), "column": "clinic", "label": "ill"},
        "topology": {"kind": "file", "path": str(tmp_path / "graph.graphml")},
        "learning": {"mu": 1.0},
    }


def test_a_star_is_around_the_agent_of_its_name(table: dict[str, Any], tmp_path: Path) -> None:
    star = nx.Graph([("c2", f"c{k}") for k in range(1, 13) if k != 2])
    nx.write_graphml(star, tmp_path / "graph.graphml")
    configuration = from_table(table)
    names = deal_data(configuration, 1).names
    graph = network(configuration)
    assert [names[i] for i in range(12) if len(graph.neighbours(i)) > 1] == ["clinic c2"]
    nx.write_graphml(nx.star_graph(11), tmp_path / "graph.graphml")
    assert len(network(configuration).neighbours(0)) == 11


def test_names_that_do_not_match_are_refused(table: dict[str, Any], tmp_path: Path) -> None:
    configuration = from_table(table)
    for graph, message in (
        (nx.relabel_nodes(nx.cycle_graph(12), lambda k: f"n{k}"), "no agent 'n0'"),
        (nx.relabel_nodes(nx.cycle_graph(12), lambda k: k + 1), "no agent '12'"),
        (nx.cycle_graph(5), "the graph has 5 agents, the data 12"),
        (nx.relabel_nodes(nx.cycle_graph(12), lambda k: f"c{k or 12}" if k != 3 else "clinic c2"), "'clinic c3'"),
    ):
        nx.write_graphml(graph, tmp_path / "graph.graphml")
        with pytest.raises(ValueError, match=f"topology.path = .*{message}"):
            network(configuration)


def test_budgets_and_events_reach_the_agents_that_they_name(tmp_path: Path) -> None:
    names = ["clinic 1", "clinic 2", "clinic 10"]
    path = tmp_path / "budgets.csv"
    path.write_bytes(b"\xef\xbb\xbfagent,epsilon\n1,0.1\n2,5\n")
    assert from_file(path, names, (1.0, 1e-5)) == [(0.1, 1e-5), (5.0, 1e-5), (1.0, 1e-5)]
    path.write_text("agent,epsilon\n0,0.1\n2,5\n")
    with pytest.raises(ValueError, match="row 3: '2' is the name of 'clinic 2', but '0' is no name"):
        from_file(path, names, (1.0, 1e-5))
    pause = EventSection.model_validate({"at": 1, "fault": "pause", "target": ["10", 1], "lasting": 1})
    assert aimed_at(pause, 0, names, 1) == (1, 2)


def test_labels_0_and_1_are_asked_for_their_words(table: dict[str, Any]) -> None:
    ring = {**table, "topology": {"kind": "ring"}}
    with pytest.raises(ValueError, match=r'learning\.loss = "logistic": label 0: .*data\.positive'):
        prepare(from_table(ring))
    found = prepare(from_table({**ring, "data": {**table["data"], "positive": "1"}}))
    assert found.configuration.data.negative == ("0",)
    assert 'negative = ["0"]' in dump(found.configuration)


def test_the_delta_of_an_agent_that_opts_out_warns_of_nobody(table: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "budgets.csv").write_text("agent,epsilon,delta\nc3,0,0.9\nc4,1,0.6\nc5,0.5,1e-9\n")
    privacy = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6, "clip": 1.0}
    privacy["budgets"] = str(tmp_path / "budgets.csv")
    data = {**table["data"], "positive": "1", "bounds": {"*": [0, 12]}, "held_out": 0.0}
    found = prepare(from_table({**table, "data": data, "topology": {"kind": "ring"}, "privacy": privacy}))
    told = [warning for warning in found.warnings if "privacy.delta" in warning]
    place = found.dealt.names.index("clinic c4")
    assert told == [
        f"privacy.delta = 0.6 is at least 1/m_i for agent {place}: such a delta permits publishing a whole record; "
        "use a smaller one"
    ]


@pytest.mark.parametrize(("kind", "named"), [("random-regular", 0), ("angle-similarity", 1)])
def test_only_a_graph_from_the_data_is_named_as_an_assumption(kind: str, named: int) -> None:
    degree = {"degree": 2} if kind == "random-regular" else {}
    configuration = from_table(
        {
            "run": {"seed": 1},
            "data": {"source": "synthetic", "agents": 6, "dimension": 4},
            "topology": {"kind": kind, **degree},
            "learning": {"mu": 1.0},
            "privacy": {"mechanism": "none"},
        }
    )
    told = public_assumptions(configuration, deal_data(configuration, 1))
    assert sum("graph" in sentence for sentence in told) == named
