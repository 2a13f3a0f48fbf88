"""The figures of papers 000 and 002 on records of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from node.cli import main
from node.experiments.reproduce import paper000, paper002
from node.experiments.reproduce.figure import FigureError, Request
from node.experiments.reproduce.registry import FIGURES, planned, reproduce

ILL = 60
"""Of each hundred rows."""


@pytest.fixture
def own(tmp_path: Path) -> Request:
    """240 rows of two columns, which tell the label, and bounds of both."""
    random = np.random.default_rng(0)
    lines = ["a,b,ill"]
    for k in range(240):
        ill = k % 100 < ILL
        a, b = np.clip(random.normal(0.7 if ill else 0.3, 0.15, 2), 0, 1)
        lines.append(f"{a:.4f},{b:.4f},{'yes' if ill else 'no'}")
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines) + "\n")
    given = (f"data.path={path}", "data.source=csv", "data.label=ill", "data.positive=yes", "data.agents=3")
    return Request("twin", 1, (*given, "data.bounds.*=[0,1]", "clock.updates=6"), tmp_path)


def test_the_design_is_made_on_own_records(own: Request) -> None:
    made = reproduce("paper000/figure5", own)
    assert made.title.endswith(", csv")
    assert {row["method"] for row in made.rows} == {"DVP", "ADMM", "zero model", "alone", "pooled"}
    for reading in ("as published", "truly private"):
        designs = [line for line in made.findings if line.startswith(f"{reading}: ")]
        assert "fitted L_acc" in designs[0] or "no curve is fitted" in designs[0]
    assert "no budget covers them" in made.notes[0]
    majority = float(made.notes[0].rpartition(" ")[2].rstrip("."))
    assert abs(majority - ILL / 100) < 0.15, "of the held-out rows"
    assert not any("adult" in note for note in made.notes)
    [pooled] = [row["error"] for row in made.rows if row["method"] == "pooled"]
    assert pooled < 0.1 < 1 - majority, "the labels of the file are learned"


def test_every_figure_is_planned_on_own_records_and_on_those_of_the_examples(own: Request) -> None:
    examples = ("data.source=breast-cancer",)
    for figure in (*paper000.FIGURES, *paper002.FIGURES):
        for source, overrides in (("csv", own.overrides), ("breast-cancer", examples)):
            settings = planned(figure, Request("twin", 1, overrides, own.folder))
            assert {setting.configuration(overrides).data.source for setting in settings} == {source}


def test_records_with_other_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FigureError, match=r"data\.source = schools: this figure accepts adult, bank"):
        planned(FIGURES["paper000/figure5"], Request("twin", 1, ("data.path=x", "data.source=schools"), tmp_path))
    with pytest.raises(FigureError, match="paper000/rows is about the Adult rows alone"):
        planned(FIGURES["paper000/rows"], Request("twin", 1, ("data.path=x", "data.source=csv"), tmp_path))


def test_longer_rows_are_bad_input(own: Request, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for override in (*own.overrides, "data.row_scaling=none") for word in ("--set", override)]
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "paper000/figure5", "--world", "twin", "--out", str(own.folder / "out"), *words])
    assert stop.value.code == 2
    assert "a row is longer than 1" in capsys.readouterr().err
