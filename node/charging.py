"""Charge before you speak: keeps the ledger ahead of an agent's releases.

Rules that hold here:
- No release leaves the process before its charge is on disk.
- Charges are reserved in groups, so that a fast clock does not wait for the disk; what was reserved and not sent is
  spent all the same. A group is at most a twentieth of the budgeted releases.
"""

from __future__ import annotations

from coordinator_free.agent import Agent
from coordinator_free.privacy.mechanisms import Mechanism
from node.ledger_file import LedgerFile


class Charger:
    """The ledger of one agent in one run of ``releases`` budgeted releases."""

    def __init__(self, ledger: LedgerFile, agent: Agent, releases: int, run: bytes) -> None:
        self._ledger = ledger
        self._agent = agent
        self._releases = releases
        self._run = run.hex()
        self._group = max(1, releases // 20)
        self._next = ledger.next_index(self._run)

    @property
    def charged(self) -> int:
        """Indices of this run that are charged, from 0 up."""
        return self._next

    def charge(self, index: int, **record: object) -> None:
        """Return once release ``index`` is charged on disk. Raises `LedgerError`, and then nothing may be sent.

        Keyword arguments are written into the same record, atomically, and make the charge a group of one.
        """
        while index >= self._next:
            first = self._next
            mechanism = self._agent.charge(first)
            last = first if record else self._last_alike(first, mechanism)
            self._ledger.reserve(first, last, mechanism, extra={"run": self._run, **record})
            self._next = last + 1

    def _last_alike(self, first: int, mechanism: Mechanism | None) -> int:
        last = first
        while last + 1 < min(first + self._group, self._releases) and self._agent.charge(last + 1) == mechanism:
            last += 1
        return last
