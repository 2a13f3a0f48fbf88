"""Coordinate descent of very many agents in the twin, a crowd of them at a time.

Rules that hold here:
- Two wakes that are not neighbours' do not touch each other. So all agents whose next tick is earlier than that of each
  neighbour wake at once: what each of them reads is what it would read if every wake were done alone, in the order of
  the clocks.
- The numbers are those of `coordinator_free.twin.run.run_asynchronous` up to the order in which sums over records and
  neighbours are added, which differs from the linear algebra library's: 1e-12, not bit for bit. With privacy the noise
  is the very same; a value that lies on the edge between two points of the grid may round to the other one.
- A release arrives at once. Nothing is logged: only the models are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from coordinator_free.clocks import waits
from coordinator_free.privacy.families import NORMS, mechanism
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.losses import Loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.public_model import PublicModelSensitivity
from coordinator_free.release import FloatArray
from topology.network import Network

IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Crowd:
    """All agents' records in one array: those of agent i are rows ``starts[i]`` to ``starts[i + 1]``.

    ``x`` (M, p), ``y`` (M,), ``starts`` (n + 1,), ``regularisations`` lambda_i (n,).
    """

    x: FloatArray
    y: FloatArray
    starts: IntArray
    loss: Loss
    regularisations: FloatArray

    @property
    def records(self) -> IntArray:
        """m_i, shape (n,)."""
        return np.diff(self.starts)

    @staticmethod
    def of(problems: list[LocalProblem]) -> Crowd:
        """The crowd of these agents."""
        return Crowd(
            x=np.concatenate([problem.x for problem in problems]),
            y=np.concatenate([problem.y for problem in problems]),
            starts=np.concatenate(([0], np.cumsum([problem.records for problem in problems]))).astype(np.intp),
            loss=problems[0].loss,
            regularisations=np.array([problem.regularisation for problem in problems]),
        )


@dataclass(frozen=True, eq=False)
class Noise:
    """A private crowd: each agent's secret, and one noise multiplier for each of its releases.

    ``row_bound``: the public bound of every row's norm; where it is given, noise follows the agents' last releases.
    """

    mechanism: str
    multipliers: FloatArray
    clip: float
    secrets: list[bytes]
    row_bound: float | None = None


def run_coordinate_descent(
    network: Network,
    crowd: Crowd,
    *,
    confidences: FloatArray,
    smoothness: FloatArray,
    mu: float,
    updates: int,
    rate: float,
    seed: int,
    noise: Noise | None = None,
) -> FloatArray:
    """The models after ``updates`` wakes of each agent from zero, shape (n, p).

    ``confidences`` c_i and ``smoothness`` (of L_i) have shape (n,).
    """
    n, p = network.agents, crowd.x.shape[1]
    mixing = sparse.csr_array(sparse.diags_array(1.0 / network.degrees) @ network.weights)
    first_neighbour = mixing.indptr[:-1]
    clocks = [waits(seed, i, rate) for i in range(n)] if updates > 1 else []
    ticks = np.array([next(clock) for clock in clocks] if clocks else [next(waits(seed, i, rate)) for i in range(n)])
    done = np.zeros(n, dtype=np.intp)
    pulls = mu * confidences
    steps = 1.0 / (1.0 + pulls * smoothness)
    row_norms = None if noise is None else _row_norms(crowd.x, NORMS[noise.mechanism])
    moved_by = None if noise is None else _sensitivity(crowd, noise)
    models = np.zeros((n, p))
    while True:
        earliest = np.minimum.reduceat(ticks[mixing.indices], first_neighbour)
        awake = np.flatnonzero((ticks <= earliest) & (done < updates))
        if awake.size == 0:
            break
        own = models[awake]
        gradients = _gradients(crowd, own, awake, row_norms, None if noise is None else noise.clip)
        a = steps[awake][:, None]
        moved = mixing[awake] @ models
        gradients *= pulls[awake][:, None]
        moved -= gradients
        moved *= a
        moved += (1.0 - a) * own
        if noise is not None and moved_by is not None:
            gains = steps[awake] * pulls[awake] * np.array([moved_by.at(model) for model in own])
            _perturb(moved, awake, done, crowd, noise, gains)
        models[awake] = moved
        done[awake] += 1
        ticks[awake[done[awake] == updates]] = np.inf
        for i in awake[done[awake] < updates].tolist():
            ticks[i] += next(clocks[i])
    return models


def _sensitivity(crowd: Crowd, noise: Noise) -> PublicModelSensitivity:
    """Of every agent; raises ValueError for a row that is longer than the public bound."""
    norm = NORMS[noise.mechanism]
    if noise.row_bound is not None and (_row_norms(crowd.x, norm) > noise.row_bound * (1.0 + 1e-9)).any():
        raise ValueError(f"row_bound = {noise.row_bound:g}: a row is longer")
    return PublicModelSensitivity(crowd.loss, noise.clip, norm, noise.row_bound)


def _row_norms(x: FloatArray, norm: str) -> FloatArray:
    norms: FloatArray = np.abs(x).sum(axis=1) if norm == "l1" else np.sqrt(np.einsum("ij,ij->i", x, x))
    return norms


def _gradients(
    crowd: Crowd, own: FloatArray, awake: IntArray, row_norms: FloatArray | None, clip: float | None
) -> FloatArray:
    """Gradients of L_i at the models ``own`` of the agents ``awake``, clipped record by record if asked."""
    counts = crowd.records[awake]
    gradients = np.zeros_like(own)
    owners = np.repeat(np.arange(awake.size), counts)
    ends = np.cumsum(counts)
    rows = np.arange(owners.size) + np.repeat(crowd.starts[awake] - (ends - counts), counts)
    x = crowd.x[rows]
    slopes = crowd.loss.slope(np.einsum("ij,ij->i", x, own[owners]), crowd.y[rows])
    if row_norms is not None and clip is not None:
        slopes *= clip / np.maximum(np.abs(slopes) * row_norms[rows], clip)
    x *= slopes[:, None]
    some = counts > 0
    if some.any():
        gradients[some] = np.add.reduceat(x, (ends - counts)[some], axis=0) / counts[some][:, None]
    gradients += crowd.regularisations[awake][:, None] * crowd.loss.penalty_gradient(own)
    return gradients


def _perturb(moved: FloatArray, awake: IntArray, done: IntArray, crowd: Crowd, noise: Noise, gains: FloatArray) -> None:
    """Noise each agent's release in place, as its own agent would.

    ``gains``: by how much one record moves the sum of an awake agent's gradients, times its step.
    """
    records = crowd.records
    for row, i in enumerate(awake.tolist()):
        if records[i] == 0:
            continue
        sensitivity = float(gains[row]) / int(records[i])
        index = int(done[i])
        charge = mechanism(noise.mechanism, sensitivity, float(noise.multipliers[index]), moved.shape[1])
        moved[row] = charge.perturb(moved[row], Stream(noise.secrets[i], index))
