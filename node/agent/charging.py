"""Charge before sending: keeps the ledger ahead of an agent's releases.

Rules that hold here:
- No release leaves the process before its charge is on disk.
- Charges are reserved in groups, so that a fast clock does not wait for the disk; what was reserved and not sent is
  spent all the same. A group is at most a twentieth of the budgeted releases.
- A charge of one release names the noise that it was made with. A group is charged before its releases are made, and
  names the largest noise that they may have; the multiplier, and so the cost, is the same.
- Each start of a process draws a nonce from the operating system, and it is on disk before anything is drawn from it.
"""

from __future__ import annotations

import os
from typing import Unpack

from coordinator_free.agent import Agent
from coordinator_free.privacy.ledger import Plan, covers
from coordinator_free.privacy.noise import NONCE_BYTES, Start
from node.folder.ledger import LedgerFile
from node.folder.ledger_lines import Kept, Line
from node.folder.public import PublicNumbers


def start_of(ledger: LedgerFile, public: PublicNumbers) -> tuple[Start, ...]:
    """Note a new start of the agent in its ledger, and return all starts of its run; raises `LedgerError`.

    A simulation has none: its noise is a function of the seed, however often a process is started.
    """
    if public.simulation:
        return ()
    return ledger.start(public.run.hex(), os.urandom(NONCE_BYTES))


class Charger:
    """The ledger of one agent in one run of at most ``releases`` releases.

    Raises `LedgerError` where the ledger has no room for what the agent means to release.
    """

    def __init__(self, ledger: LedgerFile, agent: Agent, releases: int, run: bytes) -> None:
        self._ledger = ledger
        self._run = run.hex()
        self._agent = agent
        mechanisms = [agent.charge(index) for index in range(releases)]
        ledger.admit(self._run, mechanisms, agent.windows)
        self._plan = Plan.of(mechanisms)
        self._next = ledger.next_index(self._run)

    @property
    def charged(self) -> int:
        """Indices of this run that are charged, from 0 up."""
        return self._next

    def charge(self, index: int, **record: Unpack[Kept]) -> None:
        """Return once release ``index`` is charged on disk. Raises `LedgerError`, and then nothing may be sent.

        Keyword arguments are written into the same record, atomically, and make the charge a group of one. Of an index
        that a torn record charged, they are written without a charge.
        """
        if record and index < self._next:
            self._ledger.keep(index, extra=self._beside(record))
            return
        while index >= self._next:
            last, mechanism = self._plan.alike(self._next)
            if record:
                last = self._next
            if last == self._next == index:
                mechanism = self._agent.made_with(index)
            self._ledger.reserve(self._next, last, mechanism, extra=self._beside(record))
            self._next = last + 1

    def _beside(self, record: Kept) -> Line:
        extra: Line = {"run": self._run}
        if record:
            extra["frame"], extra["state"] = record["frame"], record["state"]
        return extra

    @property
    def starts(self) -> int:
        """Starts of the agent's process in this run that the ledger knows."""
        return len(self._ledger.starts(self._run))

    def covers(self, first: int) -> bool:
        """Whether every charged index from ``first`` on was charged what its release costs.

        A torn record is charged for every run that it may be of, and may have been another's.
        """
        charged = [self._ledger.ledger.charged(self._run, index) for index in range(first, self._next)]
        costs = [self._agent.charge(index) for index in range(first, self._next)]
        return all(c is not None and covers(cost, c.mechanism) for c, cost in zip(charged, costs, strict=True))

    def records(self) -> list[Line]:
        """All charges of this run as they were written, in order."""
        return self._ledger.records(self._run)
