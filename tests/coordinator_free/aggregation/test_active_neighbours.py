"""Masked sums against a neighbour that lies: about its key, and about what it passes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from coordinator_free.agent import Halt, Setting
from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.aggregation import masking
from coordinator_free.aggregation.flood import Flood
from coordinator_free.aggregation.masked_sum import KEY_HALVES, MaskedSum
from coordinator_free.aggregation.masking import MaskError
from coordinator_free.release import FloatArray, Release
from tests.helpers import averages_networks as small
from topology import families
from topology.network import Network

VICTIM, REPEATED, LIAR = 2, 1, 3
RING = families.build("ring", 5, 0)
P = 3


def ring_settings(updates: int = 1) -> list[Setting]:
    local = small.problems(5, [20, 30, 40, 30, 20])
    return small.settings(GradientDescent, RING, local, updates, aggregation="masked-sum", colluders=1)


def told(
    agents: Sequence[Aggregating], graph: Network, lie: Callable[[Release, int], Release]
) -> tuple[list[Release], dict[int, Halt]]:
    """Run in rounds; ``lie(release, receiver)`` is what the receiver gets. What was sent, and why agents stopped."""
    sent: list[Release] = []
    stopped: dict[int, Halt] = {}
    said = {i: release for i, agent in enumerate(agents) if (release := agent.start()) is not None}
    while said:
        sent += said.values()
        ahead = {}
        for i, agent in enumerate(agents):
            if i in stopped:
                continue
            try:
                for j in graph.neighbours(i):
                    if j in said:
                        agent.receive(lie(said[j], i))
                again = agent.wake()
            except Halt as halt:
                stopped[i] = halt
                continue
            if again is not None:
                ahead[i] = again
        said = ahead
    return sent, stopped


def changed(release: Release, vector: FloatArray) -> Release:
    return Release(release.sender, release.index, vector, release.used, release.round)


def repeats_the_key(victims_other_neighbour: FloatArray) -> Callable[[Release, int], Release]:
    def lie(release: Release, receiver: int) -> Release:
        if (release.sender, release.round, receiver) != (LIAR, 0, VICTIM):
            return release
        vector = release.vector.copy()
        vector[1 : 1 + KEY_HALVES] = victims_other_neighbour
        return changed(release, vector)

    return lie


def test_a_neighbour_that_repeats_anothers_key_is_refused_before_anything_is_masked() -> None:
    agents = [GradientDescent(setting) for setting in ring_settings()]
    first = agents[REPEATED].start()
    assert first is not None
    agents = [GradientDescent(setting) for setting in ring_settings()]
    sent, stopped = told(agents, RING, repeats_the_key(first.vector[1 : 1 + KEY_HALVES]))
    assert [release.round for release in sent if release.sender == VICTIM] == [0]
    assert "have the same public key" in str(stopped[VICTIM])
    assert all(not agent.model.any() for agent in agents)


def test_were_equal_keys_accepted_the_masks_would_still_not_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eavesdropper takes off what is opened, the own mask: the victim's numbers must not be what is left."""
    monkeypatch.setattr(masking, "check_key", lambda *_: None, raising=False)
    first = GradientDescent(ring_settings()[REPEATED]).start()
    assert first is not None
    agents = [GradientDescent(setting) for setting in ring_settings()]
    sent, _ = told(agents, RING, repeats_the_key(first.vector[1 : 1 + KEY_HALVES]))
    masked = next(r for r in sent if r.sender == VICTIM and r.round == 1)
    aggregator = agents[VICTIM]._aggregator
    assert isinstance(aggregator, MaskedSum)
    own = masking.own_seed(aggregator._secret, 0)
    left = masking.from_floats(masked.vector[1 : 1 + 2 * P]) - masking.expanded(own, P)
    exact = masking.to_words(agents[VICTIM]._shares[VICTIM] * agents[VICTIM]._problem.gradient(np.zeros(P)), 5)
    assert (left != exact).all()


def key_of(agent: GradientDescent) -> FloatArray:
    release = agent.start()
    assert release is not None
    return release.vector.copy()


def hears(victim: GradientDescent, sender: int, key: bytes) -> None:
    vector = key_of(GradientDescent(ring_settings()[sender]))
    vector[1 : 1 + KEY_HALVES] = np.frombuffer(key, dtype="<u4")
    victim.receive(Release(sender, 0, vector, (), round=0))


FIELD = 2**255 - 19
SMALL_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    FIELD - 1,
]
SECOND_NAMES = [FIELD, FIELD + 1, *(point + 2**255 for point in SMALL_ORDER), 2**255 + 9]


@pytest.mark.parametrize("point", [*SMALL_ORDER, *SECOND_NAMES])
def test_points_of_small_order_and_second_names_of_points_are_refused(point: int) -> None:
    victim = GradientDescent(ring_settings()[VICTIM])
    victim.start()
    with pytest.raises(MaskError, match="public key"):
        hears(victim, LIAR, point.to_bytes(32, "little"))


def test_an_agents_own_key_sent_back_is_refused() -> None:
    victim = GradientDescent(ring_settings()[VICTIM])
    own = key_of(victim)[1 : 1 + KEY_HALVES].astype("<u4").tobytes()
    with pytest.raises(MaskError, match="have the same public key"):
        hears(victim, LIAR, own)


def test_every_seed_belongs_to_one_run_and_one_edge() -> None:
    """The same agreed secret: another run, another end or another key makes another seed; the order of ends none."""
    ends = {1: b"a" * 32, 2: b"b" * 32}
    shared = b"s" * 32
    seeds = {
        masking.edge_secret(shared, b"run", ends),
        masking.edge_secret(shared, b"other", ends),
        masking.edge_secret(shared, b"run", {1: b"a" * 32, 3: b"b" * 32}),
        masking.edge_secret(shared, b"run", {1: b"b" * 32, 2: b"a" * 32}),
        masking.edge_secret(shared, b"run", {1: b"a" * 32, 2: b"c" * 32}),
        masking.run_secret(shared, b"run", 1),
        masking.run_secret(shared, b"run", 2),
        masking.run_secret(shared, b"other", 1),
    }
    assert len(seeds) == 8
    assert masking.edge_secret(shared, b"run", dict(reversed(ends.items()))) in seeds


def test_runs_that_were_dealt_before_derive_their_masks_as_they_did() -> None:
    """Release 1 of agent 0 without a run's id, as it was before: its first words, hashed."""
    import hashlib

    made = ring_settings()
    for setting in made:
        setting.learning.pop("masks", None)  # type: ignore[attr-defined]
    sent, stopped = told([GradientDescent(setting) for setting in made], RING, lambda release, _: release)
    assert stopped == {}
    digest = hashlib.sha256(b"".join(release.vector.tobytes() for release in sent)).hexdigest()
    assert digest == "4bb80cfb2386c56dac6170560d3fd9391c1a72d94c703a7da19a1e672865de66"


# -- what is passed on ------------------------------------------------------------------------------------------------


def test_a_key_that_does_not_fit_is_found_in_the_sum_and_no_agent_uses_it() -> None:
    """The liar tells its victim a key that no agent holds: masks do not cancel, and the sum is a random number."""

    def lie(release: Release, receiver: int) -> Release:
        if (release.sender, release.round, receiver) != (LIAR, 0, VICTIM):
            return release
        vector = release.vector.copy()
        vector[1 : 1 + KEY_HALVES] = np.frombuffer(masking.public_key(b"k" * 32), dtype="<u4")
        return changed(release, vector)

    agents = [GradientDescent(setting) for setting in ring_settings()]
    _, stopped = told(agents, RING, lie)
    assert sorted(stopped) == list(range(5))
    assert all("the average is not used" in str(halt) or "no sum is made" in str(halt) for halt in stopped.values())
    assert all(not agent.model.any() for agent in agents)


def private_sums(scale: float) -> list[Setting]:
    local = small.problems(5, [20, 30, 40, 30, 20])
    given = {"mechanism": "gaussian", "multipliers": np.array([scale]), "clip": 0.5, "observer": "sum"}
    return small.settings(GradientDescent, small.complete(5), local, 1, aggregation="masked-sum", colluders=1, **given)


def test_with_noise_a_sum_is_held_to_the_clip_and_the_noise() -> None:
    """One agent adds 100 to each of its numbers, which is far above clip and noise, and far below 2^31."""
    agents = [GradientDescent(setting) for setting in private_sums(3.0)]
    agents[LIAR]._hidden = lambda stage: np.full(P, 100.0)  # type: ignore[method-assign]
    _, stopped = told(agents, small.complete(5), lambda release, _: release)
    assert sorted(stopped) == list(range(5))
    honest = [GradientDescent(setting) for setting in private_sums(3.0)]
    _, stopped = told(honest, small.complete(5), lambda release, _: release)
    assert stopped == {}


def test_a_masked_vector_in_two_forms_is_in_no_sum_though_all_agents_reveal() -> None:
    """Where it arrives both ways the sum is not made; agents that were told one form only find a random number."""

    def lie(release: Release, receiver: int) -> Release:
        if (release.sender, receiver) != (LIAR, VICTIM) or release.vector[0] != 4 or release.round == 0:
            return release
        vector = release.vector.copy()
        vector[1 : 1 + 2 * P] = np.arange(2 * P)
        return changed(release, vector)

    agents = [GradientDescent(setting) for setting in ring_settings()]
    sent, stopped = told(agents, RING, lie)
    assert VICTIM in stopped
    assert not agents[VICTIM].model.any()
    last = agents[0]._total_rounds - 1
    assert {release.sender for release in sent if release.round == last} == set(range(5)), "nobody is made absent"


@pytest.mark.parametrize("message", [[7.0, 1.0], [-1.0, 1.0], [0.5, 1.0], [1.0, 0.5], [1.0, -3.0], [1.0, 2.0**32]])
def test_a_message_that_no_honest_neighbour_sends_is_passed_over(message: list[float]) -> None:
    agents = [GradientDescent(setting) for setting in ring_settings()]
    told(agents, RING, lambda release, _: release)
    aggregator = agents[VICTIM]._aggregator
    assert isinstance(aggregator, MaskedSum)
    aggregator.begin(1, np.zeros(P))
    aggregator.receive(np.append(message, np.zeros(aggregator.width - 2)))
    assert aggregator._flood.received == [VICTIM]


def test_a_liar_that_passes_nothing_on_keeps_no_honest_agent_from_the_sum() -> None:
    """With dropouts the flood is long enough to go round the colluders too."""
    graph = families.build("random-regular", 16, 2, degree=6)
    local = small.problems(16, [10 + i for i in range(16)])
    given = {"aggregation": "masked-sum", "dropouts": 1, "colluders": 1}
    agents = [GradientDescent(setting) for setting in small.settings(GradientDescent, graph, local, 1, **given)]
    half = agents[0]._stage_rounds // 2
    firsts: dict[int, Release] = {}

    def lie(release: Release, _: int) -> Release:
        if release.sender != 0 or release.round == 0:
            return release
        assert release.round is not None
        first = firsts.setdefault((release.round - 1) // half, release)
        return changed(release, first.vector)

    _, stopped = told(agents, graph, lie)
    assert stopped == {}
    assert all((agent.model == agents[1].model).all() for agent in agents[1:])


def test_a_neighbour_replaces_nobodys_vector_in_a_flood() -> None:
    """It tells an agent another vector in the agent's own name: the agent keeps its own, and makes no average."""
    local = small.problems(5, [20, 30, 40, 30, 20])
    agents = [GradientDescent(s) for s in small.settings(GradientDescent, RING, local, 1, aggregation="flood")]
    schedule = agents[0]._setting.learning["schedule"]
    step, origin = next((t, o) for t, said in enumerate(schedule) for o in [said[LIAR]] if o not in (LIAR,))
    own = agents[origin]._problem.gradient(np.zeros(P))
    sent, stopped = told(
        agents,
        RING,
        lambda r, _: changed(r, np.full(P, 666.0)) if (r.sender, r.round) == (LIAR, step) else r,
    )
    assert origin in stopped
    assert "more than one form" in str(stopped[origin])
    for release in sent:
        if release.sender == origin and schedule[release.round or 0][origin] == origin:
            np.testing.assert_array_equal(release.vector, own)


def test_a_flood_that_is_restored_still_finds_a_second_form() -> None:
    flood = Flood(0, [[0, 1, 2], [1, 2, 1]], 2)
    flood.begin(np.ones(2))
    flood.receive(0, 1, np.full(2, 3.0))
    again = Flood(0, [[0, 1, 2], [1, 2, 1]], 2)
    again.restore(flood.snapshot())
    again.receive(1, 2, np.full(2, 4.0))
    assert again.disputed == {1}
    np.testing.assert_array_equal(again.table[1], [3.0, 3.0])


@pytest.mark.parametrize("weight", [-1e300, -3.0, 0.0, 1e6])
def test_a_push_sum_with_a_weight_that_cannot_be_makes_no_average(weight: float) -> None:
    """A liar sends a negative, an empty or a huge weight to its victim."""
    local = small.problems(5, [20, 30, 40, 30, 20])
    given = {"aggregation": "push-sum", "push_rounds": 40}
    agents = [GradientDescent(s) for s in small.settings(GradientDescent, RING, local, 1, **given)]

    def lie(release: Release, receiver: int) -> Release:
        if (release.sender, receiver) != (LIAR, VICTIM):
            return release
        return changed(release, np.append(np.full(P, 1e6), weight))

    _, stopped = told(agents, RING, lie)
    for i, agent in enumerate(agents):
        assert np.isfinite(agent.model).all()
        assert i not in stopped or not agent.model.any()
    assert weight == 0.0 or "push-sum has a weight" in str(stopped[VICTIM])


def test_agents_without_records_wait_for_a_weight_in_push_sum() -> None:
    local = small.problems(5, [50, 0, 0, 0, 0])
    given = {"aggregation": "push-sum", "push_rounds": 60}
    agents = [GradientDescent(s) for s in small.settings(GradientDescent, RING, local, 1, **given)]
    _, stopped = told(agents, RING, lambda release, _: release)
    assert stopped == {}
    short = [GradientDescent(s) for s in small.settings(GradientDescent, RING, local, 1, **{**given, "push_rounds": 1})]
    _, stopped = told(short, RING, lambda release, _: release)
    assert sorted(stopped) == [2, 3]
    assert all("raise learning.push_rounds" in str(halt) for halt in stopped.values())


@pytest.mark.parametrize("inventions", [False, True])
def test_no_lie_makes_honest_agents_absent_so_none_of_their_pairwise_seeds_is_revealed(inventions: bool) -> None:
    """One colluder, one dropout: the liar tells each neighbour another vector, also in the name of other agents."""
    graph = families.build("random-regular", 16, 2, degree=6)
    local = small.problems(16, [10 + i for i in range(16)])
    given = {"aggregation": "masked-sum", "dropouts": 1, "colluders": 1}
    agents = [GradientDescent(setting) for setting in small.settings(GradientDescent, graph, local, 1, **given)]
    half, liar = agents[0]._stage_rounds // 2, 5
    random = np.random.default_rng(0)

    def lie(release: Release, receiver: int) -> Release:
        if release.sender != liar or not release.round or release.round > half:
            return release
        vector = np.floor(random.random(release.vector.size) * 2.0**32)
        vector[0] = float(random.integers(16)) if inventions else float(liar)
        return changed(release, vector)

    sent, stopped = told(agents, graph, lie)
    honest = set(range(16)) - {liar}
    reveals = {release.sender: int(release.vector[1]) for release in sent if release.round == 1 + half}
    assert set(reveals) >= honest
    assert all(reveals[i] >> j & 1 for i in honest for j in honest)
    assert honest & set(stopped), "and the sum that was spoilt is not used"
    assert all(not agents[i].model.any() for i in stopped)
