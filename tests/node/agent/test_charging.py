"""Charges reserved ahead: an agent goes on while the disk works, and sends nothing before its charge is there."""

from __future__ import annotations

import threading
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


def charger(ledger: LedgerFile, *, ahead: bool = True) -> Charger:
    return Charger(ledger, cast(Agent, Planned()), RELEASES, RUN, ahead=ahead)


def test_an_agent_goes_on_while_the_next_group_is_on_its_way_to_the_disk(
    held: LedgerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, synced = threading.Event(), threading.Event()
    real_wait = LedgerFile.wait

    def slow(descriptor: int) -> None:
        assert waited.wait(60.0)
        synced.set()

    def wait(self: LedgerFile) -> None:
        waited.set()
        real_wait(self)

    charges = charger(held)
    for index in range(3):
        charges.charge(index)
    monkeypatch.setattr(ledger_file.os, "fdatasync", slow)
    for index in (3, 4):
        charges.charge(index)
        assert held.next_index(RUN.hex()) == 10
        assert charges.charged == 5, "a receipt names what is on the disk"
        assert not synced.is_set()
        if index == 3:
            monkeypatch.setattr(LedgerFile, "wait", wait)
    charges.charge(5)
    assert synced.is_set(), "release 5 is sent only once its charge is on the disk"
    assert charges.charged == 10
    held.close()


def test_no_release_goes_out_whose_charge_failed_on_its_way(held: LedgerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    charges = charger(held)
    for index in range(3):
        charges.charge(index)
    monkeypatch.setattr(ledger_file.os, "fdatasync", failing)
    charges.charge(3)
    charges.charge(4)
    with pytest.raises(LedgerError, match="Input/output error"):
        charges.charge(5)
    with pytest.raises(LedgerError, match="nothing more is said"):
        charges.charge(5)
    held.close()


@pytest.mark.parametrize("ahead", [False, True])
def test_every_index_is_charged_once_and_little_ahead(held: LedgerFile, ahead: bool) -> None:
    charges = charger(held, ahead=ahead)
    for index in range(RELEASES):
        charges.charge(index)
        unsent = held.next_index(RUN.hex()) - index - 1
        assert unsent <= (6 if ahead else 4), "one and a half groups, or one"
    covered = [k for charge in held.charges() for k in range(charge.first, charge.last + 1)]
    assert covered == list(range(RELEASES))
    held.close()
