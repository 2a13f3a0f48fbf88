"""When the records of an agent arrive, where some of them arrive during the run.

Rules that hold here:
- With ``data.arriving``, which records arrive late, and when, follows from the seed, the sizes and the settings. No
  value of a record has a part in it, so it is public.
- With ``data.arriving_column`` the data say it. That column is public by assumption, and nothing else decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration

if TYPE_CHECKING:
    from node.data.dealt import Dealt, Updates

_DRAW = 0x617272697665  # "arrive": no other draw from the seed has it


class ArrivalSettings(TypedDict, total=False):
    """Settings of an algorithm whose records arrive; none where all are there from the start."""

    arrivals: list[int]
    """The first update that may use each record."""
    uses: int
    """The most releases that use one record."""


def check_arrivals(configuration: Configuration, dealt: Dealt) -> None:
    """Raise `ConfigurationError` for a training record that would arrive after the run's last update."""
    updates = configuration.clock.updates
    for agent, shard in enumerate(dealt.shards):
        late = np.flatnonzero(shard.arrivals >= updates) if shard.arrivals is not None else np.empty(0, dtype=np.intp)
        if late.size and shard.arrivals is not None:
            row = f"row {dealt.sources.training[agent][late[0]] + 1}, " if dealt.sources is not None else ""
            raise ConfigurationError(
                f"{row}column {configuration.data.arriving_column!r}: a record that arrives at update "
                f"{shard.arrivals[late[0]]} enters no release of the run; accepted are 0 to {updates - 1} with "
                f"clock.updates = {updates}"
            )


def arrivals(
    configuration: Configuration, seed: int, agent: int, records: int, stated: Updates | None = None
) -> ArrivalSettings:
    """The settings of an agent's algorithm that say when its records arrive; empty where all are there from the start.

    ``stated`` (records,) is when they arrive by a column of the data. Without it at least one record of every agent is
    there from the start, and the others arrive one by one, evenly over the updates.
    """
    uses = configuration.privacy.uses
    more: ArrivalSettings = {} if uses is None else {"uses": uses}
    if stated is not None:
        return {"arrivals": stated.tolist(), **more}
    share, updates = configuration.data.arriving, configuration.clock.updates
    late = 0 if share is None else min(round(share * records), records - 1)
    if late <= 0 and share is None:
        return {}
    first = np.zeros(records, dtype=np.int64)
    order = np.random.default_rng([_DRAW, seed, agent]).permutation(records)
    first[order[: max(late, 0)]] = [1 + k * (updates - 1) // late for k in range(max(late, 0))]
    return {"arrivals": first.tolist(), **more}
