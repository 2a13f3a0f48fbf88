"""Checks of a setting that all algorithms share, made when an agent is constructed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.privacy.families import NORMS
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.settings import SettingError


def longer_row(problem: LocalProblem, bound: float) -> bool:
    """Whether a row is longer than ``bound`` in L2, beyond rounding."""
    longest = math.sqrt(float(np.einsum("ij,ij->i", problem.x, problem.x).max(initial=0.0)))
    return longest > bound * (1.0 + 1e-9)


def checked(setting: Setting, charged: int) -> Setting:
    """The setting itself, if an agent whose first ``charged`` releases may be noised can be made of it.

    In a private run no row is longer than the public bound: a longer one is shortened, which no observer can notice.
    Raises `SettingError` naming the setting, the value and what would be accepted.
    """
    neighbours = np.asarray(setting.neighbours)
    if neighbours.size == 0:
        raise SettingError(f"agent {setting.agent} has no neighbours to learn with")
    if setting.weights.shape != neighbours.shape or not (np.diff(neighbours) > 0).all():
        raise SettingError(f"agent {setting.agent}: neighbours must be ascending, with one weight for each")
    columns = setting.problem.dimension
    if columns != setting.dimension:
        raise SettingError(f"agent {setting.agent}: its records have {columns} columns, the models {setting.dimension}")
    if setting.updates < 0:
        raise SettingError(f"clock.updates = {setting.updates}: must be 0 or more")
    if setting.mechanism == "none":
        return setting
    if setting.mechanism not in NORMS:
        raise SettingError(f"privacy.mechanism = {setting.mechanism!r}: known are none, {', '.join(NORMS)}")
    if setting.clip is None or not (np.isfinite(setting.clip) and setting.clip > 0):
        raise SettingError(f"privacy.clip = {setting.clip}: a private run needs a finite number > 0")
    if setting.problem.records and len(setting.multipliers) != charged:
        raise SettingError(f"{len(setting.multipliers)} noise multipliers for {charged} charged releases: one for each")
    if setting.problem.records and len(setting.secret) == 0:
        raise SettingError(f"agent {setting.agent} has no noise secret")
    return bounded(setting)


def bounded(setting: Setting) -> Setting:
    """The setting with no row longer than the public bound of a private run; raises `SettingError`."""
    if setting.row_bound is None or setting.mechanism not in NORMS:
        return setting
    if not (np.isfinite(setting.row_bound) and setting.row_bound > 0):
        raise SettingError(f"row_bound = {setting.row_bound}: accepted are finite numbers > 0, or None")
    return replace(setting, problem=setting.problem.within(setting.row_bound, NORMS[setting.mechanism]))
