"""How a run converged, computed from every release in the log and from the data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coordinator_free.problem.graph_objective import gap_at_start, graph_objective
from coordinator_free.problem.losses import Loss
from coordinator_free.release import FloatArray
from node.folder.run import RunFolder

POINTS, POINTS_OF_MANY, MANY = 60, 25, 300
"""Moments at which a run is looked at, which are fewer from `MANY` agents on."""


@dataclass(frozen=True)
class Curve:
    """At each moment: releases per agent so far, relative gap to the optimum (or empty), mean metric of the models."""

    releases: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    metric: list[float] = field(default_factory=list)


class CurveRecorder:
    """Receives every release in the order of the log. ``optimum`` (n, p) where the run has one.

    Also keeps the mean of all releases, which needs nothing but the releases.
    """

    def __init__(self, run: RunFolder, judge: Loss, optimum: FloatArray | None, expected: int) -> None:
        self._run, self._judge, self._optimum = run, judge, optimum
        self._models = np.zeros((run.agents, run.manifest.dimension))
        self._every = max(1, expected // (POINTS if run.agents < MANY else POINTS_OF_MANY))
        self.received = 0
        self._sum = np.zeros(run.manifest.dimension)
        self._floor = self._scale = 0.0
        if optimum is not None:
            self._floor = self._objective(optimum)
            self._scale = gap_at_start(self._objective(self._models), self._floor)
        self.curve = Curve()
        self._look()

    def receive(self, sender: int, vector: FloatArray) -> None:
        """Take in one release; those of another length than the models, or of unknown agents, are passed over."""
        if vector.shape != (self._models.shape[1],) or sender >= len(self._models) or not np.isfinite(vector).all():
            return
        self._models[sender] = vector
        self.received += 1
        self._sum += vector
        if self.received % self._every == 0:
            self._look()

    @property
    def released_average(self) -> FloatArray | None:
        """The average over agents and rounds; None if there was no release."""
        return self._sum / self.received if self.received else None

    def finished(self) -> Curve:
        """The curve up to the last release."""
        if self.received % self._every:
            self._look()
        return self.curve

    def _look(self) -> None:
        scores = [
            self._judge.score(model, rows.x_test, rows.y_test)
            for model, rows in zip(self._models, self._run.rows, strict=True)
            if len(rows.y_test)
        ]
        self.curve.releases.append(self.received / self._run.agents)
        self.curve.metric.append(float(np.mean(scores)) if scores else float("nan"))
        if self._optimum is not None and self._scale > 0:
            self.curve.gap.append((self._objective(self._models) - self._floor) / self._scale)

    def _objective(self, models: FloatArray) -> float:
        run, mu = self._run, self._run.configuration.learning.get("mu")
        assert mu is not None
        return graph_objective(run.network, run.problems, run.confidences, mu, models)
