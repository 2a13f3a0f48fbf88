"""An old copy of a ledger is found by the receipts that neighbours hold, and no neighbour can make up a receipt."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from node.agent.receipts import Receipts, tag
from node.hello import Hello, Receipt
from node.wire import decode, encode

RUN, SECRET, OTHER = bytes(16), b"s" * 32, b"o" * 32


class Side:
    """One agent's receipts, with a ledger that the test moves."""

    def __init__(self, agent: int, secret: bytes = SECRET, starts: int = 1, charged: int = 0) -> None:
        self.agent, self.charged, self.dropped = agent, charged, Counter[str]()
        self.receipts = Receipts(
            agent, secret, RUN, starts=starts, charged=lambda: self.charged, releases=100, dropped=self.dropped
        )

    def hello(self, *, asks: bool = False) -> Hello:
        said = Hello(self.agent, bytes(32), self.receipts.own(), asks, self.receipts.answers())
        heard = decode(encode(RUN, said))
        assert heard == said
        assert isinstance(heard, Hello)
        return heard


def test_an_agent_that_comes_back_with_an_old_ledger_is_told_before_it_counts_a_neighbour_as_met() -> None:
    agent, neighbour = Side(0), Side(1, OTHER)
    assert neighbour.receipts.take(agent.hello(asks=True))
    assert agent.receipts.take(neighbour.hello(asks=True)), "nothing was charged yet, so there is nothing to remember"
    agent.charged = neighbour.charged = 50
    assert agent.receipts.due
    neighbour.receipts.take(agent.hello())
    assert not agent.receipts.due
    assert not neighbour.receipts.owed

    restored = Side(0, starts=1, charged=0)  # from a backup of the part as it was dealt
    neighbour.receipts.take(restored.hello(asks=True))
    assert neighbour.receipts.owed
    assert restored.receipts.take(neighbour.hello())
    assert restored.receipts.newer is not None
    assert (restored.receipts.newer.starts, restored.receipts.newer.charged) == (1, 50)


@pytest.mark.parametrize(("starts", "charged"), [(2, 50), (2, 52)])
def test_an_agent_with_its_newest_ledger_goes_on_once_its_neighbour_answered(starts: int, charged: int) -> None:
    agent, neighbour = Side(0, charged=50), Side(1, OTHER, charged=40)
    neighbour.receipts.take(agent.hello())
    again = Side(0, starts=starts, charged=charged)
    assert not again.receipts.take(neighbour.hello()), "this may have been sent before the neighbour knew of it"
    neighbour.receipts.take(again.hello(asks=True))
    assert again.receipts.take(neighbour.hello())
    assert again.receipts.newer is None


def test_a_made_up_receipt_stops_nobody_and_is_counted() -> None:
    agent = Side(0, starts=1, charged=10)
    liar = Hello(1, bytes(32), Receipt(1, 90, b"x" * 16), echoes=((0, Receipt(1, 99, b"y" * 16)),))
    assert not agent.receipts.take(liar)
    mine = agent.receipts.own()
    assert mine is not None
    for changed in (replace(mine, charged=99), replace(mine, starts=9)):
        assert not agent.receipts.take(replace(liar, echoes=((0, changed),)))
    assert agent.receipts.newer is None
    assert agent.dropped == {"receipt": 3}
    assert agent.receipts.take(replace(liar, echoes=((0, mine),)))


def test_a_receipt_is_of_one_secret_one_run_and_its_two_counts() -> None:
    tags = {tag(SECRET, RUN, 1, 2), tag(OTHER, RUN, 1, 2), tag(SECRET, b"r" * 16, 1, 2), tag(SECRET, RUN, 2, 1)}
    assert len(tags) == 4


def test_the_newest_receipt_is_kept_when_an_older_one_follows() -> None:
    neighbour = Side(1, OTHER)
    for charged in (10, 60, 20):
        neighbour.receipts.take(Side(0, charged=charged).hello())
    [(agent, kept)] = neighbour.receipts.answers()
    assert (agent, kept.charged) == (0, 60)


def test_an_agent_without_a_secret_sends_no_receipt_and_counts_every_hello() -> None:
    agent, neighbour = Side(0, b"", charged=5), Side(1, OTHER, charged=5)
    neighbour.receipts.take(agent.hello(asks=True))
    assert neighbour.receipts.owed
    assert agent.receipts.take(neighbour.hello())
    assert not agent.receipts.due
