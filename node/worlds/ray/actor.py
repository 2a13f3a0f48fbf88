"""The actor of one node: a `NodeShare` that exchanges endpoints with the actors of the other nodes.

Rules that hold here:
- Actors are named, detached and restarted by Ray. No driver is needed once a run has begun.
- An actor tells the others its endpoints when they change, until each has taken them. An actor that starts again asks
  the others for theirs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Final

import ray

from node.worlds.ray.share import NodeShare

NAMESPACE: Final = "sottovoce"
LOOK: Final = 0.5
"""Seconds between two looks at the host process and its endpoints."""
PATIENCE: Final = 10.0
"""Seconds that the other actors have for an answer."""


def actor_name(run: str, host: str) -> str:
    """The name of a host's actor."""
    return f"{run}-{host}"


class Actor(NodeShare):
    """One host's part of a run on a node of Ray.

    Parameters
    ----------
    run, name, address
        As `NodeShare`.
    others
        The names of the other hosts.
    """

    def __init__(self, run: str, name: str, address: str, others: Sequence[str]) -> None:
        super().__init__(run, name, address)
        self._others = tuple(others)
        self._gone = threading.Event()
        threading.Thread(target=self._go_on_or_end, daemon=True).start()

    def forget(self) -> None:
        """Remove the part, and look at it no more."""
        self._gone.set()
        super().forget()

    def _go_on_or_end(self) -> None:
        try:
            self._go_on()
        finally:
            if not self._gone.is_set():
                os._exit(
                    1
                )  # an actor that looks no more is of no use; Ray starts another, which finds the host process

    def _go_on(self) -> None:
        told, waiting = "", frozenset[str]()
        for name, text in self._ask(frozenset(self._others), "endpoints").items():
            self.tell(name, str(text))
        while not self._gone.wait(LOOK):
            self.look()
            text = self.endpoints()
            if text != told:
                told, waiting = text, frozenset(self._others)
            waiting -= self._ask(waiting, "tell", self._name, text).keys()

    def _ask(self, names: frozenset[str], method: str, *given: str) -> dict[str, object]:
        """Call a method of the actors of other hosts; returns the answers of those that answered."""
        asked = {}
        for name in names:
            try:
                actor = ray.get_actor(actor_name(self._run, name), NAMESPACE)
            except (ValueError, ray.exceptions.RayError):  # it has not started yet, or Ray does not answer now
                continue
            asked[getattr(actor, method).remote(*given)] = name
        answered: dict[str, object] = {}
        done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=PATIENCE) if asked else ([], [])
        for reference in done:
            try:
                answered[asked[reference]] = ray.get(reference)
            except ray.exceptions.RayError:
                continue  # it ended meanwhile, and starts again
        return answered
