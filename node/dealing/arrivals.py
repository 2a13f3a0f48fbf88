"""When the records of an agent arrive, where a share of them arrives during the run (``data.arriving``).

Rules that hold here:
- Which records arrive late, and when, follows from the seed, the sizes and the settings. No value of a record has a
  part in it, so it is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from node.configuration.sections import Configuration

_DRAW = 0x617272697665  # "arrive": no other draw from the seed has it


def arrivals(configuration: Configuration, seed: int, agent: int, records: int) -> Mapping[str, Any]:
    """The settings of an agent's algorithm that say when its records arrive; empty where all are there from the start.

    At least one record of every agent is there from the start, and the others arrive one by one, evenly over the
    updates.
    """
    share, updates = configuration.data.arriving, configuration.clock.updates
    late = 0 if share is None else min(round(share * records), records - 1)
    if late <= 0 and share is None:
        return {}
    first = np.zeros(records, dtype=np.int64)
    order = np.random.default_rng([_DRAW, seed, agent]).permutation(records)
    first[order[: max(late, 0)]] = [1 + k * (updates - 1) // late for k in range(max(late, 0))]
    uses = configuration.privacy.uses
    return {"arrivals": first.tolist()} | ({} if uses is None else {"uses": uses})
