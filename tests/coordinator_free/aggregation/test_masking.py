"""Masked sums: exact, silent about each party, and repaired when one drops out or comes late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coordinator_free.agents.averages.arrangement import weights
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.aggregation import masking
from coordinator_free.aggregation.masked_sum import named
from coordinator_free.aggregation.masking import MaskError
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.cli import main
from tests.helpers import averages_networks as small
from topology import families
from topology.network import Network


class Parties:
    """Everything that the parties of one masked sum hold."""

    def __init__(self, graph: Network, values: FloatArray, round_: int = 0) -> None:
        self.graph, self.values, self.agents = graph, values, graph.agents
        secrets = [bytes([i + 1]) * 32 for i in range(self.agents)]
        keys = [masking.derived(secret, "x25519") for secret in secrets]
        public = [masking.public_key(key) for key in keys]
        self.pairs = [
            {j: masking.pair_seed(masking.agreed(keys[i], public[j]), round_) for j in graph.neighbours(i)}
            for i in range(self.agents)
        ]
        self.own = [masking.own_seed(secret, round_) for secret in secrets]
        self.needed = [masking.threshold(len(graph.neighbours(i))) for i in range(self.agents)]
        shares = [
            masking.shares(self.own[i], graph.neighbours(i), self.needed[i], secrets[i], round_)
            for i in range(self.agents)
        ]
        self.holders = [
            masking.Holder({j: shares[j][i] for j in graph.neighbours(i)}, self.pairs[i]) for i in range(self.agents)
        ]
        self.words = [masking.to_words(values[i], self.agents) for i in range(self.agents)]
        self.masked = [masking.masked(self.words[i], i, self.own[i], self.pairs[i]) for i in range(self.agents)]

    def total(self, present: set[int]) -> masking.Words:
        """What those present can compute, with what they reveal of everybody."""
        own, dropped = [], {}
        for party in range(self.agents):
            here = [j for j in self.graph.neighbours(party) if j in present]
            revealed = {j: self.holders[j].reveal(party, present=party in present)[1] for j in here}
            if party in present:
                own.append(masking.rebuilt(revealed, self.needed[party]))
            else:
                dropped[party] = revealed
        whole = np.sum([self.masked[i] for i in sorted(present)], axis=0, dtype=np.uint64)
        return masking.unmasked(whole, own, dropped)


def _values(agents: int, dimension: int = 40, seed: int = 5) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(agents, dimension))


@pytest.mark.parametrize("kind", ["ring", "complete", "path", "star"])
def test_the_integer_sum_is_that_of_the_unmasked_words(kind: str) -> None:
    parties = Parties(families.build(kind, 7, 0), _values(7))
    exact = np.sum(parties.words, axis=0, dtype=np.uint64)
    np.testing.assert_array_equal(parties.total(set(range(7))), exact)
    np.testing.assert_allclose(masking.from_words(exact), parties.values.sum(axis=0), atol=7 * masking.GRID)


def test_one_dropped_and_one_late_party_of_sixteen_are_repaired() -> None:
    graph = families.build("random-regular", 16, 2, degree=6)
    parties = Parties(graph, _values(16))
    dropped, late = 3, 11
    present = set(range(16)) - {dropped, late}
    exact = np.sum([parties.words[i] for i in sorted(present)], axis=0, dtype=np.uint64)
    np.testing.assert_array_equal(parties.total(present), exact)
    # Now the late one's vector arrives. All its pairwise seeds with those present are revealed; its own mask stays.
    bare = parties.masked[late]
    for j, seed in parties.pairs[late].items():
        mask = masking.expanded(seed, bare.size)
        bare = bare - mask if late < j else bare + mask
    assert (bare != parties.words[late]).all()
    np.testing.assert_array_equal(bare - masking.expanded(parties.own[late], bare.size), parties.words[late])
    for j in graph.neighbours(late):
        if j in present:
            with pytest.raises(MaskError, match="must stay secret"):
                parties.holders[j].reveal(late, present=True)


def test_a_masked_vector_says_nothing_of_its_party() -> None:
    """Two inputs far apart, 800 rounds: the best bit of the masked word has an accuracy of one half.

    Each of 64 bits is compared; the largest of 64 deviations exceeds 4.5 standard errors with probability 5e-4.
    """
    secret, rounds = bytes(range(32)), 800
    counts = np.zeros((2, 64))
    for which, value in enumerate((0.0, 1000.0)):
        word = masking.to_words(np.array([value]), 3)
        for k in range(rounds):
            hidden = masking.masked(word, 0, masking.own_seed(secret, 2 * k + which), {})
            counts[which] += np.unpackbits(hidden.view(np.uint8))
    deviations = np.abs(counts[0] - counts[1]) / math.sqrt(rounds / 2)
    assert deviations.max() < 4.5


def test_an_observer_of_a_run_sees_the_sum_and_not_the_parties() -> None:
    """Two parties swap their records, which changes no sum: nothing changes but their own uniform, masked vectors."""
    graph, local = small.complete(4), small.problems(4, [30] * 4)
    swapped = [local[1], local[0], *local[2:]]
    runs = []
    for records in (local, swapped):
        made = small.settings(GradientDescent, graph, records, 2, aggregation="masked-sum")
        agents = [GradientDescent(setting) for setting in made]
        runs.append((small.run(agents, graph), agents[0].model))
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    for one, other in zip(runs[0][0].releases, runs[1][0].releases, strict=True):
        words = 2 * local[0].dimension
        changed = bool((one.vector[1 : 1 + words] != other.vector[1 : 1 + words]).any())
        assert changed == (one.sender < 2 and one.round in {1, 3})
        assert one.vector[0] == other.vector[0]
        np.testing.assert_array_equal(one.vector[1 + words :], other.vector[1 + words :])


SIXTEEN: dict[str, Any] = {"aggregation": "masked-sum", "dropouts": 2, "step": 1.0}


def _sixteen(updates: int = 2, **more: Any) -> tuple[Network, list[LocalProblem], list[GradientDescent]]:
    graph = families.build("random-regular", 16, 2, degree=6)
    local = small.problems(16, [10 + i for i in range(16)])
    return (
        graph,
        local,
        [GradientDescent(s) for s in small.settings(GradientDescent, graph, local, updates, **SIXTEEN, **more)],
    )


def _exact(local: Sequence[LocalProblem], present: Sequence[int], theta: FloatArray) -> FloatArray:
    """The weighted mean gradient of those present, their words added exactly."""
    shares = weights([p.records for p in local], "size")
    words = [masking.to_words(shares[i] * local[i].gradient(theta), 16) for i in present]
    total = masking.from_words(np.sum(words, axis=0, dtype=np.uint64))
    return total if len(present) == len(local) else total / shares[list(present)].sum()


def test_a_run_of_sixteen_goes_on_exactly_without_who_is_gone_and_who_is_late() -> None:
    """Both fall silent after the round of keys. The late one's masked vector comes, its pairwise masks being open."""
    graph, local, agents = _sixteen()
    gone, late = 3, 11
    releases, stopped = small.run_without(agents, graph, gone={gone: 1}, late={late: 1})
    present = [i for i in range(16) if i not in (gone, late)]
    theta = np.zeros(3)
    for _ in range(2):
        theta = theta - _exact(local, present, theta)
    for i in present:
        assert agents[i].finished
        np.testing.assert_array_equal(agents[i].model, theta)
    assert list(stopped) == [late]
    assert "shares of an own mask" in str(stopped[late])
    # The observer takes off every mask that was opened. What is left of the late one's vector is still masked.
    first = next(r for r in releases if r.sender == late and r.round == 1)
    word = masking.from_floats(first.vector[1:7])
    shares = weights([p.records for p in local], "size")
    hidden = masking.to_words(shares[late] * local[late].gradient(np.zeros(3)), 16)
    reveals = 1 + agents[0]._stage_rounds // 2
    for j in graph.neighbours(late):
        if j not in present:
            continue
        told = next(r for r in releases if r.sender == j and r.round == reveals)
        assert told.vector[1] == named(present, 16)[0]
        place = 2 + 4 * graph.neighbours(j).index(late)
        seed = told.vector[place : place + 4].astype("<u4").tobytes()
        mask = masking.expanded(seed, 3)
        word = word - mask if late < j else word + mask
    assert (word != hidden).all()
    secret = masking.run_secret(bytes([late + 1]) * 32, b"", late)
    np.testing.assert_array_equal(word - masking.expanded(masking.own_seed(secret, 0), 3), hidden)


def test_who_falls_silent_after_its_masked_vector_is_in_the_sum() -> None:
    graph, local, agents = _sixteen(updates=1)
    half = agents[0]._stage_rounds // 2
    _, stopped = small.run_without(agents, graph, gone={5: 1 + half, 9: half}, late={})
    assert stopped == {}
    for i in range(16):
        if i not in (5, 9):
            np.testing.assert_array_equal(agents[i].model, -_exact(local, range(16), np.zeros(3)))


def test_nothing_is_revealed_where_more_are_absent_than_the_noise_allows() -> None:
    graph, _, agents = _sixteen()
    releases, stopped = small.run_without(agents, graph, gone={3: 1, 7: 1, 11: 1}, late={})
    assert sorted(stopped) == [i for i in range(16) if i not in (3, 7, 11)]
    # An agent with three absent neighbours stops at once, the others where they would reveal; so none ever does.
    reveals = 1 + agents[0]._stage_rounds // 2
    assert max(release.round or 0 for release in releases) < reveals
    assert any("nothing is revealed" in str(halt) or "nothing from agents" in str(halt) for halt in stopped.values())


def test_more_dropouts_than_can_be_repaired_are_refused() -> None:
    degrees = [6] * 16
    masking.check_graph(16, degrees, 6, 0, 2)
    with pytest.raises(MaskError, match=r"dropouts = 3: .* accepted: up to 2"):
        masking.check_graph(16, degrees, 6, 0, 3)
    with pytest.raises(MaskError, match=r"dropouts = 2: with 1 colluders, taking 3 agents .* accepted: up to 1"):
        masking.check_graph(16, degrees, 3, 1, 2)


def test_numbers_beyond_the_masks_stop_no_agent_early_and_their_average_is_used_by_none() -> None:
    """One agent's gradient is beyond 2^39 / 4: a refusal of its own would show its records, so the sum is refused."""
    graph, local = small.complete(4), small.problems(4, [10] * 4)
    local[2] = replace(local[2], x=local[2].x * 1e16)
    made = small.settings(GradientDescent, graph, local, 1, aggregation="masked-sum", step=1e-9)
    agents = [GradientDescent(s) for s in made]
    before = [agent.model.copy() for agent in agents]
    releases, stopped = small.run_without(agents, graph, gone={}, late={})
    assert {release.sender for release in releases if release.round == 2} == {0, 1, 2, 3}
    assert sorted(stopped) == [0, 1, 2, 3]
    assert all("the average is not used" in str(halt) for halt in stopped.values())
    assert all(np.array_equal(agent.model, model) for agent, model in zip(agents, before, strict=True))


def test_agents_with_other_weights_stop_before_they_say_a_vector() -> None:
    graph, local = small.complete(4), small.problems(4, [10, 20, 30, 40])
    made = small.settings(GradientDescent, graph, local, 1, aggregation="masked-sum")
    made[1] = replace(made[1], learning={**made[1].learning, "weighting": "equal"})
    releases, stopped = small.run_without([GradientDescent(s) for s in made], graph, gone={}, late={})
    assert {release.round for release in releases} == {0}
    assert sorted(stopped) == [0, 1, 2, 3]
    assert all("agent 1 sums with other weights" in str(stopped[i]) for i in (0, 2, 3))


@pytest.mark.processes
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["data.agents=2"], "a masked sum of 2 agents"),
        (["privacy.colluders=2"], "privacy.colluders = 2: 2 neighbours can rebuild an own mask"),
        (["privacy.colluders=0", "privacy.dropouts=2"], "privacy.dropouts = 2: an own mask could not be rebuilt"),
        (["topology.kind=path"], "privacy.colluders = 1: taking 1 agents away cuts the mask graph"),
        (["learning.step=200"], "up to 2/L"),
        (["network.on_silent=carry-on"], 'accepted: "wait", "stop"'),
    ],
)
def test_a_masked_run_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: list[str], words: str
) -> None:
    configuration = tmp_path / "masked.toml"
    configuration.write_text(MASKED)
    overrides = [part for setting in settings for part in ("--set", setting)]
    with pytest.raises(SystemExit) as stop:
        main(["run", str(configuration), "--world", "twin", "--out", str(tmp_path / "run"), *overrides])
    assert stop.value.code == 2
    said = capsys.readouterr().err.strip()
    assert words in said
    assert "\n" not in said


MASKED = """
[data]
source = "breast-cancer"
agents = 4
[topology]
kind = "complete"
[learning]
algorithm = "gradient-descent"
loss = "logistic"
aggregation = "masked-sum"
step = 1.0
[clock]
updates = 3
"""


def test_no_two_rounds_share_a_seed() -> None:
    secret = b"s" * 32
    seeds = [masking.own_seed(secret, k) for k in range(50)] + [masking.pair_seed(secret, k) for k in range(50)]
    assert len(set(seeds)) == 100


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 9), st.data())
def test_enough_shares_rebuild_a_seed_and_fewer_do_not(secret: bytes, degree: int, data: st.DataObject) -> None:
    seed, needed = masking.own_seed(secret, 1), masking.threshold(degree)
    parts = masking.shares(seed, range(degree), needed, secret, 1)
    held = data.draw(st.permutations(sorted(parts)))[:needed]
    assert masking.rebuilt({j: parts[j] for j in held}, needed) == seed
    with pytest.raises(MaskError, match="needed"):
        masking.rebuilt({j: parts[j] for j in held[:-1]}, needed)
    assert 2 * needed > degree


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, 5, elements=st.floats(-1e9, 1e9)))
def test_fixed_point_goes_there_and_back(values: FloatArray) -> None:
    words = masking.to_words(values, 3)
    assert (np.abs(masking.from_words(words) - values) <= masking.GRID / 2 + 1e-16 * np.abs(values)).all()
    np.testing.assert_array_equal(masking.from_floats(masking.to_floats(words)), words)


def test_overflow_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(MaskError, match="overflows 64 bits"):
        masking.to_words(np.array([2.0**38]), 3)
    with pytest.raises(MaskError, match="overflows 64 bits"):
        masking.to_words(np.array([math.nan]), 3)
    masking.to_words(np.array([2.0**37]), 3)


def test_parties_that_disagree_are_refused() -> None:
    with pytest.raises(MaskError, match="agent 2 sums with other weights or another grid"):
        masking.check_agreement([-24.0, 0.5, 0.5], [-20.0, 0.5, 0.5], 2)
    with pytest.raises(MaskError, match="32-bit"):
        masking.from_floats(np.array([0.5, 1.0]))
    with pytest.raises(MaskError, match="public key"):
        masking.agreed(b"k" * 32, bytes(32))


def test_a_party_shows_a_share_or_a_pairwise_seed_but_never_both() -> None:
    for first in (True, False):
        holder = masking.Holder({1: b"share"}, {1: b"pair"})
        holder.reveal(1, present=first)
        assert holder.reveal(1, present=first)[0] == ("share" if first else "pair")
        with pytest.raises(MaskError, match="must stay secret"):
            holder.reveal(1, present=not first)
