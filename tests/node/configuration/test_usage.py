"""Every setting, with every algorithm, is used or refused; what a run's folder says is what the run uses."""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from coordinator_free.agents.admm import own_penalties
from coordinator_free.agents.averages import arrangement
from coordinator_free.agents.personal import anchors, asynchronous
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.agents.registry import KNOWN, algorithm, own_settings, users_of
from coordinator_free.settings import PARAMETER, Positive, Settings
from node.configuration.learning import configuration_type, settings_of
from node.configuration.public import dump
from node.configuration.reading import from_table, load_dealt
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import ClockSection, Configuration, LearningSection, PrivacySection
from node.configuration.usage import unused
from node.dealing.preparation import prepare


@dataclass(frozen=True, kw_only=True)
class OwnSettings(Settings):
    """Of a class of the user's own, with a setting that must be given."""

    eta: Positive = field(metadata=PARAMETER)


class Own(CoordinateDescent):
    """A class of the user's own."""

    settings = OwnSettings


ROOT = Path(__file__).parents[3]

NEEDED: dict[str, dict[str, Any]] = {
    "coordinate-descent": {"mu": 1.0},
    "propagation": {"mu": 1.0},
    "warm-start": {"mu": 1.0, "parameters": {"warm_epsilon": 0.5, "warm_updates": 2}},
    "gossip-admm": {"mu": 1.0},
    "graph-smoothing": {},
    "graph-smoothing-2r": {"loss": "squared"},
    "averaging": {"step": 0.01},
    "gradient-descent": {"step": 0.01},
    **{name: {"capacity": 2.0, "rho": 1.0, "penalty": 1.0} for name in ("admm", "m-admm", "dvp", "pvp")},
    "pp": {"capacity": 2.0, "rho": 50.0, "penalty": 50.0},
}
MECHANISM = {"dvp": "gamma-norm", "pp": "gamma-norm"}
SHARED: dict[str, Any] = {
    "learning.loss": "squared",
    "learning.regularisation": 0.3,
    "learning.smoothness": 3.0,
    "learning.finish": True,
    "privacy.epsilon": 1.5,
    "privacy.delta": 1e-4,
    "privacy.total_epsilon": 9.0,
    "privacy.clip": 0.7,
    "privacy.allocation": "increasing",
    "privacy.r": 0.9,
    "privacy.levels": [[1.0, 2.5]],
    "privacy.uses": 3,
    "privacy.observer": "as_published",
    "privacy.colluders": 2,
    "privacy.dropouts": 1,
    "clock.rate": 3.0,
    "clock.updates": 7,
    "clock.drift": 0.1,
    "clock.skew": 0.1,
}
OWN: dict[str, Any] = {
    "mu": 2.0,
    "finish_mu": 3.0,
    "start": "local",
    "anchor": "zero",
    "anchor_scale": 2.0,
    "anchor_regularisation": 2.0,
    "warm_updates": 3,
    "warm_epsilon": 0.25,
    "warm_mechanism": "gamma-norm",
    "warm_clip": 0.5,
    "prior": "shared",
    "model_norm": 2.0,
    "clip_2": 0.2,
    "rho": 60.0,
    "capacity": 2.5,
    "penalty": 60.0,
    "penalty_growth": 1.5,
    "penalties": [1.0, 1.0, 1.0, 1.0],
    "own_penalties": [60.0, 61.0, 62.0, 63.0],
    "own_growths": [1.1, 1.2, 1.3, 1.4],
    "theta": 0.5,
    "regulariser": "shared",
    "regulariser_form": "smooth-l1",
    "pvp_form": "as_published",
    "last_round": "dvp",
    "kappa": 0.5,
    "aggregation": "push-sum",
    "weighting": "equal",
    "step": 0.02,
    "push_rounds": 5,
    "local": "output-perturbation",
    "local_steps": 3,
    "iterate": "tail",
    "amplification": True,
    "momentum": 0.5,
}
IN_PARAMETERS = {"warm_updates", "warm_epsilon", "warm_mechanism", "warm_clip", "prior", "model_norm", "clip_2"}


def private(name: str) -> bool:
    return algorithm(name).mechanisms != ()


def table(name: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "run": {"seed": 1},
        "data": {"source": "synthetic", "agents": 4, "dimension": 3, "records": [5, 6]},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": name, "loss": "logistic", **NEEDED[name]},
        "clock": {"updates": 4},
        "privacy": {},
        "network": {},
    }
    if algorithm(name).uses_smoothness:
        made["learning"]["smoothness"] = 2.0
    if private(name):
        made["privacy"] = {"mechanism": MECHANISM.get(name, "gaussian"), "epsilon": 1.0, "delta": 1e-3, "clip": 1.0}
    for path, value in (changes or {}).items():
        section, _, key = path.partition(".")
        *inner, last = key.split(".")
        place = made.setdefault(section, {})
        for part in inner:
            place[part] = place = dict(place.get(part, {}))
        place[last] = value
    return made


@cache
def given_to_agents(text: str) -> str:
    """All that the agents of a configuration are made from."""
    preparation = prepare(from_table(eval(text)))
    return repr([preparation.public(agent) for agent in range(preparation.agents)])


BESIDE: dict[str, tuple[str, Any]] = {
    "privacy.r": ("privacy.allocation", "increasing"),
    "privacy.uses": ("data.arriving", 0.5),
}
"""A setting without which another one has no effect."""


def with_beside(name: str, path: str, value: Any) -> tuple[dict[str, Any], str]:
    """A table with a setting and the one that it needs, and what agents are given of a table with neither."""
    needed, there = BESIDE[path]
    without = given_to_agents(repr(table(name)))
    if needed == "data.arriving" and algorithm(name).takes_arrivals:
        without = given_to_agents(repr(table(name, {needed: there})))
    if needed == "data.arriving" and not algorithm(name).takes_arrivals:
        return table(name, {path: value}), without
    return table(name, {path: value, needed: there}), without


def spelled(name: str) -> str:
    return f"learning.{'parameters.' if name in IN_PARAMETERS else ''}{name}"


PATHS = {**SHARED, **{spelled(name): value for name, value in OWN.items()}}


def test_all_settings_are_tried() -> None:
    """A new setting must be added to the tables above."""
    own = {spelled(field.name) for name in KNOWN for field in fields(own_settings(name))}  # type: ignore[arg-type]
    shared = {
        *(f"learning.{key}" for key in LearningSection.model_fields if key != "algorithm"),
        *(f"privacy.{key}" for key in PrivacySection.model_fields if key not in ("mechanism", "budgets")),
        *(f"clock.{key}" for key in ClockSection.model_fields),
    }
    assert own | shared == set(PATHS)


@pytest.mark.thorough
@pytest.mark.parametrize("name", KNOWN)
def test_every_setting_is_used_or_refused(name: str) -> None:
    wrong = []
    before = given_to_agents(repr(table(name)))
    for path, value in PATHS.items():
        if path == "learning.loss" and "loss" in NEEDED[name]:
            continue
        changed, without = table(name, {path: value}), before
        if path in BESIDE:
            changed, without = with_beside(name, path, value)
        if path == f"learning.{algorithm(name).finish_weight}":
            changed["learning"]["finish"] = True
            without = given_to_agents(repr(table(name, {path: 9.0, "learning.finish": True})))
        if path == "learning.aggregation" and name in users_of("push_rounds"):
            changed["learning"]["push_rounds"] = 5
        try:
            configuration = from_table(changed)
            assert path not in unused(configuration)
            if given_to_agents(repr(changed)) == without:
                wrong.append(path)
        except ValueError as error:
            if path.rpartition(".")[2] not in str(error):
                wrong.append(f"{path}: {error}")
    assert wrong == []


@pytest.mark.parametrize("name", KNOWN)
def test_every_setting_that_an_algorithm_declares_is_read_in_its_code(name: str) -> None:
    kind = algorithm(name)
    ours = [parent for parent in kind.__mro__ if parent.__module__.startswith("coordinator_free.")]
    modules = {inspect.getmodule(parent) for parent in ours}
    readers = (*modules, anchors, arrangement, asynchronous, own_penalties)
    text = "\n".join(inspect.getsource(module) for module in readers if module is not None)
    own = fields(own_settings(name))  # type: ignore[arg-type]
    assert [field.name for field in own if not re.search(rf"\b(own|self)\.{field.name}\b", text)] == []


@pytest.mark.parametrize("name", KNOWN)
def test_a_run_folder_shows_only_what_the_run_uses(name: str) -> None:
    configuration = from_table(table(name))
    written = tomllib.loads(dump(configuration))
    for path in unused(configuration):
        section, _, key = path.partition(".")
        assert key not in written.get(section, {})
    again = from_table(written)
    assert dump(again) == dump(configuration)
    assert settings_of(again.learning) == settings_of(configuration.learning)


REFUSED = [
    ("coordinate-descent", {"learning.aggregation": "masked-sum"}, ["learning.aggregation", "gradient-descent"]),
    ("coordinate-descent", {"privacy.observer": "sum"}, ["privacy.observer", "averaging, gradient-descent"]),
    ("coordinate-descent", {"learning.rho": 3.0}, ["learning.rho = 3.0", "gossip-admm", "pvp"]),
    ("graph-smoothing", {"learning.parameters.priorr": "shared"}, ["learning.parameters.prior?"]),
    ("coordinate-descent", {"learning.parameters": {"priorr": 1}}, ["learning.parameters"]),
    ("gradient-descent", {"learning.finish": True, "learning.finish_mu": 2.0}, ["learning.finish_mu", "warm-start"]),
    ("gradient-descent", {"learning.finish": True, "learning.kappa": 0.0}, ["learning.kappa", "evidence"]),
    ("coordinate-descent", {"privacy.as_published": True}, ["privacy.as_published is not a known setting"]),
    ("admm", {"privacy.clip": 1.0}, ["privacy.clip = 1.0", "privacy.mechanism"]),
    ("pvp", {"clock.rate": 3.0}, ["clock.rate = 3.0", "coordinate-descent"]),
    ("admm", {"learning.kappa": 0.5}, ["learning.kappa = 0.5", "learning.finish is false"]),
    ("coordinate-descent", {"learning.finish_mu": 0.5}, ["learning.finish_mu = 0.5", "learning.finish is false"]),
    (
        "propagation",
        {"privacy.allocation": "increasing", "privacy.r": 0.9},
        ['privacy.allocation = "increasing"', "propagation divides its budget by itself", "used by", "dvp"],
    ),
    ("pvp", {"network.silent": 5.0}, ["network.silent = 5.0", 'network.on_silent = "wait"']),
    ("admm", {"run.simulation": True}, ["run.simulation = true", 'privacy.mechanism is "none"']),
    ("propagation", {"learning.parameters.anchor": "zero"}, ["learning.parameters.anchor", "belongs in [learning]"]),
    ("warm-start", {"learning.warm_clip": 1.0}, ["learning.warm_clip", "belongs in [learning.parameters]"]),
    ("m-admm", {"learning.penalty": 2.0, "learning.penalties": [1.0] * 5}, ["learning.penalty = 2.0", "penalties has"]),
    ("dvp", {"learning.penalty": 2.0, "learning.penalties": [1.0] * 5}, ["learning.penalty = 2.0", "penalties has"]),
    ("coordinate-descent", {"topology.seed": 3}, ["topology.seed = 3", "random-regular"]),
    ("coordinate-descent", {"privacy.uses": 3}, ["privacy.uses = 3", "without data.arriving"]),
    ("warm-start", {"data.arriving": 0.5}, ["data.arriving = 0.5", '"coordinate-descent"']),
    ("coordinate-descent", {"data.arriving": 0.5, "audit.canaries": 4}, ["data.arriving = 0.5", "canaries = 4"]),
    ("averaging", {"data.arriving": 0.5}, ["data.arriving = 0.5", '"coordinate-descent"']),
    ("coordinate-descent", {"data.arriving": 1.0}, ["data.arriving", "less than 1"]),
    ("coordinate-descent", {"data.arriving": 0.5, "privacy.uses": 5}, ["privacy.uses = 5", "1 to 4"]),
    ("coordinate-descent", {"data.arriving": 0.5, "clock.updates": 1}, ["clock.updates = 1", "at least 2"]),
    (
        "coordinate-descent",
        {"data.arriving": 0.5, "privacy.uses": 3, "privacy.allocation": "increasing", "privacy.r": 0.5},
        ["privacy.uses = 3", 'allocation = "uniform"', "uses = 4"],
    ),
]


@pytest.mark.parametrize(("name", "changes", "words"), REFUSED)
def test_a_setting_without_effect_is_an_error_that_says_why(
    name: str, changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_table(table(name, changes))
    assert [word for word in words if word not in str(caught.value)] == []


def test_the_run_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    old = table("coordinate-descent", {"learning.rho": 3.0, "privacy.as_published": False, "privacy.colluders": 0})
    old["learning"]["parameters"] = {"priorr": 1}
    path = tmp_path / "config.toml"
    sections = [f"[{name}]\n" + "\n".join(f"{k} = {_toml(v)}" for k, v in part.items()) for name, part in old.items()]
    path.write_text("\n".join(sections))
    configuration = load_dealt(path)
    assert configuration.learning.get("mu") == 1.0
    assert "rho" not in dump(configuration)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value).replace("'", '"')


def test_the_settings_of_every_algorithm_are_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    missing = [name for name in OWN if users_of(name) and f"`{name}`" not in text]
    assert missing == []


def test_a_setting_of_a_class_of_the_users_own_that_is_missing_is_named() -> None:
    own = {"algorithm": f"{__name__}:Own", "parameters": {}}
    with pytest.raises(ConfigurationError) as caught:
        from_table({**table("coordinate-descent"), "learning": own})
    assert str(caught.value).startswith("learning.parameters.eta is missing; ")
    made = from_table({**table("coordinate-descent"), "learning": {**own, "parameters": {"eta": 2}}})
    assert made.learning.get("eta") == 2.0


def test_the_type_of_a_configuration_is_made_once() -> None:
    assert configuration_type("admm") is configuration_type("admm")
    assert issubclass(configuration_type("admm"), Configuration)
