"""Clocks that are wrong: how often an agent wakes and what it writes down changes, and nothing else."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.clocks import own_rate, own_skew, waits
from node.audit.verify import verify
from node.folder.journal import read_journal
from node.folder.shard import read_rows
from node.folder.status import read_status
from node.places import agent_folder, shard_path
from node.traffic.reader import TrafficLogReader
from tests.helpers.clusters import AGENTS, ran, table
from tests.helpers.clusters import dealt as dealt_run

HOUR = 3600.0


def test_a_clock_is_wrong_by_no_more_than_it_may_and_each_by_something_else() -> None:
    rates = np.array([own_rate(10.0, 0.3, 1, agent) for agent in range(200)])
    skews = np.array([own_skew(2.0, 1, agent) for agent in range(200)])
    assert 7.0 <= rates.min() < 7.5
    assert 12.5 < rates.max() <= 13.0
    assert -2.0 <= skews.min() < -1.5
    assert 1.5 < skews.max() <= 2.0
    assert abs(float(np.corrcoef(rates, skews)[0, 1])) < 0.2
    assert own_rate(10.0, 0.0, 1, 5) == 10.0


def ledger_plans(folder: Path) -> list[dict[str, Any]]:
    found = []
    for agent in range(AGENTS):
        _, public = read_rows(shard_path(folder, agent))
        found.append({key: getattr(public, key) for key in ("mechanism", "multipliers", "budget", "updates", "clip")})
    return found


@pytest.mark.processes
@pytest.mark.slow
def test_a_private_run_by_wrong_clocks_is_verified_and_costs_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "wrong"
    watch = ran(folder, table(clock={"drift": 0.5, "skew": HOUR}))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0
    assert verify(folder).ok
    # The listener has a clock of its own; each agent's is off by what was drawn for it.
    heard = {}
    for frame in TrafficLogReader(folder / "traffic.mcap"):
        heard.setdefault(frame.parts[1], frame.time_ns)
    for agent in range(AGENTS):
        _, public = read_rows(shard_path(folder, agent))
        own_ns, parts = next(iter(read_journal(agent_folder(folder, agent) / "journal.bin")))
        ahead = (own_ns - heard[parts[1]]) / 1e9
        assert public.skew == pytest.approx(own_skew(HOUR, 5, agent))
        assert abs(public.skew) > 0
        assert ahead == pytest.approx(public.skew, abs=60.0)
    dealt_run(tmp_path / "right", table())
    assert ledger_plans(folder) == ledger_plans(tmp_path / "right")


def seconds_after_ready(folder: Path, agent: int) -> np.ndarray:
    """When an agent made each of its releases, after the moment at which it was ready."""
    status = read_status(agent_folder(folder, agent) / "status")
    assert status is not None
    ready_ns = status.ready_ns + time.time_ns() - time.monotonic_ns()  # the journal has the time of day
    made_ns = [own_ns for own_ns, _ in read_journal(agent_folder(folder, agent) / "journal.bin")]
    return (np.array(made_ns) - ready_ns) / 1e9


@pytest.mark.processes
@pytest.mark.slow
def test_an_agent_wakes_by_its_clock_until_it_has_received_all_that_it_will_receive(tmp_path: Path) -> None:
    """One of two agents is done by its clock after 9 s, and the other would be after 20 s."""
    changes: dict[str, dict[str, Any]] = {"data": {"agents": 2}, "topology": {"kind": "path"}, "run": {"seed": 7}}
    folder = tmp_path / "two"
    watch = ran(folder, table(**changes, clock={"rate": 1.0, "updates": 12}))
    assert watch.failures == []
    ticks = [np.cumsum(list(itertools.islice(waits(7, agent, 1.0), 12))) for agent in range(2)]
    slow, quick = (seconds_after_ready(folder, agent) for agent in range(2))
    assert len(slow) == len(quick) == 12
    by_the_clock = slow < quick[-1]
    of_ticks = np.concatenate([slow[by_the_clock] / ticks[0][by_the_clock], quick / ticks[1]])
    # A busy machine makes an agent late at some of its ticks, and at none of them early.
    assert np.all(of_ticks > 0.9)
    assert of_ticks.min() < 1.5
    assert slow[-1] < ticks[0][-1] - 1.0, "it waited for its clock"
    assert verify(folder).ok
