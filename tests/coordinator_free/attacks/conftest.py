"""Small networks of coordinate-descent agents, run in the twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.attacks.inversion import Inverted, invert
from coordinator_free.attacks.likelihood_ratio import Environment, environment
from coordinator_free.problem.losses import SQUARED, Loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.run import run_asynchronous
from topology.families import build


@dataclass
class Run:
    """A recorded run: settings, and every release by (agent, index)."""

    settings: list[Setting]
    heard: dict[tuple[int, int], Release]

    def said(self, agent: int) -> list[Release]:
        return [release for (sender, _), release in sorted(self.heard.items()) if sender == agent]

    def vectors(self, agent: int) -> FloatArray:
        return np.stack([release.vector for release in self.said(agent)])

    def inverted(self, agent: int) -> list[Inverted]:
        return invert(CoordinateDescent(self.settings[agent]), self.said(agent), self.heard)

    def environment(self, agent: int) -> Environment:
        mechanisms = [row.mechanism for row in self.inverted(agent)]
        return environment(self.settings[agent], self.said(agent), self.heard, mechanisms)


MakeRun = Callable[..., Run]


@pytest.fixture
def make_run() -> MakeRun:
    def make(
        *,
        agents: int = 4,
        records: int = 6,
        p: int = 2,
        updates: int = 10,
        mechanism: str = "laplace",
        multiplier: float = 10.0,
        clip: float = 1.0,
        loss: Loss = SQUARED,
        seed: int = 0,
        shared_secret: bool = False,
        opposite: bool = False,
    ) -> Run:
        """``opposite``: agent 0's record 0 is so far out that it pulls with full clipping at every update."""
        rng = np.random.default_rng(seed)
        network = build("ring", agents, seed)
        settings = []
        for agent in range(agents):
            x = rng.uniform(-1.0, 1.0, (records, p))
            y = rng.normal(size=records) if loss is SQUARED else np.sign(rng.normal(size=records))
            if opposite and agent == 0:
                x[0], y[0] = np.eye(p)[0], 100.0
            settings.append(
                Setting(
                    agent=agent,
                    neighbours=network.neighbours(agent),
                    weights=network.weights_of(agent),
                    problem=LocalProblem(x, y, loss, 1.0 / records),
                    dimension=p,
                    updates=updates,
                    learning={"mu": 1.0, "smoothness": 2.0 + 2.0 / records},
                    mechanism=mechanism,
                    multipliers=np.full(updates, multiplier) if mechanism != "none" else np.empty(0),
                    clip=clip if mechanism != "none" else None,
                    secret=bytes(32) if shared_secret else rng.bytes(32),
                )
            )
        transcript = run_asynchronous([CoordinateDescent(s) for s in settings], network, rate=1.0, seed=seed)
        return Run(settings, {(r.sender, r.index): r for r in transcript.releases})

    return make
