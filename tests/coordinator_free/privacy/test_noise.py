"""The streams that noise comes from, and the samplers. Seeds are fixed: a statistical test has one outcome.

Each such test would fail for a right sampler with the probability that its threshold names.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.noise import (
    Start,
    Stream,
    Streams,
    WordArray,
    discrete_laplace,
    exponential,
    secret_of,
    simulation_secret,
    standard_normal,
)

SECRET = bytes(range(32))
RARE = 1e-4


class GivenWords(Stream):
    """Hands out the words it was given, in order."""

    def __init__(self, *words: int) -> None:
        super().__init__(SECRET, 0)
        self._given = list(words)

    def words(self, count: int) -> WordArray:
        taken, self._given = self._given[:count], self._given[count:]
        return np.array(taken, dtype=np.uint64)


def test_a_stream_is_shake_of_domain_length_secret_and_index() -> None:
    digest = hashlib.shake_256(
        b"sottovoce release noise 1\x00" + (32).to_bytes(8, "big") + SECRET + (7).to_bytes(8, "big")
    ).digest(24)
    expected = [int.from_bytes(digest[k : k + 8], "little") for k in (0, 8, 16)]
    assert Stream(SECRET, 7).words(3).tolist() == expected


def test_each_start_draws_from_a_secret_of_its_own() -> None:
    starts = (Start(0, b"a" * 32), Start(4, b"b" * 32), Start(4, b"c" * 32))
    label = b"sottovoce start 1\x00" + len(SECRET).to_bytes(8, "big") + SECRET
    for index, nonce in ((0, b"a"), (3, b"a"), (4, b"c"), (9, b"c")):
        assert secret_of(SECRET, starts, index) == hashlib.shake_256(label + nonce * 32).digest(32)
    assert secret_of(SECRET, (), 3) == SECRET
    assert secret_of(SECRET, starts[1:], 3) == SECRET
    of = mechanism("laplace", 1.0, 1.0, 3)
    ahead = Streams(SECRET, starts)
    for index in range(8):
        alone = of.noise(3, Stream(secret_of(SECRET, starts, index), index))
        assert of.noise(3, ahead[index]).tobytes() == alone.tobytes()


@given(
    st.tuples(st.binary(min_size=16, max_size=40), st.integers(0, 2**64 - 1)),
    st.tuples(st.binary(min_size=16, max_size=40), st.integers(0, 2**64 - 1)),
)
def test_two_secrets_or_two_indices_share_no_noise(one: tuple[bytes, int], other: tuple[bytes, int]) -> None:
    same = Stream(*one).words(8).tolist() == Stream(*other).words(8).tolist()
    assert same == (one == other)


def test_a_stream_hands_nothing_out_twice() -> None:
    whole = Stream(SECRET, 3).words(100).tolist()
    stream = Stream(SECRET, 3)
    parts = [word for count in (1, 30, 0, 69) for word in stream.words(count)]
    assert parts == whole
    assert len(set(whole)) == 100


@given(
    # In rising order, as agents ask, and in any other.
    st.one_of(st.integers(1, 40).map(lambda n: list(range(n))), st.lists(st.integers(0, 60), min_size=1, max_size=40)),
    st.sampled_from(["gaussian", "laplace", "gamma-norm"]),
    st.sampled_from([1, 2, 7, 100, 3000]),
)
@settings(deadline=None, max_examples=60)
def test_noise_that_was_drawn_ahead_is_the_noise_of_its_index(indices: list[int], family: str, dimension: int) -> None:
    ahead = Streams(SECRET)
    for step, index in enumerate(indices):
        of = mechanism(family, 1.0, 1.0 + (step // 5) * 0.5, dimension)  # now and then another scale
        drawn = of.noise(dimension, ahead[index])
        assert drawn.tobytes() == of.noise(dimension, Stream(SECRET, index)).tobytes()
        assert not np.signbit(drawn[drawn == 0]).any()


def test_draws_after_the_first_go_on_where_it_ended() -> None:
    ahead, plain = Streams(SECRET), [Stream(SECRET, index) for index in range(3)]
    for index in range(3):
        stream = ahead[index]
        for sampler, count in ((exponential, 5), (standard_normal, 9), (exponential, 2)):
            assert sampler(stream, count).tolist() == sampler(plain[index], count).tolist()


@pytest.mark.parametrize(("secret", "index"), [(b"short", 0), (SECRET, -1), (SECRET, 2**64)])
def test_a_stream_refuses_what_it_cannot_keep_apart(secret: bytes, index: int) -> None:
    with pytest.raises(ValueError, match=r"secret has|index ="):
        Stream(secret, index)


def test_simulation_secrets_differ_by_seed_and_agent() -> None:
    secrets = {simulation_secret(seed, agent) for seed in (0, 1, 11) for agent in (0, 1, 11, 111)}
    assert len(secrets) == 12
    assert simulation_secret(1, 11) != simulation_secret(11, 1)


def test_noise_bits_are_balanced() -> None:
    words = np.concatenate([Stream(SECRET, index).words(64) for index in range(200)])
    ones = np.unpackbits(words.view(np.uint8)).sum()
    assert stats.binomtest(int(ones), words.size * 64).pvalue > RARE


# --- the exponential -------------------------------------------------------------------------------------------------


def test_the_exponential_goes_on_where_its_top_bits_are_zero() -> None:
    mantissa = 1 << 51  # 1 + U = 1.5
    rest = math.log(2.0) - math.log(1.5)
    # Top 12 bits zero: 12 halvings, then the zeros of further words: none, or 64 and then 2.
    assert exponential(GivenWords(mantissa, 1), 1)[0] == pytest.approx(12 * math.log(2.0) + rest, rel=1e-15)
    assert exponential(GivenWords(mantissa, 0, 4), 1)[0] == pytest.approx(78 * math.log(2.0) + rest, rel=1e-15)


def test_the_exponential_has_fine_steps_however_far_out() -> None:
    # Neighbouring random bits at 60 halvings: on a grid of 2^-20 at scale 1 no step may be skipped.
    rng = np.random.default_rng(5)
    for low in rng.integers(0, (1 << 52) - 1, 200):
        far = [exponential(GivenWords(int(low) + k, 1 << 48), 1)[0] for k in (0, 1)]
        assert far[0] > 41.0
        assert abs(far[0] - far[1]) * 2.0**20 < 1e-7


def test_the_exponential_is_exponential() -> None:
    drawn = np.concatenate([exponential(Stream(SECRET, index), 1000) for index in range(200)])
    assert stats.kstest(drawn, "expon").pvalue > RARE
    tail = int((drawn > 9.0).sum())  # beyond the 8.3 that twelve halvings reach
    assert stats.binomtest(tail, drawn.size, math.exp(-9.0)).pvalue > RARE
    assert stats.kstest(drawn * 0.98, "expon").pvalue < RARE, "the test sees two per cent"


# --- the samplers ----------------------------------------------------------------------------------------------------


def drawn_steps(steps: float, count: int = 200) -> np.ndarray:
    return np.concatenate([discrete_laplace(Stream(SECRET, index), 1000, steps) for index in range(count)])


def law(steps: float, k: np.ndarray) -> np.ndarray:
    q = math.exp(-1.0 / steps)
    return (1.0 - q) / (1.0 + q) * q ** np.abs(k)


def misfit(drawn: np.ndarray, steps: float) -> float:
    """p-value of a chi-squared test of the draws against the law, tails lumped."""
    edge = int(4 * steps)
    k = np.arange(-edge, edge + 1)
    seen = np.array([(drawn == value).sum() for value in k])
    expected = law(steps, k) * drawn.size
    outside = drawn.size - expected.sum()
    return float(stats.chisquare(np.append(seen, drawn.size - seen.sum()), np.append(expected, outside)).pvalue)


@pytest.mark.parametrize("steps", [0.4, 1.0, 3.7])
def test_discrete_laplace_has_its_law(steps: float) -> None:
    drawn = drawn_steps(steps)
    assert np.array_equal(drawn, np.rint(drawn))
    assert misfit(drawn, steps) > RARE
    assert misfit(drawn, steps * 1.03) < RARE, "the test sees three per cent"


def test_discrete_laplace_on_a_fine_grid_is_laplace() -> None:
    drawn = drawn_steps(2.0**20)
    assert stats.kstest(drawn / 2.0**20, "laplace").pvalue > RARE
    assert stats.kstest(drawn / 2.0**19, "laplace").pvalue < RARE


@pytest.mark.parametrize("dimension", [1, 2, 7, 1000])
def test_standard_normal_is_normal_and_independent(dimension: int) -> None:
    drawn = np.array(
        [standard_normal(Stream(SECRET, index), dimension) for index in range(200_000 // (dimension + 60))]
    )
    assert stats.kstest(drawn.ravel(), "norm").pvalue > RARE
    assert stats.kstest(drawn.ravel() * 1.2, "norm").pvalue < RARE, "the test sees a wrong scale"
    first, last = drawn[:, 0], drawn[:, -1]
    if dimension > 1:
        for one, other in ((first, last), (first**2, last**2)):
            assert stats.pearsonr(one, other).pvalue > RARE


def test_both_halves_of_a_normal_pair_are_independent_even_in_size() -> None:
    drawn = standard_normal(Stream(SECRET, 1), 100_000)
    pairs = drawn.reshape(2, -1)
    for power in (1, 2):
        assert stats.pearsonr(pairs[0] ** power, pairs[1] ** power).pvalue > RARE
