"""Penalties of the agents' own: each agent starts from its own and lets it grow by its own factor (section 3.1).

Rules that hold here:
- The penalties are public numbers of the configuration. Privacy never rests on hiding them
  (`coordinator_free.attacks.hidden_penalties`).
- The dual step is one for all, and is stated: agents with other dual steps agree on another optimum
  (`coordinator_free.problem.consensus`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import AdmmError
from coordinator_free.agents.admm.settings import AdmmSettings
from coordinator_free.settings import AgentNumbers


@dataclass(frozen=True, kw_only=True)
class OwnPenaltySettings(AdmmSettings):
    """Of an algorithm whose agents may have penalties of their own."""

    own_penalties: list[float] | None = None
    """eta of each agent's first round, in the agents' order. Needs ``theta``."""
    own_growths: list[float] | None = None
    """Each agent's factor a round, in the agents' order."""

    def idle(self) -> Mapping[str, str]:
        found = dict(super().idle())
        if self.own_penalties is not None:
            found["penalty"] = "learning.own_penalties has each agent's"
        if self.own_growths is not None:
            found["penalty_growth"] = "learning.own_growths has each agent's"
        if self.penalties is not None:
            found |= dict.fromkeys(("own_penalties", "own_growths"), "learning.penalties has those of each round")
        return found


def with_own_penalties(setting: Setting) -> Setting:
    """The setting of an agent with its own penalty and growth in the place of everybody's; raises `AdmmError`."""
    own, agents = OwnPenaltySettings.of(setting.learning), AgentNumbers.of(setting.learning).agents
    mine = {}
    for key, name, values in (
        ("penalty", "own_penalties", own.own_penalties),
        ("penalty_growth", "own_growths", own.own_growths),
    ):
        if values is not None:
            _check(name, values, agents)
            mine[key] = values[setting.agent]
    if not mine:
        return setting
    if own.own_penalties is not None and own.theta is None:
        raise AdmmError("learning.theta is missing: agents with learning.own_penalties need one dual step for all")
    return replace(setting, learning={**setting.learning, **mine})


def _check(name: str, values: Sequence[float], agents: int) -> None:
    if len(values) != agents or not all(np.isfinite(value) and value > 0 for value in values):
        raise AdmmError(
            f"learning.{name} = {list(values)[:8]}: accepted: {agents} finite numbers > 0, one for each agent"
        )
