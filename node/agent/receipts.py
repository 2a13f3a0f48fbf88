"""Whether an agent's ledger is an old copy: its neighbours hold receipts of how far it once was.

Rules that hold here:
- A receipt has a tag that only the holder of the agent's secret can make. So no neighbour can make up a receipt that
  stops an agent, and an agent's own valid receipts are never newer than its newest ledger.
- A neighbour that has charged something of its own has released, so it may remember an earlier life of this agent: it
  counts as met once it has sent back a receipt of this agent. One that has charged nothing has nothing to remember.
- Receipts of neighbours are kept in memory. Neighbours that were all started again remember nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable

from node.hello import RECEIPT_TAG_BYTES, Hello, Receipt

_DOMAIN = b"sottovoce receipt 1\x00"
_RECEIPTS_OF_A_RUN = 20
"""How often an agent sends a new receipt in a run, beside those at its starts."""


def tag(secret: bytes, run: bytes, starts: int, charged: int) -> bytes:
    """The tag of a receipt: SHAKE-256, keyed by the agent's ``secret``, over all that the receipt says."""
    counts = starts.to_bytes(8, "big") + charged.to_bytes(8, "big")
    hashed = hashlib.shake_256(_DOMAIN + len(secret).to_bytes(8, "big") + secret + run + counts)
    return hashed.digest(RECEIPT_TAG_BYTES)


class Receipts:
    """The receipts of one agent, and those that it holds of its neighbours.

    Parameters
    ----------
    agent, secret, run
        The agent, its secret (empty: it sends no receipts and looks for none), and the run's id.
    starts
        The starts of its process in this run, in its ledger.
    charged
        Returns the indices of this run that its ledger has charged.
    releases
        How many it makes in the run.
    dropped
        Where receipts with a wrong tag are counted.
    """

    def __init__(
        self,
        agent: int,
        secret: bytes,
        run: bytes,
        *,
        starts: int,
        charged: Callable[[], int],
        releases: int,
        dropped: Counter[str],
    ) -> None:
        self._agent, self._secret, self._run = agent, secret, run
        self._starts = starts
        self._charged = charged
        self._step = max(1, releases // _RECEIPTS_OF_A_RUN)
        self._dropped = dropped
        self._sent_at = charged()
        self._kept: dict[int, Receipt] = {}
        self._owed: set[int] = set()
        self.newer: Receipt | None = None
        """A receipt of this agent that its ledger does not reach: the ledger is an old copy."""

    def own(self) -> Receipt | None:
        """The receipt of this moment; None without a secret."""
        if not self._secret:
            return None
        self._sent_at = charged = self._charged()
        return Receipt(self._starts, charged, tag(self._secret, self._run, self._starts, charged))

    @property
    def due(self) -> bool:
        """Whether so much was charged since the last receipt that neighbours are to be sent another."""
        return bool(self._secret) and self._charged() >= self._sent_at + self._step

    @property
    def owed(self) -> bool:
        """Whether a neighbour waits for its receipt."""
        return bool(self._owed)

    def answers(self) -> tuple[tuple[int, Receipt], ...]:
        """The newest receipt of each neighbour that waits for one; they are owed no more."""
        found = tuple((j, self._kept[j]) for j in sorted(self._owed) if j in self._kept)
        self._owed.clear()
        return found

    def take(self, hello: Hello) -> bool:
        """Take in a neighbour's hello; True if that neighbour counts as met."""
        receipt, sender = hello.receipt, hello.sender
        if receipt is not None:
            kept = self._kept.get(sender)
            if kept is None or receipt.reach >= kept.reach:
                kept = self._kept[sender] = receipt
            if kept.reach > receipt.reach:
                self._owed.add(sender)
        if hello.asks and self._charged() > 0:
            self._owed.add(sender)
        met = not self._secret or receipt is None or receipt.charged == 0
        for agent, echo in hello.echoes:
            if agent == self._agent and self._secret:
                met |= self._know(echo)
        return met

    def _know(self, echo: Receipt) -> bool:
        if not hmac.compare_digest(echo.tag, tag(self._secret, self._run, echo.starts, echo.charged)):
            self._dropped["receipt"] += 1
            return False
        if echo.starts > self._starts or echo.charged > self._charged():
            self.newer = echo
        return True
