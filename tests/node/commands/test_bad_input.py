"""Bad input: one line that names the setting, its value and what would be accepted, and nothing half-written."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from node.configuration.public import dump
from node.configuration.reading import from_table, load
from node.configuration.sections import Configuration
from node.dealing.folder import deal_run
from node.dealing.preparation import prepare
from node.folder.manifest import RunFolderError, read_manifest
from node.worlds import limits
from tests.helpers.places import ROOT
from tests.helpers.tables import private, public
from topology import files
from topology.network import Network

BINARY = {"loss": "logistic", "mu": 1.0, "finish": None, "regularisation": None}


def rows(path: Path, changed: dict[int, tuple[object, object, object]] | None = None, bound: float = 0.4) -> str:
    """A CSV file of forty rows of four people: two numbers, and a label in {-1, 1}."""
    rng = np.random.default_rng(4)
    lines = ["who,a,b,y"]
    for row in range(40):
        a, b = np.round(rng.uniform(-bound, bound, 2), 3)
        a, b, y = (changed or {}).get(row, (a, b, int(rng.choice([-1, 1]))))
        lines.append(f"{row % 4},{a},{b},{y}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def from_csv(path: str, **data: Any) -> dict[str, Any]:
    source = {"source": "csv", "path": path, "label": "y", "column": "who", "row_bound": 1.5, **data}
    return private(
        data={key: value for key, value in source.items() if value is not None},
        topology={"kind": "ring", "degree": None},
        learning=BINARY,
    )


def refused(folder: Path, table: dict[str, Any]) -> str:
    """The one line with which a run of ``table`` is refused; nothing is left of it."""
    before = sorted(folder.iterdir())
    with pytest.raises(ValueError, match=r".") as caught:
        deal_run(from_table(table), folder / "run")
    line = str(caught.value)
    assert "\n" not in line
    assert sorted(folder.iterdir()) == before, "something half-written is left"
    return line


def warned(table: dict[str, Any]) -> str:
    return "; ".join(prepare(from_table(table)).warnings)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning": {"mue": 1.0}}, ["learning.mue", "did you mean learning.mu?"]),
        ({"lerning": {"mu": 1.0}}, ["lerning", "did you mean learning?"]),
        ({"clock": {"epsilon": 1.0}}, ["clock.epsilon", "did you mean privacy.epsilon?"]),
        ({"privacy": {"epsilon": 0.0}}, ["privacy.epsilon = 0.0", "greater than 0"]),
        ({"privacy": {"epsilon": -1.0}}, ["privacy.epsilon = -1.0", "greater than 0"]),
        ({"privacy": {"epsilon": "much"}}, ["privacy.epsilon", '"much"', "number"]),
        ({"privacy": {"delta": 0.0}}, ["privacy.delta = 0.0", "greater than 0 and less than 1"]),
        ({"privacy": {"delta": 1.0}}, ["privacy.delta = 1.0", "greater than 0 and less than 1"]),
        ({"privacy": {"delta": None}}, ["privacy.delta is missing", "between 0 and 1"]),
        ({"privacy": {"clip": None}}, ["privacy.clip is missing", "greater than 0"]),
        ({"privacy": {"mechanism": "none"}}, ["privacy.mechanism", "privacy.epsilon = 2.0", "laplace"]),
        ({"learning": {"smoothness": "data"}}, ["learning.smoothness", '"data"', '"bound"', "private"]),
        ({"learning": {"loss": "hinge"}}, ["learning.loss", "'hinge'", "logistic", "squared"]),
        ({"learning": {"loss": "logistic"}}, ["learning.loss", "label", "-1 and 1"]),
        ({"topology": {"degree": 65}}, ["topology.degree", "65", "from 1 to 64"]),
        ({"clock": {"updates": 0}}, ["clock.updates = 0", "greater than or equal to 1"]),
    ],
)
def test_settings(tmp_path: Path, changes: dict[str, dict[str, Any]], words: list[str]) -> None:
    line = refused(tmp_path, private(**changes))
    for word in words:
        assert word in line


def test_user_means_in_a_private_run(tmp_path: Path) -> None:
    table = private(data={"source": "movielens-100k", "path": str(tmp_path), "centring": "user-mean"})
    line = refused(tmp_path, table)
    assert 'data.centring = "user-mean"' in line
    assert '"none"' in line


def test_a_disconnected_graph_names_its_components(tmp_path: Path) -> None:
    (tmp_path / "two.edges").write_text("0 1\n1 2\n3 4\n", encoding="utf-8")
    table = public(data={"agents": 5}, topology={"kind": "file", "path": str(tmp_path / "two.edges")})
    line = refused(tmp_path, table)
    assert "0, 1, 2" in line
    assert "3, 4" in line
    drawn = private(topology={"kind": "erdos-renyi", "probability": 0.01, "degree": None})
    line = refused(tmp_path, drawn)
    assert "components" in line
    assert "topology.probability" in line


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({7: ("nan", 0.1, 1)}, ["row 8", "'a'", "nan"]),
        ({7: ("inf", 0.1, 1)}, ["row 8", "'a'", "inf"]),
        ({7: ("", 0.1, 1)}, ["row 8", "'a'"]),
        ({7: (0.1, 0.1, "nan")}, ["row 8", "'y'", "nan"]),
        ({7: (0.1, 0.1, 2)}, ["label 2", "-1 and 1"]),
        ({7: (3.0, 0.1, 1)}, ["row 8", "3.16", "data.row_bound = 1.5"]),
    ],
)
def test_rows(tmp_path: Path, changed: dict[int, tuple[object, object, object]], words: list[str]) -> None:
    line = refused(tmp_path, from_csv(rows(tmp_path / "rows.csv", changed)))
    for word in words:
        assert word in line


def test_rows_that_nothing_public_bounds(tmp_path: Path) -> None:
    line = refused(tmp_path, from_csv(rows(tmp_path / "rows.csv"), row_bound=None))
    assert "bounds" in line
    assert "row_bound" in line


def test_columns_and_files_that_are_not_there(tmp_path: Path) -> None:
    path = rows(tmp_path / "rows.csv")
    assert "'z'" in refused(tmp_path, from_csv(path, label="z"))
    assert "none.csv" in refused(tmp_path, from_csv(str(tmp_path / "none.csv")))
    missing = public(topology={"kind": "file", "path": str(tmp_path / "none.graphml")})
    assert "none.graphml" in refused(tmp_path, missing)


def test_a_large_delta_is_a_warning_that_names_the_agents(tmp_path: Path) -> None:
    table = from_csv(rows(tmp_path / "rows.csv"))
    table["privacy"]["delta"] = 0.2
    text = warned(table)
    assert "privacy.delta = 0.2 is at least 1/m_i for agents 0, 1, 2, 3" in text
    table["privacy"]["delta"] = 1e-3
    assert warned(table) == ""


def test_an_agent_without_data_is_a_warning_and_learns_from_its_neighbours(tmp_path: Path) -> None:
    path = rows(tmp_path / "rows.csv")
    table = from_csv(path, column=None, drop=["who"], split="sizes", sizes=[20, 20, 0])
    made = prepare(from_table(table))
    assert "agent 2 without data" in "; ".join(made.warnings)
    assert 0.0 < made.confidences[2] < 0.01


def test_an_existing_run_folder_is_left_as_it_is(tmp_path: Path) -> None:
    configuration = from_table(public(data={"agents": 4}))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"exists and holds no run.*choose another --out or run\.name"):
        deal_run(configuration, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_a_socket_path_that_is_too_long(tmp_path: Path) -> None:
    configuration = from_table(public(network={"folder": str(tmp_path / ("x" * 120))}))
    with pytest.raises(ValueError, match=r"network\.folder.*at most 107"):
        limits.check_socket_paths(configuration)
    assert list(tmp_path.iterdir()) == []


def test_more_sockets_than_the_system_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = Network(sparse.csr_array(np.ones((40, 40)) - np.eye(40)))
    (tmp_path / "topology.graphml").write_bytes(files.write(complete, "graphml"))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    with pytest.raises(
        ValueError, match=r"40 agents.*needs \d+ open ipc sockets, the system allows 100 \(ulimit -Hn\)"
    ):
        limits.check_limits(tmp_path, from_table(public(data={"agents": 40})))


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"manifest\.json"):
        read_manifest(tmp_path)


def test_a_configuration_that_is_none(tmp_path: Path) -> None:
    for name, text in (("none.toml", None), ("broken.toml", "[run\n"), ("binary.toml", "\udcff")):
        if text is not None:
            (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(ValueError, match=name.replace(".", r"\.")) as caught:
            load(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_the_command_says_it_in_one_line_and_exits_2(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(dump(from_table(private())), encoding="utf-8")
    command = [sys.executable, "-m", "node.cli", "run", str(config), "--out", str(tmp_path / "run"), "--set"]
    done = subprocess.run([*command, "privacy.epsilon=0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "sottovoce: privacy.epsilon = 0: should be greater than 0\n"
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [config]


def test_every_example_is_a_configuration() -> None:
    examples = sorted((ROOT / "examples").glob("*.toml"))
    assert {path.name for path in examples} >= {
        "schools.toml",
        "schools-no-privacy.toml",
        "synthetic.toml",
        "movielens.toml",
    }
    assert all(isinstance(load(path), Configuration) for path in examples)


def test_masks_without_the_package_that_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    learning = {"algorithm": "gradient-descent", "aggregation": "masked-sum", "step": 1.0, "mu": None, "finish": None}
    table = private(learning=learning, clock={"rate": None})
    assert from_table(table).learning.aggregation == "masked-sum"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'learning\.aggregation = "masked-sum".*cryptography.*"secure"'):
        from_table(table)
