"""The rows of every agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_free.privacy.families import NORMS
from node.configuration.sections import Configuration

if TYPE_CHECKING:
    from node.data import Dealt


def deal_data(configuration: Configuration, seed: int, validation: tuple[float, int] | None = None) -> Dealt:
    """The rows of every agent; ``validation`` as for `node.data.deal`."""
    from node.data import deal

    return deal(
        configuration.data,
        seed=seed,
        private=configuration.private,
        norm=NORMS.get(configuration.privacy.mechanism),
        validation=validation,
    )
