"""Network conditions by themselves: what happens to a frame, and how often."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from coordinator_free.faults.conditions import Burst, Conditions, Delay, Line, Link, conditions, uniforms


def line(seed: int = 1, sender: int = 0, receiver: int = 1, **link: object) -> Line:
    return Conditions(seed, Link(**link), {}).line(sender, receiver)  # type: ignore[arg-type]


def lost(one: Line, frames: int = 4000, copy: int = 0) -> list[int]:
    return [k for k in range(frames) if one.pass_on("release", k, copy, 0.0, 100).lost is not None]


def test_without_conditions_every_frame_passes_at_once() -> None:
    assert conditions({}, 1).calm
    assert line().pass_on("release", 0, 0, 0.0, 1 << 30).delays == (0.0,)


def test_the_same_copies_are_lost_whatever_the_order_and_the_time() -> None:
    forward = lost(line(loss=0.2))
    again = line(loss=0.2)
    backward = [k for k in reversed(range(4000)) if again.pass_on("release", k, 0, 7.0 * k, 9).lost is not None]
    assert forward == backward[::-1]
    assert abs(len(forward) - 800) < 5 * np.sqrt(4000 * 0.2 * 0.8)


def test_seed_direction_and_copy_each_have_luck_of_their_own() -> None:
    first = set(lost(line(loss=0.2)))
    others = (line(2, loss=0.2), line(1, 1, 0, loss=0.2), line(1, 0, 2, loss=0.2))
    chances = [set(lost(other)) for other in others] + [set(lost(line(loss=0.2), copy=1))]
    for other in chances:
        # Independent: one fifth of one fifth is lost in both.
        assert abs(len(first & other) - 160) < 5 * np.sqrt(160)


def test_the_draws_are_uniform() -> None:
    drawn = np.array([uniforms(3, 0, 1, "release", k, 0) for k in range(2000)])
    assert ((drawn >= 0) & (drawn < 1)).all()
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=5 / np.sqrt(12 * 2000))
    off_diagonal = np.corrcoef(drawn.T)[~np.eye(8, dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(2000)


@pytest.mark.parametrize(
    ("delay", "mean", "deviation"),
    [
        (Delay("constant", mean=0.02), 0.02, 0.0),
        (Delay("uniform", low=0.01, high=0.03), 0.02, 0.02 / np.sqrt(12)),
        (Delay("normal", mean=0.02, deviation=0.002), 0.02, 0.002),
        (Delay("exponential", mean=0.02), 0.02, 0.02),
        (Delay("constant", mean=0.02, jitter=0.01), 0.02, 0.02 / np.sqrt(12)),
    ],
)
def test_delays_follow_their_law(delay: Delay, mean: float, deviation: float) -> None:
    one = line(delay=delay)
    drawn = np.array([one.pass_on("release", k, 0, 0.0, 100).delays[0] for k in range(4000)])
    assert (drawn >= 0).all()
    assert drawn.mean() == pytest.approx(mean, abs=5 * max(deviation, 1e-12) / np.sqrt(4000) + 1e-12)
    assert drawn.std() == pytest.approx(deviation, rel=0.1, abs=1e-12)


def test_a_duplicate_arrives_on_its_own() -> None:
    one = line(duplication=0.05, delay=Delay("exponential", mean=0.02))
    delays = [one.pass_on("release", k, 0, 0.0, 100).delays for k in range(4000)]
    twice = [pair for pair in delays if len(pair) == 2]
    assert abs(len(twice) - 200) < 5 * np.sqrt(200)
    assert all(first != second for first, second in twice)


def test_reordering_lets_later_frames_overtake() -> None:
    one = line(reordering=0.1, reordering_delay=0.05)
    arrivals = [(0.001 * k + one.pass_on("release", k, 0, 0.001 * k, 100).delays[0], k) for k in range(1000)]
    order = [k for _, k in sorted(arrivals)]
    assert sum(a > b for a, b in itertools.pairwise(order)) > 30
    assert sorted(order) == list(range(1000))


def test_bursts_lose_neighbouring_frames_together() -> None:
    one = line(burst=Burst(every=1.0, lasting=0.25))
    gone = np.array([one.pass_on("release", k, 0, 0.01 * k, 100).lost == "burst" for k in range(100_000)])
    assert gone.mean() == pytest.approx(0.2, abs=0.03)
    changes = int(np.count_nonzero(gone[1:] != gone[:-1]))
    assert changes < 0.02 * gone.size, "apart, a fifth of all would change 32 times in a hundred"
    times = [0.5, 0.25, 30.0, 3.0]
    assert [one.bad(t) for t in times] == [line(burst=Burst(every=1.0, lasting=0.25)).bad(t) for t in times]


def test_a_bucket_passes_a_burst_at_once_then_its_rate_and_drops_what_would_queue_too_long() -> None:
    one = line(bandwidth=1000.0, bucket=500.0, queue=1.0)
    fates = [one.pass_on("release", k, 0, 0.0, 100) for k in range(30)]
    waits = [fate.delays[0] for fate in fates if fate.lost is None]
    np.testing.assert_allclose(waits, [0.0] * 5 + [0.1 * k for k in range(1, 12)], atol=1e-9)
    assert {fate.lost for fate in fates[16:]} == {"queue"}
    assert one.pass_on("release", 30, 0, 60.0, 100).delays == (0.0,), "the bucket fills again"


def test_an_empty_link_passes_a_frame_of_any_size() -> None:
    one = line(bandwidth=10.0, bucket=1.0, queue=0.5)
    assert one.pass_on("release", 0, 0, 0.0, 1000).lost is None


def test_single_links_have_their_own_conditions_over_the_defaults() -> None:
    found = conditions({"loss": 0.1, "delay": {"mean": 0.02}, "link": [{"from": 2, "to": 5, "loss": 0.9}]}, 1)
    assert found.line(2, 5).link == Link(loss=0.9, delay=Delay(mean=0.02))
    assert found.line(5, 2).link == Link(loss=0.1, delay=Delay(mean=0.02))
