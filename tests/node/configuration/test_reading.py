"""Configuration: what is refused and how, overrides, writing and reading back, the public digest."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.configuration.public import dump, public_digest, public_part
from node.configuration.reading import from_table, load
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.configuration.writing import _toml_key, toml_value
from tests.helpers.places import ROOT
from tests.helpers.tables import private, public


def complaint(table: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        from_table(table)
    message = str(caught.value)
    assert "\n" not in message
    return message


OPEN = {"algorithm": "coordinator_free.agents.personal.coordinate_descent:CoordinateDescent"}
"""An algorithm that is named as one of the user's own is, so that its parameters are free."""

NESTED = {"k": [1, 2], "s": {"a": 1}}
PROPAGATION = {"algorithm": "propagation", "smoothness": None}

BAD = [
    ({"learning": {"muu": 1.0}}, ["learning.muu", "learning.mu"]),
    ({"learning": {"epsilon": 1.0}}, ["learning.epsilon", "privacy.epsilon"]),
    ({"learnin": {"mu": 1.0}}, ["learnin", "did you mean learning"]),
    ({"privacy": {"epsilon": 0.0}}, ["privacy.epsilon = 0.0", "greater than 0"]),
    ({"privacy": {"epsilon": -1}}, ["privacy.epsilon = -1", "greater than 0"]),
    ({"privacy": {"epsilon": math.nan}}, ["privacy.epsilon = nan"]),
    ({"privacy": {"epsilon": math.inf}}, ["privacy.epsilon = inf"]),
    ({"privacy": {"delta": 0.0}}, ["privacy.delta = 0.0", "less than 1"]),
    ({"privacy": {"delta": 1.0}}, ["privacy.delta = 1.0", "less than 1"]),
    ({"privacy": {"clip": 0.0}}, ["privacy.clip = 0.0", "greater than 0"]),
    ({"privacy": {"clip": None}}, ["privacy.clip", "greater than 0"]),
    ({"privacy": {"epsilon": None}}, ["privacy.epsilon", "greater than 0"]),
    ({"privacy": {"delta": None}}, ["privacy.delta", "between 0 and 1"]),
    ({"privacy": {"mechanism": "gauss"}}, ['privacy.mechanism = "gauss"', "gaussian"]),
    ({"privacy": {"mechanism": "none"}}, ["privacy.mechanism", "privacy.epsilon = 2.0"]),
    ({"privacy": {"allocation": "increasing"}}, ["privacy.r", "increasing"]),
    ({"learning": {"smoothness": "data"}}, ["learning.smoothness", "outside of epsilon", "bound"]),
    ({"learning": {"smoothness": "eigenvalue"}}, ['learning.smoothness = "eigenvalue"', "positive number"]),
    ({"learning": {"smoothness": -1.0}}, ["learning.smoothness = -1.0", "positive number"]),
    ({"learning": {"start": "local"}}, ['learning.start = "local"', "private run"]),
    (
        {"learning": PROPAGATION | {"anchor": "local"}},
        ['learning.anchor = "local"', "private run"],
    ),
    ({"learning": {"mu": None}}, ["learning.mu", "greater than 0"]),
    ({"learning": {"mu": math.nan}}, ["learning.mu = nan"]),
    ({"learning": {"loss": "hinge"}}, ["learning.loss", "hinge", "logistic"]),
    ({"learning": {"algorithm": "sgd"}}, ["learning.algorithm", "sgd", "coordinate-descent"]),
    ({"topology": {"kind": "grid"}}, ['topology.kind = "grid"', "torus"]),
    ({"topology": {"kind": "file"}}, ["topology.path", "graph file"]),
    ({"topology": {"path": "graph.gml"}}, ["topology.path", "file"]),
    ({"topology": {"kind": None}}, ["topology.kind is missing", "ring"]),
    ({"data": {"source": "school"}}, ['data.source = "school"', "schools"]),
    ({"data": {"source": None}}, ["data.source is missing", "schools"]),
    ({"clock": {"updates": 0}}, ["clock.updates = 0", "greater than or equal to 1"]),
    ({"clock": {"updates": 1.5}}, ["clock.updates = 1.5", "integer"]),
    ({"clock": {"rate": "fast"}}, ['clock.rate = "fast"', "number"]),
    ({"run": {"seed": -1}}, ["run.seed = -1"]),
    ({"run": {"name": "a/b"}}, ['run.name = "a/b"', "slash"]),
    ({"run": {"seed": None, "simulation": True}}, ["run.simulation", "run.seed"]),
    ({"network": {"transport": "udp"}}, ['network.transport = "udp"', "tcp"]),
    ({"network": {"on_silent": "go"}}, ['network.on_silent = "go"', "carry-on"]),
]


@pytest.mark.parametrize(("changes", "named"), BAD, ids=[",".join(named[:1]) for _, named in BAD])
def test_a_bad_setting_is_one_line_that_names_it_and_what_would_do(changes: dict[str, Any], named: list[str]) -> None:
    message = complaint(private(**changes))
    for words in named:
        assert words in message


def test_centring_by_the_users_own_mean_is_refused_in_a_private_run() -> None:
    data = {"source": "movielens-100k", "path": "somewhere", "centring": "user-mean"}
    table = {**private(), "data": data}
    assert "data.centring" in complaint(table)
    assert from_table({**table, "data": {**data, "as_published": True}}).private
    free = {**public(), "data": data, "learning": {"loss": "squared", "mu": 1.0}}
    assert not from_table(free).private


def test_only_the_admm_family_carries_on_without_a_silent_neighbour() -> None:
    def rounds(name: str, **more: Any) -> dict[str, Any]:
        return public(learning={"algorithm": name, "mu": None, **more}, network={"on_silent": "carry-on"})

    assert from_table(rounds("admm", capacity=1.0, rho=1.0, penalty=1.0)).network.on_silent == "carry-on"
    assert 'network.on_silent = "carry-on"' in complaint(rounds("gradient-descent", aggregation="flood", step=1.0))


def test_a_missing_section_is_named() -> None:
    table = private()
    del table["topology"]
    assert complaint(table) == "topology is missing; the section [topology] must be there"


def test_defaults_that_depend_on_other_settings() -> None:
    spoken = from_table(private())
    assert spoken.learning.smoothness == "bound"
    assert spoken.learning.finish_mu is None  # evidence weighs the finish
    assert from_table(public()).learning.smoothness == "data"
    assert from_table(public(run={"seed": None})).run.seed is None


def test_a_configuration_cannot_be_changed() -> None:
    configuration = from_table(private())
    with pytest.raises(ValueError, match="frozen"):
        configuration.run.seed = 3


@pytest.mark.parametrize("table", [private(), public(), private(learning=OPEN | {"parameters": NESTED})])
def test_what_is_written_reads_back_the_same(table: dict[str, Any]) -> None:
    configuration = from_table(table)
    written = dump(configuration)
    assert from_table(tomllib.loads(written)) == configuration
    assert dump(from_table(tomllib.loads(written))) == written


def test_events_are_written_and_read_back() -> None:
    events = [{"at": 2.0, "fault": "kill", "target": [1, 2], "restart": 0.5}, {"at": 3.0, "fault": "heal"}]
    configuration = from_table({**public(), "event": events})
    assert [event.fault for event in configuration.event] == ["kill", "heal"]
    assert from_table(tomllib.loads(dump(configuration))).event == configuration.event


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.thorough
@given(key=st.text(), value=VALUES)
def test_every_value_survives_toml(key: str, value: Any) -> None:
    assert tomllib.loads(f"{_toml_key(key)} = {toml_value(value)}") == {key: value}


# --- files and overrides ---------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "here.toml"
    path.write_text('[data]\nsource = "schools"\n[topology]\nkind = "ring"\n[learning]\nmu = 2\nloss = "squared"\n')
    return path


def test_the_name_comes_from_the_file(file: Path) -> None:
    assert load(file).run.name == "here"
    assert load(file, ["run.name=there"]).run.name == "there"


def test_overrides_are_toml_values_or_bare_words(file: Path) -> None:
    changed = load(file, ["learning.mu=3", "topology.kind=complete", "run.seed=4", 'data.column="vr"'])
    assert (changed.learning.mu, changed.topology.kind, changed.run.seed) == (3.0, "complete", 4)
    assert changed.data.column == "vr"
    own = load(file, [f"learning.algorithm={OPEN['algorithm']}", "learning.parameters.depth=2"])
    assert own.learning.parameters == {"depth": 2}


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ('data.bounds."IQ.verb"=[1,19]', "IQ.verb", (1.0, 19.0)),
        ("data.bounds.'IQ.verb' = [1, 19]", "IQ.verb", (1.0, 19.0)),
        ('data.bounds."a=b"=[1,19]', "a=b", (1.0, 19.0)),
        ("data.bounds.*=[1,19]", "*", (1.0, 19.0)),
        ("data . bounds . age years = [1,19]", "age years", (1.0, 19.0)),
    ],
)
def test_a_key_of_an_override_may_be_in_quotes(
    file: Path, override: str, key: str, value: tuple[float, float], tmp_path: Path
) -> None:
    given = ["data.source=csv", "data.path=rows.csv", "data.label=y", "data.agents=3", override]
    assert load(file, given).data.bounds == {key: value}
    written = tmp_path / "again.toml"
    written.write_text(dump(load(file, given)))
    assert load(written).data.bounds == {key: value}


def test_a_byte_order_mark_is_passed_over(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load(file).data.source == "schools"


@pytest.mark.parametrize("override", ["learning.mu", "mu=3", ".=3", "learning.mu.deep=1", 'data."a=3', 'data."".a=1'])
def test_an_override_that_is_none(file: Path, override: str) -> None:
    with pytest.raises(ConfigurationError, match="--set"):
        load(file, [override])


def test_an_unknown_key_in_an_override_is_named(file: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean learning\.mu"):
        load(file, ["learning.mi=3"])


def test_a_file_that_is_missing_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[data\n")
    with pytest.raises(ConfigurationError, match="not TOML"):
        load(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not TOML"):
        load(broken)


def test_paths_are_found_beside_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = file.parent / "rows"
    rows.mkdir()
    elsewhere = file.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load(file, ["data.path=rows"]).data.path == str(rows)
    (elsewhere / "rows").mkdir()
    assert load(file, ["data.path=rows"]).data.path == str(elsewhere / "rows")


# --- what agents must agree on ---------------------------------------------------------------------------------------


def test_the_digest_is_of_what_agents_must_agree_on() -> None:
    configuration = from_table(private())
    digest = public_digest(configuration, "graph")
    assert len(digest) == 32
    same = [
        private(run={"name": "other", "seed": 8}),
        private(network={"deadline": 5.0, "transport": "tcp"}),
        private(eavesdropper={"enabled": False}),
    ]
    for table in same:
        assert public_digest(from_table(table), "graph") == digest
    other = [
        private(learning={"mu": 19.0}),
        private(clock={"updates": 21}),
        private(privacy={"epsilon": 1.0}),
        private(privacy={"clip": 0.4}),
        private(learning={"finish": False}),
    ]
    for table in other:
        assert public_digest(from_table(table), "graph") != digest
    assert public_digest(configuration, "other graph") != digest


def test_the_public_part_holds_no_path_and_no_seed(file: Path) -> None:
    (file.parent / "private-place").mkdir()
    configuration = load(file, ["data.path=private-place", "run.seed=918273645"])
    text = str(public_part(configuration))
    assert "private-place" not in text
    assert "918273645" not in text


# --- documents and examples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in Configuration.model_fields if name not in {"data", "event"}])
def test_every_setting_is_documented(name: str) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    section = type(getattr(from_table(private()), name))
    assert f"## [{name}]" in text
    assert [key for key in section.model_fields if f"`{key}`" not in text] == []


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_a_configuration(example: Path) -> None:
    assert load(example).run.name == example.stem
