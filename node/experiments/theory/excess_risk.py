"""Eq. (11) of paper 003 over what happened: the excess risk of a noisy descent, as published and as true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from coordinator_free.agents.averages.averaging import Averaging, AveragingSettings
from coordinator_free.agents.averages.gradient_descent import GradientDescentSettings
from coordinator_free.release import FloatArray
from coordinator_free.theory.weighted_averages import Descent, Party, local_excess_risk
from node.experiments.theory.averaged import Averaged
from node.experiments.theory.bound import Bound, holds

ROUNDS, GAP = "rounds T", "F - F*"
_SMALL = 1e-12


def excess_risk(of: Averaged, mu: float, source: str, name: str) -> list[Bound]:
    """Eq. (11) with ``mu``, which the theorem ``source`` calls ``name``, in its readings."""
    if of.local is not None:
        return _of_local_steps(of, mu, source, name, of.local)
    return _in_step(of, mu, source, name)


def _in_step(of: Averaged, mu: float, source: str, name: str) -> list[Bound]:
    """Descent in step: the theorem's own subject, but for the noise and the step."""
    if isinstance(of.settings, GradientDescentSettings) and of.settings.momentum > 0.0:
        return []
    objective, step = of.objective, of.settings.step
    rounds, measured = _seen(of)
    own = Descent(objective.smoothness, mu, objective.dimension, of.variance, of.gap)
    made = []
    printed = of.printed_variance
    if printed is not None:
        published = replace(own, variance=printed[0])
        bound = published.printed(rounds)
        made.append(
            _risk(
                source,
                "as published",
                "(1 - mu/L)^T gap + p s^2 / (2 mu), s^2 of Eq. (3), with steps of 1/L",
                rounds,
                bound,
                named(published, name) | {"c": printed[1]},
                ("c",),
                measured,
            )
        )
    if step < 2.0 / objective.smoothness:
        own = replace(own, step=step)
        statement = (
            "q^T gap + h^2 L p s^2 / 2 (1 - q^T) / (1 - q), q = 1 - 2 mu h (1 - h L / 2), the run's own h and noise"
        )
        made.append(_risk(source, "as true", statement, rounds, own.tight(rounds), named(own, name), (), measured))
    return made


def _of_local_steps(of: Averaged, mu: float, source: str, name: str, local: AveragingSettings) -> list[Bound]:
    """Algorithm 1: the theorems are stated for it, and proved for descent in step."""
    if local.anchor is not None:
        return []  # perturbed minimisers make no steps
    objective = of.objective
    rounds, measured = _seen(of)
    made = []
    printed = of.printed_variance
    if printed is not None:
        published = Descent(objective.smoothness, mu, objective.dimension, printed[0], of.gap)
        statement = "(1 - mu/L)^T gap + p s^2 / (2 mu), s^2 of Eq. (3), steps of 1/L, for the average of local models"
        constants = named(published, name) | {"c": printed[1]}
        bound = published.printed(rounds)
        made.append(_risk(source, "as published", statement, rounds, bound, constants, ("c",), measured))
    parties = _parties(of)
    if local.iterate == "tail" or not objective.problems[0].loss.convex or parties is None:
        return made
    means = sum(w * problem.minimiser() for w, problem in zip(objective.shares, objective.problems, strict=True))
    apart = float(np.linalg.norm(means - objective.minimiser))
    length = of.settings.step
    bound = local_excess_risk(parties, rounds, length, objective.dimension, objective.smoothness, apart)
    statement = "L/2 times the squared distance of the average: each party's own, plus that of the minimisers' average"
    constants = {"L": objective.smoothness, "h": length, "apart": apart}
    made.append(_risk(source, "as true", statement, rounds, bound, constants, (), measured))
    return made


def _parties(of: Averaged) -> list[Party] | None:
    """Every party alone; None where steps do not contract."""
    found = []
    for w, problem, made in zip(of.objective.shares, of.objective.problems, of.parties, strict=True):
        descent = made.descent() if isinstance(made, Averaging) else None
        deviation = 0.0 if descent is None else descent.deviation / descent.step
        smoothness = problem.smoothness_of_data()
        if of.settings.step * smoothness > 2.0 or problem.regularisation == 0.0:
            return None
        distance = float(np.linalg.norm(problem.minimiser()))
        found.append(Party(float(w), smoothness, 2.0 * problem.regularisation, deviation, distance))
    return found


def _risk(
    source: str,
    reading: str,
    statement: str,
    rounds: FloatArray,
    bound: FloatArray,
    constants: Mapping[str, float],
    unspecified: tuple[str, ...],
    measured: FloatArray | None,
) -> Bound:
    return Bound(
        name="excess risk",
        source=source,
        statement=f"{statement}; holds in expectation, one run is measured" if measured is not None else statement,
        reading=reading,  # type: ignore[arg-type]
        x_label=ROUNDS,
        y_label=GAP,
        at=rounds,
        bound=bound,
        constants=constants,
        unspecified=unspecified,
        measured=measured,
        held=holds(measured, bound, _SMALL),
    )


def _seen(of: Averaged) -> tuple[FloatArray, FloatArray | None]:
    """The rounds to draw, and the gaps that were measured there."""
    if of.iterates is not None:
        return np.arange(0.0, of.steps + 1.0), of.objective.gaps(of.iterates)
    if of.final is not None and of.settings.iterate == "last":
        return np.array([float(of.steps)]), of.objective.gaps(of.final[None, :])
    return np.arange(0.0, of.steps + 1.0), None


def named(descent: Descent, name: str) -> dict[str, float]:
    """The constants of a descent, mu by its ``name`` in the theorem."""
    return {
        "L": descent.smoothness,
        name: descent.curvature,
        "p": float(descent.dimension),
        "s^2": descent.variance,
        "gap": descent.gap,
        "h": descent.length,
        "q": descent.kept,
    }
