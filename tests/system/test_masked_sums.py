"""Masked sums over real processes: one of the parties is killed, and the sum is that of those who are left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.averages.arrangement import weights
from coordinator_free.aggregation import masking
from coordinator_free.aggregation.masked_sum import named
from node.audit.auditor import audit
from node.audit.verify import verify
from node.folder.run import read_final, read_run
from node.folder.watch import Watch
from node.worlds import launcher
from node.worlds.progress import Progress
from tests.helpers.clusters import dealt, final, ran, sent
from tests.helpers.known_noise import with_known_noise
from tests.helpers.misbehaving_networks import in_twin, lost_first, releases

pytestmark = [pytest.mark.processes, pytest.mark.slow]

AGENTS, STEPS, STEP = 4, 6, 1.0
VICTIM = 2


SILENT = 20.0
"""Seconds of silence after which a party is given up: an agent that is only slow sends something in so long a time."""
HELD = 10.0
"""Seconds that the victim's links hold each frame. Meanwhile it has sent its key alone, however slow the machine is."""


def averaging(*, dropouts: int, **network: Any) -> dict[str, Any]:
    """The victim receives the others' keys late, so it has sent nothing but its own when the others go on."""
    links = [{"from": j, "to": VICTIM, "delay": f"{HELD:g} s"} for j in range(AGENTS) if j != VICTIM]
    return {
        "run": {"seed": 3},
        "data": {"source": "breast-cancer", "agents": AGENTS, "split": "random", "floor": 20},
        "topology": {"kind": "complete"},
        "learning": {
            "algorithm": "averaging",
            "loss": "logistic",
            "aggregation": "masked-sum",
            "local_steps": STEPS,
            "step": STEP,
        },
        "clock": {"updates": 1},
        "privacy": {"dropouts": dropouts},
        "network": {"repeat": 0.2, "linger": 4.0, "silent": SILENT, "link": links, **network},
    }


def keys_are_out(folder: Path) -> Callable[[Progress], bool]:
    """All others have gone on from the keys, so the victim's has reached them."""
    return lambda _: all(sent(folder, agent) >= 2 for agent in range(AGENTS) if agent != VICTIM)


def ran_without(
    folder: Path, sections: dict[str, Any], moment: Callable[[Progress], bool], *, late: bool = False
) -> Watch:
    """Run to the end; at the ``moment`` the victim is killed, or stopped until the others have gone on without it."""
    configuration = dealt(folder, sections)
    cluster = launcher.Cluster(with_known_noise(folder), configuration, AGENTS)
    cluster.start()
    try:
        cluster.watch(until=moment)
        os.kill(cluster.alive[VICTIM], signal.SIGSTOP if late else signal.SIGKILL)
        if late:
            # A key, five messages of masked vectors, and one that reveals: earlier it would come in time after all.
            cluster.watch(until=lambda _: all(sent(folder, j) >= 7 for j in range(AGENTS) if j != VICTIM))
            os.kill(cluster.alive[VICTIM], signal.SIGCONT)
        return cluster.watch()
    finally:
        cluster.close()


def exact(folder: Path, present: list[int]) -> np.ndarray:
    """The average of the local models of those present, their words added as integers."""
    run = read_run(folder)
    shares = weights(run.records, "size")
    words = []
    for agent in present:
        theta = np.zeros(run.problems[agent].dimension)
        for _ in range(STEPS):
            theta = theta - STEP * run.problems[agent].gradient(theta)
        words.append(masking.to_words(shares[agent] * theta, AGENTS))
    return masking.from_words(np.sum(words, axis=0, dtype=np.uint64)) / shares[present].sum()


def test_the_average_of_a_killed_party_is_that_of_the_others_to_the_last_bit(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    watch = ran_without(folder, averaging(dropouts=1, on_silent="carry-on"), keys_are_out(folder))
    killed = VICTIM
    [failure] = watch.failures
    assert (failure.process, failure.status) == (f"agent-{killed:04d}", -signal.SIGKILL)
    present = [j for j in range(AGENTS) if j != killed]
    for agent in present:
        assert final(folder, agent)["code"] == 0
        np.testing.assert_array_equal(read_final(folder, agent)["model"], exact(folder, present))
    said = releases(folder)
    assert [index for sender, index in said if sender == killed] == [0], "it said its key alone"
    # All who are left name the same set, and reveal of the killed one what they share with it, no share of its mask.
    half = (len([1 for sender, _ in said if sender == present[0]]) - 1) // 2
    for agent in present:
        assert said[agent, 1 + half].vector[1] == named(present, AGENTS)[0]
    assert verify(folder).ok


def test_who_comes_late_stops_and_the_average_is_that_of_the_others(tmp_path: Path) -> None:
    """Stopped after its key, it goes on when its pairwise masks are open."""
    folder = tmp_path / "late"
    ran_without(folder, averaging(dropouts=1, on_silent="carry-on"), keys_are_out(folder), late=True)
    late = VICTIM
    others = [j for j in range(AGENTS) if j != late]
    assert final(folder, late)["code"] == 5
    assert "stopped releasing: " in final(folder, late)["reason"]
    for agent in others:
        assert final(folder, agent)["code"] == 0
        np.testing.assert_array_equal(read_final(folder, agent)["model"], exact(folder, others))


def test_a_private_masked_run_that_loses_a_party_has_the_noise_that_was_charged(tmp_path: Path) -> None:
    """Four noisy sums, the later ones without one party: the audit makes them from the log, and tests their noise."""
    folder = tmp_path / "private"
    sections = averaging(dropouts=1, on_silent="carry-on", delay="200 ms", silent=10.0, link=[])
    sections["learning"] = {
        "algorithm": "gradient-descent",
        "loss": "logistic",
        "aggregation": "masked-sum",
        "step": 1.0,
        "smoothness": "bound",
    }
    sections["clock"] = {"updates": 4}
    sections["privacy"] = {
        "mechanism": "gaussian",
        "epsilon": 1.0,
        "delta": 1e-5,
        "clip": 0.5,
        "observer": "sum",
        "dropouts": 1,
        "colluders": 1,
    }
    # It is killed in the first sum, or in the second: the keys are known when anything but a key is said.
    watch = ran_without(folder, sections, lambda _: sent(folder, VICTIM) >= 5)
    assert [failure.process for failure in watch.failures] == [f"agent-{VICTIM:04d}"]
    found = audit(folder, trials=500, secret=bytes(32))
    assert found.ok, found.findings
    assert found.noise.releases == 4
    assert found.masked_sums.sums == 4
    for agent in found.agents:
        assert agent.attacked <= agent.accounted <= 1.0


def test_push_sum_on_a_network_that_loses_a_tenth_is_the_twins_to_the_last_bit(tmp_path: Path) -> None:
    """A waiting agent repeats itself, so no round lacks a message; cumulative sums would make up for one that did."""
    sections = averaging(dropouts=0, loss=0.1, delay="2 ms", repeat="50 ms", linger=600.0, link=[])
    sections["topology"] = {"kind": "ring"}
    sections["learning"] |= {"aggregation": "push-sum", "push_rounds": 40}
    del sections["network"]["silent"]  # all agents wait for as long as it takes
    watch = ran(tmp_path / "lossy", sections)
    assert watch.failures == []
    assert sum(map(len, lost_first(tmp_path / "lossy", AGENTS).values())) > 0
    calm = in_twin(tmp_path / "calm", sections)
    for agent in range(AGENTS):
        mine = read_final(tmp_path / "lossy", agent)["model"]
        np.testing.assert_array_equal(mine, read_final(calm, agent)["model"])
        np.testing.assert_allclose(mine, exact(tmp_path / "lossy", list(range(AGENTS))), atol=1e-5)


def test_without_dropouts_who_is_left_stops_and_says_who_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "stopped"
    ran_without(folder, averaging(dropouts=0, on_silent="stop"), keys_are_out(folder))
    killed = VICTIM
    for agent in range(AGENTS):
        if agent != killed:
            assert final(folder, agent)["code"] == 5
            assert f"nothing from agent {killed}" in final(folder, agent)["reason"]
            assert not read_final(folder, agent)["model"].any(), "no average was made"
