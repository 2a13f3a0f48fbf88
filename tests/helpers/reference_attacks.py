"""Scores of the likelihood-ratio attack without its short cuts: slow, and the measure of the vectorised ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from coordinator_free.agent import Agent, Setting
from coordinator_free.attacks.inversion import Follower, Heard, Inverted, _Recorder
from coordinator_free.attacks.likelihood_ratio import Replacement
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray, Release


class Speaker(Follower):
    """An agent that is led along a run and releases by its own noise."""

    def speak(self, place: Release, heard: Heard) -> Inverted:
        """What the agent itself releases in the place of a recorded release."""
        charged = self._charge(place.index)
        recorder = None if charged is None else _Recorder(charged)
        said = self._move(place, heard, recorder)
        return Inverted(said, said.vector if recorder is None else recorder.noted(said), charged)


def agent_trial(
    make: Callable[[Setting], Agent],
    setting: Setting,
    replacement: Replacement,
    recorded: Sequence[Release],
    heard: Heard,
    secret: bytes,
    *,
    replaced: bool,
) -> tuple[float, list[Inverted]]:
    """The score of one fresh run of any algorithm that perturbs its releases, by its own code, and its releases.

    One agent runs with noise of ``secret``; a second one, with the other candidate, is led along the first's releases.
    """
    settings = [replace(setting, secret=secret), replace(setting, problem=replacement.apply(setting.problem))]
    settings[1] = replace(settings[1], secret=secret)
    speaker, other = (make(s) for s in (settings[::-1] if replaced else settings))
    score = 0.0
    leader, shadow = Speaker(speaker), Follower(other)
    said: list[Inverted] = []
    for record in recorded:
        real = leader.speak(record, heard)
        ghost = shadow.follow(real.release, heard)
        said.append(real)
        if real.mechanism is None:
            if not np.array_equal(real.exact, ghost.exact):
                score = np.inf
        else:
            score += float(real.mechanism.log_density(real.noise) - real.mechanism.log_density(ghost.noise))
    return (-score if replaced else score), said


def objective_score(
    mechanism: Mechanism,
    noise: tuple[FloatArray, FloatArray],
    hessians: tuple[FloatArray, FloatArray],
) -> float:
    """Score of one release f of an objective perturbation, f = argmin J(f) + e . f with the noise e.

    The release determines the noise, e = -grad J(f), and by change of variables the density of f is that of e times
    |det of the Hessian of J at f| (Chaudhuri, Monteleoni and Sarwate 2011; the ratio of 000's proof is inverted).
    ``noise`` holds e under both candidates, shape (d,), ``hessians`` the Hessian of J at f under both, shape (d, d).
    """
    determinants = [float(np.linalg.slogdet(hessian)[1]) for hessian in hessians]
    ratio = mechanism.log_density(noise[0]) - mechanism.log_density(noise[1])
    return float(ratio) + determinants[0] - determinants[1]
