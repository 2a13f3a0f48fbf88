"""The examples of networks that misbehave: agents gain by learning together (here without the events)."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_free.problem import baselines
from node.configuration.reading import load
from node.experiments.trial import play
from tests.helpers.places import ROOT


@pytest.mark.parametrize("name", ["partition", "rough-mesh", "flash-crowd"])
def test_together_predicts_better_than_alone(name: str, tmp_path: Path) -> None:
    configuration = load(ROOT / "examples" / f"{name}.toml")
    trial = play(configuration.model_copy(update={"event": ()}), "twin", tmp_path)
    together, alone = (trial.scores(models).mean() for models in (trial.models, baselines.alone(trial.problems)))
    assert together > alone + 0.02, f"{together:.3f} against {alone:.3f}"
