"""An override of a figure changes a run, or it is refused before the first one: none is silently ignored."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from node.cli import main
from node.configuration.refusals import ConfigurationError
from node.experiments.reproduce.figure import FigureError, Request, Setting
from node.experiments.reproduce.registry import FIGURES, in_form, of_paper, planned, reproduce
from tests.helpers.paper_data import adult_folder, small_overrides

OTHER = {
    "data.agents": "7",
    "data.floor": "9",
    "data.held_out": "0.4",
    "data.path": "/elsewhere",
    "data.ratio": "3.0",
    "data.split": '"even"',
    "clock.rate": "11.0",
    "clock.updates": "17",
    "learning.capacity": "3.0",
    "learning.mu": "1.7",
    "learning.penalty": "0.9",
    "learning.regulariser": '"other"',
    "learning.rho": "0.3",
    "learning.smoothness": "2.0",
    "learning.step": "0.7",
    "network.deadline": "77.0",
    "topology.gamma": "0.2",
    "topology.kind": '"torus"',
    "topology.neighbours": "3",
}
"""Another value for each setting that stands in the table of some figure."""


def changes(setting: Setting, override: str) -> bool:
    """Whether the override changes this run, or is refused by the configuration, whose message names it."""
    try:
        return setting.configuration((override,)) != setting.configuration(())
    except ConfigurationError:
        return True


@pytest.mark.parametrize("figure", FIGURES)
def test_an_override_changes_a_run_or_is_refused(figure: str, tmp_path: Path) -> None:
    request = Request("processes", 1, small_overrides(figure, tmp_path)[:1], tmp_path)
    settings = FIGURES[figure].settings(request)
    own = {path for setting in settings for path in setting.changes}
    free = {f"{section}.{key}" for setting in settings for section, keys in setting.table.items() for key in keys}
    assert free <= set(OTHER)
    used = set()
    for path in (own | free | {"run.seed", "run.simulation", "privacy.allocation"}) - set(FIGURES[figure].reads):
        override = f"{path}={OTHER.get(path, '0.37')}"
        if any(changes(setting, override) for setting in settings if setting.takes(path)):
            used.add(path)
        if path not in used or path.startswith("run."):
            wanted = replace(request, overrides=(*request.overrides, override))
            with pytest.raises(FigureError, match=f"--set {re.escape(override)} would change nothing: .* can use "):
                planned(FIGURES[figure], wanted)
    assert used, "every figure can use some setting"
    assert not any(path.startswith("privacy.") for path in used)


def test_an_override_that_the_figure_sets_itself_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "paper003/figure2", "--set", "data.source=breast-cancer", "--set", "privacy.epsilon=0.1"]
    with pytest.raises(SystemExit) as stop:
        main([*command, "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "--set privacy.epsilon=0.1 would change nothing" in told
    assert "this figure can use" in told
    assert "data.held_out" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("run.seed=3", "--seeds N sets how many"),
        ("network.deadline=5", "nothing is sent in the twin"),
        ("eavesdropper.endpoint=ipc://x", "nothing is sent in the twin"),
        ("privacy.delta=0.1", "the two readings of the figure fix the privacy"),
        ("learning.rho=0.3", "no run of the figure uses it"),
        ("data.dimension = 7", "every run of the figure has a value of its own"),
    ],
)
def test_what_a_figure_cannot_use_is_named(override: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(FigureError, match=f"--set {override.replace('.', '[.]')} would change nothing: .*{why}"):
        planned(FIGURES["paper004/figure3"], Request("twin", 1, (override,), tmp_path))


def test_an_override_that_some_runs_use_is_noted(tmp_path: Path) -> None:
    adult = f"data.path={adult_folder(tmp_path / 'adult', 60, 20)}"
    made = reproduce("paper002/figure2", Request("twin", 1, (adult, "clock.updates=2"), tmp_path))
    assert (
        made.notes[-1]
        == "--set clock.updates=2 holds in 5 of 9 settings; the others have their own value or do not use it."
    )


def test_figures_that_make_no_run_take_data_alone(tmp_path: Path) -> None:
    with pytest.raises(FigureError, match=r"deals the data alone; this figure can use data\.agents"):
        planned(FIGURES["paper004/figure4"], Request("twin", 1, ("clock.updates=3",), tmp_path))


def test_only_the_bundled_data_need_no_path(tmp_path: Path) -> None:
    with pytest.raises(FigureError, match=r"needs --set data\.path=FOLDER, .*or --set data\.source=breast-cancer"):
        planned(FIGURES["paper003/figure1"], Request("twin", 1, (), tmp_path))
    with pytest.raises(FigureError, match=r"needs --set data\.path=FOLDER"):
        planned(FIGURES["paper003/figure1"], Request("twin", 1, ("data.source=adult",), tmp_path))
    assert planned(FIGURES["paper003/figure1"], Request("twin", 1, ("data.source=breast-cancer",), tmp_path))


@pytest.mark.parametrize("figure", FIGURES)
def test_the_small_form_is_small_and_gives_way_to_what_is_asked(figure: str, tmp_path: Path) -> None:
    made = FIGURES[figure]
    assert made.small, "each figure has a small form"
    of_data = tuple(o for o in small_overrides(figure, tmp_path) if o.startswith(("data.path", "data.source")))
    request = Request("twin", None, of_data, tmp_path, small=True)
    wanted = in_form(made, request)
    assert wanted.seeds == 1
    assert len(planned(made, wanted)) <= len(planned(made, replace(wanted, small=False)))
    path, _, _ = made.small[0].partition("=")
    asked = replace(request, overrides=(*request.overrides, f"{path}={OTHER.get(path, '5')}"))
    assert not set(made.small[:1]) & set(in_form(made, asked).overrides)


def test_figures_of_one_paper_share_the_runs_that_are_the_same(tmp_path: Path) -> None:
    adult = f"data.path={adult_folder(tmp_path / 'adult', 60, 20)}"
    told: list[str] = []
    request = Request("twin", None, (adult,), tmp_path, told.append, small=True, known={})
    loss = reproduce("paper000/figure7", request)
    made = len(told)
    error = reproduce("paper000/figure8", request)
    assert len(told) == made > 0
    assert error.rows == loss.rows
    again = reproduce("paper000/figure8", replace(request, known=None))
    assert len(told) == 2 * made
    assert again.rows == error.rows


def test_a_whole_paper_gives_each_figure_the_overrides_that_it_can_use(tmp_path: Path) -> None:
    films = f"data.path={tmp_path}"
    plan = of_paper("paper004", Request("twin", 1, (films, "learning.mu=3.0"), tmp_path, small=True))
    assert list(plan) == [name for name in FIGURES if name.startswith("paper004/")]
    assert plan["paper004/table1"].overrides[0] == films
    assert plan["paper004/figure1"].overrides == ("learning.mu=3.0",)
    with pytest.raises(FigureError, match=r"paper004: --set privacy\.epsilon=1 would change nothing in any"):
        of_paper("paper004", Request("twin", 1, (films, "privacy.epsilon=1"), tmp_path))
    with pytest.raises(FigureError, match=r"needs --set data\.path=FOLDER"):
        of_paper("paper004", Request("twin", 1, (), tmp_path))
