"""A part that is copied or restored from a backup: its two lives do not share noise for what they compute apart."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agent import Agent, Halt
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.agents.registry import make
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.noise import Start
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.reexecution import reexecute
from node.agent.charging import Charger, start_of
from node.exit_codes import ExitCode
from node.folder.ledger import LedgerFile
from node.folder.shard import read_shard
from node.places import agent_folder, shard_path
from node.traffic.check import verify_log
from node.worlds import launcher
from tests.helpers.averages_networks import problems, run, settings
from tests.helpers.clusters import AGENTS, dealt, final, table
from topology import families

pytestmark = pytest.mark.slow

AGENT, BEFORE, AFTER = 3, 4, 6
SIZES = [20, 40, 30, 60, 10]


class Life:
    """One process of the agent, without its sockets: it charges before it releases, and a neighbour feeds it."""

    def __init__(self, folder: Path, before: Life | None = None) -> None:
        self.place = agent_folder(folder, AGENT)
        given, self.public, digest = read_shard(shard_path(folder, AGENT), self.place / "secret")
        self._ledger = LedgerFile.open(self.place / "ledger.jsonl", digest)
        self.setting = replace(given, starts=start_of(self._ledger, self.public))
        self.agent: Agent = make(self.public.algorithm, self.setting)
        self._charger = Charger(self._ledger, self.agent, self.public.releases, self.public.run)
        self.said: list[Release] = list(before.said) if before else []
        self.heard: dict[tuple[int, int], Release] = dict(before.heard) if before else {}
        if before:
            last = before.said[-1]
            self.agent.restore({"model": last.vector, "index": np.array([float(last.index)])}, self._charger.charged)

    def live(self, wakes: int, draw: np.random.Generator) -> None:
        for _ in range(wakes):
            for j in self.setting.neighbours:
                release = Release(j, len(self.heard), draw.standard_normal(self.setting.dimension), ())
                self.heard[j, release.index] = release
                self.agent.receive(release)
            said = self.agent.wake()
            assert said is not None
            self._charger.charge(said.index)
            self.said.append(said)

    def end(self) -> None:
        self._ledger.close()


def two_lives(folder: Path, privacy: dict[str, Any] | None = None) -> tuple[Life, Life]:
    """An agent's part is copied after some releases, and both copies go on with other neighbours."""
    original, copy = folder / "original", folder / "copy"
    dealt(original, table(**({"privacy": privacy} if privacy else {})))
    first = Life(original)
    first.live(BEFORE, np.random.default_rng(0))
    first.end()
    shutil.copytree(original, copy)
    one, other = Life(original, first), Life(copy, first)
    for seed, life in enumerate((one, other), 1):
        life.live(AFTER, np.random.default_rng(seed))
        life.end()
    return one, other


def gradient(life: Life, model: FloatArray) -> FloatArray:
    given = life.setting
    assert given.clip is not None
    return given.problem.clipped_gradient(model, given.clip, NORMS[given.mechanism])


def guessed_difference(one: Life, other: Life, place: int) -> FloatArray:
    """The difference of two exact gradients, as an observer reads it where both releases have the same noise."""
    given = one.setting
    pull = float(given.learning["mu"]) * given.confidence
    step = 1.0 / (1.0 + pull * float(given.learning["smoothness"]))
    moved = []
    for life in (one, other):
        newest = [life.heard[j, k].vector for j, k in life.said[place].used if j != AGENT]
        mixture = np.average(newest, axis=0, weights=given.weights)
        moved.append((1.0 - step) * life.said[place - 1].vector + step * mixture - life.said[place].vector)
    difference: FloatArray = (moved[0] - moved[1]) / (step * pull)
    return difference


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_two_lives_of_one_backup_hide_the_differences_of_their_gradients(tmp_path: Path, mechanism: str) -> None:
    one, other = two_lives(tmp_path, {"mechanism": mechanism, "epsilon": 1.0, "delta": 1e-5, "clip": 1.0})
    assert [r.index for r in one.said] == [r.index for r in other.said], "the same indices are charged twice"
    charge = one.agent.charge(BEFORE)
    assert charge is not None
    for place in range(BEFORE + 1, BEFORE + AFTER):
        exact = gradient(one, one.said[place - 1].vector) - gradient(other, other.said[place - 1].vector)
        error = np.abs(guessed_difference(one, other, place) - exact).max()
        assert error > charge.scale / 10.0, f"release {place}: read with an error of {error:.1g}"


def test_both_lives_are_executed_again_bit_for_bit(tmp_path: Path) -> None:
    for life in two_lives(tmp_path):
        with LedgerFile.read(life.place / "ledger.jsonl", None) as ledger:
            starts = ledger.starts(life.public.run.hex())
        assert len({start.nonce for start in starts}) == len(starts) == 2
        again = make(life.public.algorithm, replace(life.setting, starts=starts))
        assert reexecute(again, life.heard, life.said) is None
        other = make(life.public.algorithm, replace(life.setting, starts=starts[:1]))
        assert reexecute(other, life.heard, life.said) is not None


def test_two_hosts_that_start_one_fresh_part_share_no_noise(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    dealt(original, table())
    shutil.copytree(original, copy)
    lives = [Life(original), Life(copy)]
    for life in lives:
        life.live(1, np.random.default_rng(7))
        life.end()
    assert not np.array_equal(lives[0].said[0].vector, lives[1].said[0].vector)


def test_a_simulation_has_the_noise_of_its_seed_at_every_start(tmp_path: Path) -> None:
    dealt(tmp_path / "run", table(run={"simulation": True}))
    life = Life(tmp_path / "run")
    life.end()
    assert life.setting.starts == ()
    with LedgerFile.read(life.place / "ledger.jsonl", None) as ledger:
        assert ledger.starts(life.public.run.hex()) == ()


def test_masks_are_never_used_by_two_starts() -> None:
    graph = families.build("ring", 5, 0)
    made = settings(GradientDescent, graph, problems(5, SIZES), 2, aggregation="masked-sum")
    started = [replace(each, starts=(Start(0, bytes([i]) * 32),)) for i, each in enumerate(made)]
    run([GradientDescent(each) for each in started], graph)  # one start each: nothing is in the way
    agent = GradientDescent(replace(started[0], starts=(*started[0].starts, Start(1, b"x" * 32))))
    key = agent.start()
    assert key is not None
    for j in started[0].neighbours:
        theirs = GradientDescent(started[j]).start()
        assert theirs is not None
        agent.receive(theirs)
    with pytest.raises(Halt, match="Masks are never used by two starts"):
        agent.wake()


@pytest.mark.processes
def test_an_agent_that_is_restored_from_a_backup_during_the_run_releases_nothing(tmp_path: Path) -> None:
    folder, backup = tmp_path / "run", tmp_path / "backup"
    configuration = dealt(folder, table(clock={"rate": 20.0}, network={"linger": 8.0}))
    shutil.copytree(agent_folder(folder, AGENT), backup)
    cluster = launcher.Cluster(folder, configuration, AGENTS)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.sent > 60)
        os.kill(cluster.alive[AGENT], signal.SIGKILL)
        cluster.watch(until=lambda _: AGENT not in cluster.alive)
        shutil.rmtree(agent_folder(folder, AGENT))
        shutil.copytree(backup, agent_folder(folder, AGENT))
        cluster.restart(AGENT)
        watch = cluster.watch()
    finally:
        cluster.close()
    assert watch.failures[-1].status == ExitCode.LEDGER
    assert "this ledger is an old copy" in watch.failures[-1].words
    assert final(folder, AGENT)["sent"] == 0
    found = verify_log(folder / "traffic.mcap")
    assert found["backwards"] == [AGENT]
    assert found["redrawn"] == []
    assert not found["ok"]
