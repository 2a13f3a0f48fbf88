"""The randomness of releases: a cryptographic stream for each (secret, index), and samplers that miss nothing.

Rules that hold here:
- A stream is a function of (a secret, the release's index): SHAKE-256 over a domain tag, the length of the secret, the
  secret, and the index. Different pairs never share input, so they never share noise.
- Each start of an agent's process has a secret of its own: SHAKE-256 over another domain tag, the length of the agent's
  secret, that secret, and a nonce that the start drew. So two copies of one agent never share noise for what they
  compute after they were copied.
- Within a stream nothing is handed out twice.
- Samplers return whole numbers of grid steps as float64, exact below 2^53. Where a float64 logarithm of one uniform
  number would skip grid points in the tail, the exponential is put together from an unbounded whole number of ln 2 and
  a remainder with 52 random bits.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
WordArray = npt.NDArray[np.uint64]

_DOMAIN = b"sottovoce release noise 1\x00"
_START_DOMAIN = b"sottovoce start 1\x00"
_SIMULATION_DOMAIN = b"sottovoce simulation secret 1\x00"
_PROFILE_DOMAIN = b"sottovoce profile secret 1\x00"
SECRET_BYTES = 32
"""Length of a secret that is drawn from the operating system."""
NONCE_BYTES = 32
"""Length of the nonce of a start, which is drawn from the operating system."""

_TOGETHER = 16
"""Releases whose first draws are made together, at most."""
_LARGEST_DRAW = 4096
"""Numbers that are drawn together, at most."""

_LN2 = math.log(2.0)
_MANTISSA = np.uint64((1 << 52) - 1)
_ONE = np.uint64(0x3FF << 52)  # the bits of 1.0
_TOP = np.uint64(52)


def _zeros(word: int, width: int) -> int:
    """Trailing zeros of a word of ``width`` bits."""
    return (word & -word).bit_length() - 1 if word else width


_HALVINGS = np.array([(1 + _zeros(top, 12)) * _LN2 for top in range(1 << 12)])
"""(K + 1) ln 2 for each value of a word's top 12 bits, K the number of their trailing zeros: geometric(1/2)."""


class Start(NamedTuple):
    """One start of an agent's process: releases from index ``first`` on are made under ``nonce``."""

    first: int
    nonce: bytes


def secret_of(secret: bytes, starts: Sequence[Start], index: int) -> bytes:
    """The secret of the start that release ``index`` is made under: the last of ``starts`` that is not after it.

    Without such a start (a simulation, or a run from before there were starts) it is the agent's own.
    """
    for start in reversed(starts):
        if start.first <= index:
            return _secret_of_start(secret, start.nonce)
    return secret


@functools.lru_cache(maxsize=16)  # the same for each release of a start
def _secret_of_start(secret: bytes, nonce: bytes) -> bytes:
    hashed = hashlib.shake_256(_START_DOMAIN + len(secret).to_bytes(8, "big") + secret + nonce)
    return hashed.digest(SECRET_BYTES)


class Stream:
    """The random words of one release.

    Parameters
    ----------
    secret
        At least 16 bytes, known to no other process: see `secret_of`.
    index
        The release's index, 0 to 2^64 - 1.

    Raises
    ------
    ValueError
        For anything else.
    """

    __slots__ = ("_ahead", "_drawn", "_hash", "_ready")

    def __init__(self, secret: bytes, index: int, ahead: _Ahead | None = None) -> None:
        if len(secret) < 16:
            raise ValueError(f"secret has {len(secret)} bytes; at least 16 are needed")
        if not 0 <= index < 1 << 64:
            raise ValueError(f"index = {index}; accepted: 0 to 2^64 - 1")
        self._hash = hashlib.shake_256(_DOMAIN + len(secret).to_bytes(8, "big") + secret + index.to_bytes(8, "big"))
        self._drawn = 0
        self._ahead = ahead
        self._ready: tuple[_Sampler, int, FloatArray] | None = None

    def words(self, count: int) -> WordArray:
        """The next ``count`` words of 64 independent uniform bits; shape (count,)."""
        start = self._drawn
        self._drawn = start + 8 * count
        # The digest has no cursor: a second draw hashes from the start again and drops what was handed out.
        return np.frombuffer(self._hash.digest(self._drawn), dtype="<u8", offset=start)

    def sample(self, sampler: _Sampler, count: int) -> FloatArray:
        """The next ``count`` draws of ``sampler``; shape (count,)."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead(self, sampler, count)
        ready, self._ready = self._ready, None
        if ready is not None:
            if ready[0] == sampler and ready[1] == count:
                return ready[2]
            self._drawn = 0  # something else was made ready, and nothing of it was handed out
        drawn: FloatArray = sampler([self], count)[0]
        return drawn


_Sampler = Callable[[Sequence[Stream], int], FloatArray]
"""One row of ``count`` draws for each stream, the same whatever other streams are there."""
_Ahead = Callable[[Stream, _Sampler, int], None]


class Streams:
    """The streams of one agent's releases, for asking in rising order.

    The first draws of several releases to come are made together: arrays of a hundred numbers cost mostly the calls.
    Each is the same as from a `Stream` of its own.
    """

    def __init__(self, secret: bytes, starts: Sequence[Start] = ()) -> None:
        self._secret = secret
        self._starts = starts
        self._made: dict[int, Stream] = {}

    def __getitem__(self, index: int) -> Stream:
        stream = self._made.pop(index, None)
        if stream is None:
            self._made.clear()
            stream = Stream(self._secret_of(index), index, functools.partial(self._make_ready, index))
        return stream

    def _make_ready(self, index: int, stream: Stream, sampler: _Sampler, count: int) -> None:
        together = min(_TOGETHER, _LARGEST_DRAW // max(1, count))
        if together < 2:
            return
        later = range(index + 1, min(index + together, 1 << 64))
        self._made = {k: Stream(self._secret_of(k), k) for k in later}
        streams = [stream, *self._made.values()]
        for each, row in zip(streams, sampler(streams, count), strict=True):
            each._ready = (sampler, count, row)

    def _secret_of(self, index: int) -> bytes:
        return secret_of(self._secret, self._starts, index)


def simulation_secret(seed: int, agent: int) -> bytes:
    """The secret of ``agent`` in a run labelled ``simulation``: the holder of the seed can compute the noise."""
    return hashlib.sha256(_SIMULATION_DOMAIN + f"{seed}/{agent}".encode()).digest()


def profile_secret(secret: bytes) -> bytes:
    """The secret of an agent's profile, which is released before its releases: none of these shares its noise."""
    return hashlib.shake_256(_PROFILE_DOMAIN + len(secret).to_bytes(8, "big") + secret).digest(SECRET_BYTES)


def _uniform(words: WordArray) -> FloatArray:
    """1 + U, U uniform on [0, 1) with the 52 low bits of each word."""
    bits = words & _MANTISSA
    bits |= _ONE
    return bits.view(np.float64)


def _exponential(words: WordArray, streams: Sequence[Stream]) -> FloatArray:
    """One standard exponential variable for each word, a row for each stream.

    A row's stream goes on where a word's top bits are all zero.
    """
    top = words >> _TOP
    value: FloatArray = _HALVINGS.take(top.view(np.int64))
    value -= np.log(_uniform(words))
    if np.count_nonzero(top) < top.size:
        for row in np.flatnonzero((top == 0).any(axis=1)).tolist():
            open_ended = np.flatnonzero(top[row] == 0)
            while open_ended.size:
                more = streams[row].words(open_ended.size)
                value[row, open_ended] += [_zeros(int(word), 64) * _LN2 for word in more]
                open_ended = open_ended[more == 0]
    return value


def _words(streams: Sequence[Stream], count: int) -> WordArray:
    """``count`` words of each stream; shape (streams, count)."""
    if len(streams) == 1:
        return streams[0].words(count)[None, :]
    return np.stack([stream.words(count) for stream in streams])


def _exponentials(streams: Sequence[Stream], count: int) -> FloatArray:
    return _exponential(_words(streams, count), streams)


def exponential(stream: Stream, count: int) -> FloatArray:
    """``count`` standard exponential variables E = K ln 2 + F; shape (count,).

    K is geometric(1/2) and unbounded. F = ln 2 - log(1 + U), U of 52 bits, is exponential truncated to (0, ln 2]. So E
    has a fine step around every value however large: every quantile's place is off by at most (2 + E) 2^-52.
    """
    return stream.sample(_exponentials, count)


def discrete_laplace(stream: Stream, count: int, steps: float) -> FloatArray:
    """``count`` whole numbers k with probability (1 - q)/(1 + q) q^|k|, q = exp(-1/steps); shape (count,).

    The difference of two geometric variables floor(steps E), P(floor(steps E) >= g) = exp(-g/steps). A cell of either
    geometric variable keeps its probability up to a relative error of steps (1 + E) 2^-50 with E = g/steps: 4e-8 for
    ``steps`` = 2^20 (scale 1) at the far end E = 40.
    """
    scaled = exponential(stream, 2 * count)
    scaled *= steps
    np.floor(scaled, out=scaled)
    difference: FloatArray = scaled[:count] - scaled[count:]
    return difference


def standard_normals(streams: Sequence[Stream], count: int) -> FloatArray:
    """`standard_normal` for several streams, a row for each; shape (streams, count)."""
    pairs = (count + 1) // 2
    words = _words(streams, 2 * pairs)
    radius = _exponential(words[:, :pairs], streams)
    radius *= 2.0
    np.sqrt(radius, out=radius)
    angle = _uniform(words[:, pairs:])
    angle *= 2.0 * math.pi
    normal = np.empty((len(streams), 2 * pairs))
    np.multiply(radius, np.cos(angle), out=normal[:, :pairs])
    np.multiply(radius, np.sin(angle), out=normal[:, pairs:])
    return normal[:, :count]


def standard_normal(stream: Stream, count: int) -> FloatArray:
    """``count`` independent standard normal variables, by Box and Muller with sqrt(2 E) as radius; shape (count,).

    The radius comes from `exponential` and the angle has 52 bits, so each variable z is a continuous one whose place is
    off by at most (1 + |z|) 2^-50. A cell of width w keeps its probability up to a relative error of
    (1 + |z|)^2 2^-49 / w: 2e-7 for w = 2^-20 (deviation 1 on the grid) at |z| = 9.
    """
    return stream.sample(standard_normals, count)
