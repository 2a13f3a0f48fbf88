"""Charges reserved ahead: each index once, few unsent ones, and nothing is sent whose charge is not on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from coordinator_free.agent import Agent
from coordinator_free.privacy.ledger import Budget, LedgerError
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.mechanisms import Laplace
from node.agent.charging import Charger
from node.folder import ledger as ledger_file
from node.folder.ledger import LedgerFile

SHARD = "ab" * 32
RUN = bytes(16)
TENTH = Laplace(1.0, 10.0)
RELEASES = 100


class Planned:
    """What a charger asks of an agent."""

    windows: tuple[tuple[int, int], ...] = ()

    def charge(self, index: int) -> Mechanism:
        return TENTH

    def made_with(self, index: int) -> Mechanism:
        return TENTH


@pytest.fixture
def held(tmp_path: Path) -> LedgerFile:
    path = tmp_path / "ledger.jsonl"
    LedgerFile.create(path, SHARD, "one pupil", Budget(11.0, 0.0), [TENTH] * RELEASES)
    return LedgerFile.open(path, SHARD)


def charger(ledger: LedgerFile) -> Charger:
    return Charger(ledger, cast(Agent, Planned()), RELEASES, RUN)


def test_no_release_goes_out_whose_charge_failed(held: LedgerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    charges = charger(held)
    charges.charge(0)
    known = charges.charged
    monkeypatch.setattr(ledger_file.os, "fdatasync", failing)
    for index in range(1, known):
        charges.charge(index)  # reserved before
    with pytest.raises(LedgerError, match="Input/output error"):
        charges.charge(known)
    assert charges.charged == known, "a receipt names only what is on the disk"
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="an earlier charge could not be written"):
        charges.charge(known)
    held.close()


def test_every_index_is_charged_once_and_little_ahead(held: LedgerFile) -> None:
    charges = charger(held)
    for index in range(RELEASES):
        charges.charge(index)
        assert held.next_index(RUN.hex()) - index - 1 <= 4, "one group"
    covered = [k for charge in held.charges() for k in range(charge.first, charge.last + 1)]
    assert covered == list(range(RELEASES))
    held.close()
