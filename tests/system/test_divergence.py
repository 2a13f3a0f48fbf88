"""Steps that diverge, over real processes: an agent stops with a reason, and nothing that is not finite is sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from node.traffic.run_logs import releases_of
from tests.helpers.clusters import AGENTS, not_private, ran

pytestmark = pytest.mark.processes


def test_an_agent_that_diverges_stops_before_it_sends_what_is_not_finite(tmp_path: Path) -> None:
    steep = not_private(
        data={"source": "synthetic", "agents": AGENTS, "dimension": 5, "feature_scale": 10.0},
        learning={"loss": "squared", "mu": 20.0, "smoothness": 1e-3, "finish": False},
        clock={"rate": 100.0, "updates": 400},
    )
    watch = ran(tmp_path / "run", steep)
    words = "; ".join(failure.words for failure in watch.failures)
    assert "is not finite" in words
    assert all(np.isfinite(release.vector).all() for _, release in releases_of(tmp_path / "run").values())
