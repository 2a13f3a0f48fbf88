"""Sums over a tree by real processes: the twin's to the last bit on a network that loses frames, and after a kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.aggregation.tree import ROOT
from coordinator_free.release import Release
from node.audit.auditor import audit
from node.audit.verify import verify
from node.folder.run import read_final, read_run
from node.results.scoring import score
from node.worlds import launcher
from tests.helpers.clusters import dealt, final, ran, said, sent
from tests.helpers.known_noise import with_known_noise
from tests.helpers.misbehaving_networks import in_twin, releases

pytestmark = [pytest.mark.processes, pytest.mark.slow]

STEPS, MANY = 5, 40


def descending(aggregation: str, updates: int, privacy: dict[str, Any], **network: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 3},
        "data": {"source": "breast-cancer", "agents": 7},
        "topology": {"kind": "ring"},
        "learning": {
            "algorithm": "gradient-descent",
            "loss": "logistic",
            "aggregation": aggregation,
            "step": 1.0,
            "smoothness": "bound",
        },
        "clock": {"updates": updates},
        "privacy": privacy,
        "network": {"repeat": "50 ms", "linger": 600.0, "deadline": 600.0, **network},
    }


@pytest.mark.parametrize("aggregation", ["tree", "masked-tree"])
def test_on_a_network_that_loses_a_tenth_the_run_is_the_twins_to_the_last_bit(tmp_path: Path, aggregation: str) -> None:
    sections = descending(aggregation, STEPS, {"mechanism": "none"}, loss=0.1, delay="2 ms")
    folder = tmp_path / "lossy"
    assert ran(folder, sections).failures == []
    calm = in_twin(tmp_path / "calm", sections)
    mine, twins = releases(folder), releases(calm)
    assert mine.keys() == twins.keys()
    assert len(mine) == 7 * (2 * STEPS + (aggregation == "masked-tree"))
    if aggregation == "tree":  # masks belong to a run
        assert all(release.same_as(twins[key]) for key, release in mine.items())
    for agent in range(7):
        np.testing.assert_array_equal(read_final(folder, agent)["model"], read_final(calm, agent)["model"])
    assert verify(folder).ok
    ages = score(calm)[0].staleness
    assert ages is not None
    assert ages.max <= 1, "a key is no model, and does not grow old"


def test_an_inner_agent_that_is_killed_goes_on_and_nothing_is_drawn_again(tmp_path: Path) -> None:
    """All others wait for it, directly or not."""
    folder, private = tmp_path / "killed", {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip": 0.5}
    configuration = dealt(folder, descending("tree", MANY, private))
    parents = list(read_run(folder).public[0].learning["parents"])
    victim = next(i for i in range(7) if i in parents and parents[i] != ROOT)
    cluster = launcher.Cluster(with_known_noise(folder), configuration, 7)
    cluster.start()
    try:
        cluster.watch(until=lambda _: sent(folder, victim) >= 10)
        os.kill(cluster.alive[victim], signal.SIGKILL)
        cluster.watch(until=lambda _: victim not in cluster.alive)
        cluster.restart(victim)
        watch = cluster.watch()
    finally:
        cluster.close()
    assert watch.failures == []
    assert any(note.startswith("restarted: repeats round") for note in final(folder, victim)["notes"])
    bodies: dict[tuple[int, int], bytes] = {}
    for message in said(folder):
        if isinstance(message, Release):
            body = message.vector.tobytes()
            assert bodies.setdefault((message.sender, message.index), body) == body, "never drawn again"
    assert len(bodies) == 7 * 2 * MANY
    assert len({read_final(folder, agent)["model"].tobytes() for agent in range(7)}) == 1, "all have the same sums"
    assert verify(folder).ok
    found = audit(folder, trials=50, secret=bytes(32))
    assert found.ok, found.findings
