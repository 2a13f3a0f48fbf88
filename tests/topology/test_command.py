"""The command that describes a configuration's graph and draws it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from node.cli import application
from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.dealing.graph_picture import draw
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from topology import families, files, spectrum
from topology.network import Network

CONFIGURATION = """
[data]
source = "synthetic"
agents = 12
[topology]
{topology}
[run]
seed = 1
[learning]
mu = 1.0
"""


def configuration(folder: Path, topology: str) -> str:
    path = folder / "small.toml"
    path.write_text(CONFIGURATION.format(topology=topology))
    return str(path)


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(application(["topology", "status"]), ["topology", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_json_is_one_document_with_every_fact(tmp_path: Path) -> None:
    document = json.loads(invoke(configuration(tmp_path, 'kind = "star"'), "--json"))
    facts = spectrum.facts(families.build("star", 12, 1))
    conforms(document, "topology")
    assert document["kind"] == "star"
    assert document["digest"] == families.build("star", 12, 1).digest()
    assert document["bridges"] == [[0, j] for j in range(1, 12)]
    assert document["signed"]["largest"] == facts.signed.largest
    assert document["degrees"] == list(facts.degrees)
    assert document["neighbours"] == [list(range(1, 12)), *([[0]] * 11)]


def test_the_table_names_weak_points_and_overrides_count(tmp_path: Path) -> None:
    shown = invoke(configuration(tmp_path, 'kind = "ring"'), "--set", "topology.kind=star")
    assert "star, 12 agents" in shown
    assert "0-1, 0-2, 0-3" in shown


def test_a_graph_file_is_described(tmp_path: Path) -> None:
    (tmp_path / "ring.graphml").write_bytes(files.write(families.build("ring", 12, 0), "graphml"))
    shown = invoke(configuration(tmp_path, 'kind = "file"\npath = "ring.graphml"'))
    assert "file, 12 agents" in shown


def test_the_table_tells_who_is_whose_neighbour_where_there_are_few(tmp_path: Path) -> None:
    shown = " ".join(invoke(configuration(tmp_path, 'kind = "ring"')).split())
    assert "neighbours of 3 2 2, 4 neighbours of 4 2 3, 5" in shown
    assert "neighbours of" not in invoke(configuration(tmp_path, 'kind = "ring"'), "--set", "data.agents=100")


def test_a_run_s_graph_is_the_one_that_was_dealt(tmp_path: Path) -> None:
    unseeded = CONFIGURATION.format(topology='kind = "random-regular"\ndegree = 3').replace("seed = 1", "")
    run = tmp_path / "run"
    deal_run(from_table(tomllib.loads(unseeded)), run)
    document = json.loads(invoke(str(run), "--json"))
    network = files.parse((run / "topology.graphml").read_bytes(), "graphml")
    assert document["digest"] == network.digest()
    assert document["neighbours"] == [list(network.neighbours(agent)) for agent in range(12)]
    assert "each run draws" not in invoke(str(run))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{folder}"], "accepted is a configuration or the folder of a run"),
        (["{folder}", "--set", "data.agents=3"], "--set data.agents=3: accepted with a configuration"),
        (["{folder}/none.toml"], "none.toml: No such file or directory; give a TOML file"),
    ],
)
def test_what_has_no_graph_is_refused(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = answered("topology", *(text.format(folder=tmp_path) for text in arguments))
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture_is_written(tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"graph.{suffix}"
    invoke(configuration(tmp_path, 'kind = "ring"'), "--picture", str(picture))
    data = picture.read_bytes()
    if suffix == "png":
        assert data.startswith(b"\x89PNG")
    else:
        assert ElementTree.fromstring(data).tag.endswith("svg")


@pytest.mark.parametrize(
    ("picture", "named"), [("graph.jpg", "must end in .png or .svg"), ("nowhere/graph.png", "folder that is there")]
)
def test_a_bad_picture_name_is_an_error(tmp_path: Path, picture: str, named: str) -> None:
    path = configuration(tmp_path, 'kind = "ring"')
    with pytest.raises(ValueError, match=named):
        invoke(path, "--picture", str(tmp_path / picture))


def svg(network: Network) -> str:
    return draw(network, spectrum.facts(network), "a title", "svg").decode()


def test_pictures_say_what_they_show() -> None:
    star = svg(families.build("star", 5, 0))
    assert "a title" in star
    assert "5 agents, 4 edges; neighbours of an agent: 1 to 4, 1.6 on average; diameter 2" in star
    assert "bridge" in star
    assert "cut agent" in star
    ring = svg(families.build("ring", 5, 0))
    assert "neighbours of an agent: 2; diameter 2" in ring
    assert "bridge" not in ring
    assert svg(families.build("ring", 5, 0)) == ring


@pytest.mark.parametrize("agents", [1, 2, 90])
def test_any_number_of_agents_can_be_drawn(agents: int) -> None:
    assert svg(families.build("path", agents, 0)).count("<svg") == 1


@pytest.mark.thorough
def test_many_agents_are_drawn_as_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    from node.dealing import graph_picture as network_picture

    monkeypatch.setattr(network_picture, "_DRAWN", 50)
    assert "how many neighbours agents have" in svg(families.build("barabasi-albert", 60, 0, degree=2))
    assert "how many neighbours agents have" in svg(families.build("ring", 60, 0))
