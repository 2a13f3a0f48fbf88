"""The [data] section says what is wrong in one line, and what would be accepted."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.data import DataSection
from tests.helpers.places import ROOT
from tests.helpers.tables import private


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": "nobody"}, ["schools", "svmlight"]),
        ({"source": "schools", "flips": 0.2}, ["data.flips", "schools"]),
        ({"source": "adult", "agents": 5}, ["data.path", "adult"]),
        (
            {"source": "adult", "path": "x", "agents": 2, "by_frequency": ["native-country"]},
            ["data.by_frequency", "native-country", "data.as_published = true"],
        ),
        ({"source": "csv", "path": "x", "agents": 2}, ["data.label"]),
        ({"source": "csv", "path": "x", "label": "y"}, ["data.agents", "even"]),
        ({"source": "csv", "path": "x", "label": "y", "split": "column"}, ["data.column"]),
        ({"source": "csv", "path": "x", "label": "y", "split": "even", "column": "c", "agents": 2}, ["data.column"]),
        ({"source": "breast-cancer", "split": "ratio", "agents": 3}, ["data.ratio"]),
        ({"source": "breast-cancer", "split": "dirichlet", "agents": 3}, ["data.alpha"]),
        ({"source": "breast-cancer", "alpha": 1.0, "agents": 3}, ["data.alpha", "dirichlet"]),
        ({"source": "breast-cancer", "sizes": [10, 10], "agents": 3}, ["data.agents", "2 entries"]),
        ({"source": "breast-cancer", "agents": 0}, ["greater than or equal to 1"]),
        ({"source": "synthetic", "records": [10, 9]}, ["data.records", "smaller"]),
        ({"source": "synthetic", "flips": 0.6}, ["0.5"]),
        ({"source": "synthetic", "feature_scale": float("inf")}, ["finite"]),
        ({"source": "csv", "path": "x", "label": "y", "agents": 2, "bounds": {"a": [2, 1]}}, ["public bound"]),
        ({"source": "csv", "path": "x", "label": "y", "agents": 2, "bounds": {"a": [0, float("nan")]}}, ["finite"]),
        ({"source": "adult", "path": "x", "agents": 2, "test": "published", "held_out": 0.3}, ["data.held_out"]),
        ({"source": "schools", "agentz": 3}, ["Extra"]),
    ],
)
def test_an_error_names_the_setting_and_what_is_accepted(fields: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        DataSection(**fields)
    message = caught.value.errors()[0]["msg"]
    for word in words:
        assert word in message


def test_defaults_follow_from_the_source() -> None:
    assert DataSection(source="schools").split_in_force == "column"
    assert DataSection(source="schools", split="even", agents=4).split_in_force == "even"
    assert DataSection(source="breast-cancer", sizes=(3, 4)).split_in_force == "sizes"
    assert DataSection(source="csv", path="x", label="y", column="who").split_in_force == "column"
    assert DataSection(source="schools").held_out_in_force == 0.3
    assert DataSection(source="movielens-100k", path="x").held_out_in_force == 0.2
    assert DataSection(source="adult", path="x", agents=2, test="published").held_out_in_force == 0.0


def test_a_section_with_its_defaults_written_out_is_accepted_again() -> None:
    section = DataSection(source="schools", held_out=0.25)
    written = {name: value for name, value in section.model_dump().items() if value is not None}
    assert DataSection(**written) == section


def test_the_example_in_the_documentation_is_accepted() -> None:
    text = (ROOT / "docs" / "data.md").read_text()
    table = tomllib.loads(text.split("```toml")[1].split("```")[0])
    section = DataSection(**table["data"])
    assert section.split_in_force == "column"
    assert section.bounds["age"] == (0.0, 120.0)


@pytest.mark.parametrize("name", ["schools", "schools-no-privacy", "synthetic", "movielens"])
def test_the_examples_have_a_valid_section(name: str) -> None:
    text = (ROOT / "examples" / f"{name}.toml").read_text()
    assert DataSection(**tomllib.loads(text)["data"]).source in ("schools", "synthetic", "movielens-100k")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agents", True),
        ("agents", "4"),
        ("agents", 4.0),
        ("held_out", False),
        ("records", [True, 5]),
        ("bounds", {"age": [False, True]}),
        ("drop", [1]),
        ("sizes", [True]),
    ],
)
def test_a_value_of_another_type_is_refused_and_not_converted(name: str, value: Any) -> None:
    fields = {"source": "csv", "path": "x", "label": "y", "agents": 4}
    with pytest.raises(ValidationError, match=name):
        DataSection.model_validate({**fields, name: value})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("privacy", "epsilon", 1e300),
        ("privacy", "epsilon", 1e-300),
        ("data", "bounds", {"*": [-1.7e308, 1.7e308]}),
        ("data", "bounds", {"*": [0, 1e-320]}),
        ("data", "row_bound", 1e300),
    ],
)
def test_numbers_beyond_floating_point_are_refused_by_name(section: str, key: str, value: object) -> None:
    table = private(data={"source": "csv", "path": "x.csv", "label": "y", "agents": 3})
    table[section][key] = value
    with pytest.raises(ConfigurationError, match=rf"^{section}\.{key}.*should be|^{section}\.{key}.*should lie within"):
        from_table(table)
