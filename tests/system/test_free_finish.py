"""A free finish by evidence: over processes what it is in the twin, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from node.audit.verify import verify
from node.folder.run import read_final
from tests.helpers.clusters import AGENTS, ran, table
from tests.helpers.misbehaving_networks import in_twin

pytestmark = pytest.mark.processes


def test_own_models_over_processes_are_those_of_the_twin(tmp_path: Path) -> None:
    """Gradient descent in private with noise from the seed, and each agent's own part around the common model."""
    learning = {
        "algorithm": "gradient-descent",
        "loss": "logistic",
        "step": 1.0,
        "iterate": "tail",
        "smoothness": "bound",
        "finish": True,
    }
    sections = table(run={"seed": 5, "simulation": True}, topology={"kind": "complete"}) | {
        "learning": learning,
        "clock": {"updates": 6},
    }
    assert ran(tmp_path / "processes", sections).failures == []
    twin = in_twin(tmp_path / "twin", sections)
    for agent in range(AGENTS):
        mine, other = read_final(tmp_path / "processes", agent), read_final(twin, agent)
        np.testing.assert_array_equal(mine["model"], other["model"])
        np.testing.assert_array_equal(mine["finish"], other["finish"])
        assert not np.array_equal(mine["model"], mine["finish"])
    assert verify(tmp_path / "processes").ok
