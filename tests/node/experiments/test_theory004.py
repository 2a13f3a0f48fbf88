"""The bounds of paper 004 beside runs: what they start from, what is measured, and about what they are silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.problem.graph_objective import graph_objective, optimum
from coordinator_free.release import Release
from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.experiments.theory import paper004
from node.experiments.theory.bound import Bound
from node.experiments.theory.descent import descent_of
from node.experiments.theory.subject import Subject, subject
from node.worlds.twin import run_twin

AGENTS, UPDATES = 6, 12


def table(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "run": {"seed": 3, "simulation": True},
        "data": {"source": "synthetic", "agents": AGENTS, "dimension": 3, "records": [10, 20]},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": "coordinate-descent", "mu": 2.0, "smoothness": 0.75},
        "clock": {"updates": UPDATES},
        "privacy": {"mechanism": "gaussian", "epsilon": 3.0, "delta": 1e-3, "clip": 0.5},
    }
    for path, value in changes.items():
        section, _, key = path.partition("__")
        made[section] = made[section] | {key: value} if key else value
    return made


def open_table(**changes: Any) -> dict[str, Any]:
    made = table(**changes)
    made.pop("privacy")
    made["run"] = {"seed": 3}
    return made


def made(folder: Path, configuration: dict[str, Any]) -> Subject:
    deal_run(from_table(configuration), folder)
    run_twin(folder)
    return subject(folder)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return made(tmp_path_factory.mktemp("private") / "run", table())


def with_releases(of: Subject, releases: tuple[Release, ...]) -> Subject:
    """The same run, had it released these."""
    changed = replace(of)
    changed.__dict__["releases"] = releases
    return changed


def the(found: list[Bound], reading: str) -> Bound:
    return next(bound for bound in found if bound.reading == reading)


@pytest.mark.parametrize("start", ["zero", "local"])
def test_a_run_without_noise_stays_below_proposition_1(tmp_path: Path, start: str) -> None:
    of = made(tmp_path / "run", open_table(learning__start=start))
    (bound,) = paper004.proposition_1(of)
    assert bound.held
    assert bound.measured is not None
    assert bound.measured[0] == bound.bound[0]  # the gap at the start
    assert bound.measured[-1] < 0.2 * bound.measured[0]
    last = AGENTS * (UPDATES - (start == "local"))
    assert AGENTS < bound.at[-1] <= last
    for other in (paper004.theorem_1, paper004.theorem_2, paper004.appendix_b, paper004.proposition_2):
        assert other(of) == []


def test_the_gaps_are_those_of_the_released_models(tmp_path: Path) -> None:
    of = made(tmp_path / "run", open_table())
    (bound,) = paper004.proposition_1(of)
    confidences = np.array([public.confidence for public in of.public])
    least = graph_objective(
        of.network, of.problems, confidences, 2.0, optimum(of.network, of.problems, confidences, 2.0)
    )
    models = np.zeros((AGENTS, 3))
    for release in of.releases[: int(bound.at[7])]:
        models[release.sender] = release.vector
    assert bound.measured is not None
    assert bound.measured[7] == pytest.approx(
        graph_objective(of.network, of.problems, confidences, 2.0, models) - least
    )


def test_a_private_run_stays_below_the_corrected_theorem_2(private: Subject) -> None:
    bound = the(paper004.theorem_2(private), "as true")
    assert bound.held
    assert bound.measured is not None
    assert bound.measured[0] == bound.bound[0]
    # One update: the scales of all agents' first releases by hand, but for the grid that they are rounded to.
    of = descent_of(private)
    assert of is not None
    scales = np.array([_scale(private, agent) for agent in range(AGENTS)])
    added = 0.5 * 3 * (of.known.blocks**2 * scales**2).sum() / (AGENTS * of.known.least)
    assert bound.at[1] == 1.0
    assert bound.bound[1] == pytest.approx(of.known.factor * bound.bound[0] + added, rel=1e-3)


def _scale(of: Subject, agent: int) -> float:
    """a mu c_i 2 clip / m_i times the multiplier, but for the grid; the rows' bound shortens no clip of 0.5."""
    public = of.public[agent]
    step = 1.0 / (1.0 + 2.0 * public.confidence * public.learning["smoothness"])
    return float(step * 2.0 * public.confidence * 2 * 0.5 / public.records * public.multipliers[0])


def test_releases_that_noise_does_not_explain_are_above_the_bound(private: Subject) -> None:
    far = tuple(replace(release, vector=release.vector + 1e4) for release in private.releases)
    assert the(paper004.theorem_2(with_releases(private, far)), "as true").held is False


def test_the_clip_is_in_the_objective_that_a_private_run_is_measured_by(private: Subject) -> None:
    of = descent_of(private)
    assert of is not None
    models = np.full((AGENTS, 3), 3.0)
    confidences = np.array([public.confidence for public in private.public])
    plain = graph_objective(private.network, private.problems, confidences, 2.0, models)
    assert of.gap(models) + of.least < plain


def test_a_budget_has_a_best_number_of_updates_and_fixed_noise_has_none(private: Subject) -> None:
    found = paper004.appendix_b(private)
    published, true = the(found, "as published"), the(found, "as true")
    changes = np.diff(published.bound)
    assert (changes >= 0).all() != (changes <= 0).all()
    best = true.constants["best T of each agent"]
    assert true.bound.min() == true.constants["bound at the best T"]
    assert true.bound[true.at == best] == true.bound.min()
    assert true.bound[-1] > true.bound.min()


def test_theorem_1_is_above_the_exact_total_where_delta_is_outside_the_root(tmp_path: Path) -> None:
    of = made(
        tmp_path / "run",
        table(privacy={"mechanism": "laplace", "epsilon": 2.0, "delta": 1e-6, "clip": 1.0}, clock__updates=60),
    )
    found = paper004.theorem_1(of)
    assert the(found, "as true").held
    assert (the(found, "as published").bound <= the(found, "as true").bound).all()
    assert the(paper004.theorem_2(of), "as true").held


def test_the_shares_of_proposition_2_are_those_of_the_configuration_that_asks_for_them(tmp_path: Path) -> None:
    of = made(tmp_path / "run", table(privacy__allocation="increasing", privacy__r="theory"))
    true = the(paper004.proposition_2(of), "as true")
    assert true.measured == pytest.approx(true.bound)
    assert (np.diff(true.bound) > 0).all()
    assert (np.diff(the(paper004.proposition_2(of), "as published").bound) < 0).all()
    assert true.constants["r = C^n"] == of.configuration.privacy.r


@pytest.mark.parametrize(
    "changes",
    [
        {"learning__regularisation": 0.0},
        {"clock__drift": 0.1},
        {"learning__start": "neighbours"},
        {"learning__loss": "sigmoid-squared"},
        {"learning": {"algorithm": "propagation", "mu": 1.0}},
        {"privacy__levels": [[0.5, 1.0], [0.5, 2.0]]},
    ],
    ids=str,
)
def test_the_theorems_are_silent_about_what_they_do_not_cover(tmp_path: Path, changes: dict[str, Any]) -> None:
    of = made(tmp_path / "run", table(**changes))
    found = [bound for function in paper004.BOUNDS if function is not paper004.theorem_1 for bound in function(of)]
    assert found == []


def test_a_graph_that_is_not_learned_yet_is_refused(tmp_path: Path) -> None:
    from node.configuration.writing import toml_value

    lines = [
        f"[{name}]\n" + "\n".join(f"{key} = {toml_value(value)}" for key, value in section.items())
        for name, section in table(topology={"kind": "private-similarity", "share": 0.2, "neighbours": 2}).items()
    ]
    (tmp_path / "learned.toml").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="give the folder of a run"):
        subject(tmp_path / "learned.toml")
