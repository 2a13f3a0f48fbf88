"""Network conditions: how a link loses, delays, duplicates and reorders frames.

Rules that hold here:
- A link has a direction: (sender, receiver). The receiver applies its conditions.
- What happens to a frame is a function of (seed, sender, receiver, kind, index, copy): a run loses the same first
  copies whatever the timing of its machine, and the fate of each repeat is independent.
- Only bursts (alternating periods of the link) and bandwidth (earlier frames) depend on time too.
- No release is lost for ever: the fate of each copy is independent, and an idle link passes a frame of any size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

NETWORK: Final = 0x6E657477
"""Keeps a link's bursts apart from the other uses of the same seed (data, graph, clocks)."""

_DRAWS = struct.Struct(">8Q")


def uniforms(seed: int, sender: int, receiver: int, kind: str, index: int, copy: int) -> tuple[float, ...]:
    """Eight numbers in [0, 1) from the arguments alone: BLAKE2b as a counter-based generator."""
    name = f"{seed}/{sender}/{receiver}/{kind}/{index}/{copy}".encode()
    drawn = _DRAWS.unpack(hashlib.blake2b(name, digest_size=64, person=b"sv-network").digest())
    return tuple((number >> 11) * 2.0**-53 for number in drawn)


@dataclass(frozen=True, slots=True)
class Delay:
    """A law of delays in seconds: ``mean`` (constant, normal, exponential) or ``low`` to ``high`` (uniform).

    A normal delay has the standard deviation ``deviation`` and is cut off at 0. ``jitter`` adds a uniform number
    between minus and plus itself, also cut off at 0.
    """

    law: Literal["constant", "uniform", "normal", "exponential"] = "constant"
    mean: float = 0.0
    deviation: float = 0.0
    low: float = 0.0
    high: float = 0.0
    jitter: float = 0.0

    def at(self, u: float, v: float, w: float) -> float:
        """The delay that three independent uniform numbers in [0, 1) stand for."""
        if self.law == "exponential":
            seconds = -self.mean * math.log1p(-u)
        elif self.law == "uniform":
            seconds = self.low + (self.high - self.low) * u
        elif self.law == "normal":  # Box and Muller
            seconds = self.mean + self.deviation * math.sqrt(-2.0 * math.log1p(-u)) * math.cos(2.0 * math.pi * v)
        else:
            seconds = self.mean
        return max(0.0, seconds + self.jitter * (2.0 * w - 1.0))


@dataclass(frozen=True, slots=True)
class Burst:
    """A two-state chain in continuous time: good for ``every`` seconds on average, then bad for ``lasting``.

    While the link is bad, frames are lost with probability ``loss``.

    References
    ----------
    Gilbert, E. N. (1960): Capacity of a burst-noise channel. Here with exponential periods.
    """

    every: float
    lasting: float
    loss: float = 1.0


@dataclass(frozen=True, slots=True)
class Link:
    """The conditions of one link. Probabilities are per copy; times in seconds, sizes in bytes.

    A reordered copy is held for up to ``reordering_delay`` longer, so that later copies overtake it. ``bandwidth``
    (bytes per second) is a token bucket of ``bucket`` bytes; a copy that would have to queue longer than ``queue``
    seconds is lost.
    """

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    reordering_delay: float = 0.05
    delay: Delay = Delay()
    burst: Burst | None = None
    bandwidth: float | None = None
    bucket: float = 16384.0
    queue: float = 1.0

    @property
    def calm(self) -> bool:
        """Whether every frame passes at once."""
        quiet = self.loss == self.duplication == self.reordering == 0.0 and self.delay == Delay()
        return quiet and self.burst is None and self.bandwidth is None


@dataclass(frozen=True, slots=True)
class Passage:
    """The fate of one copy: why it is ``lost`` (None: it arrives), or the delay of each copy that arrives."""

    lost: Literal["loss", "burst", "queue"] | None
    delays: tuple[float, ...] = ()


class Line:
    """One link during a run: its conditions, its good and bad periods, and the fill of its bucket."""

    def __init__(self, link: Link, seed: int, sender: int, receiver: int) -> None:
        self.link = link
        self._ends = (seed, sender, receiver)
        self._switches: list[float] = [0.0]
        self._periods = np.random.default_rng(np.random.SeedSequence([seed, NETWORK, sender, receiver]))
        self._busy_until = -math.inf

    def pass_on(self, kind: str, index: int, copy: int, now: float, size: int) -> Passage:
        """The fate of copy ``copy`` (from 0) of frame ``index``, ``size`` bytes, at ``now`` seconds into the run."""
        link = self.link
        lose, twice, late, u, v, w, longer, burst = uniforms(*self._ends, kind, index, copy)
        if lose < link.loss:
            return Passage("loss")
        if link.burst is not None and self.bad(now) and burst < link.burst.loss:
            return Passage("burst")
        wait = 0.0
        if link.bandwidth is not None:
            queued = max(0.0, self._busy_until - now)
            if queued > link.queue:
                return Passage("queue")
            self._busy_until = max(self._busy_until, now - link.bucket / link.bandwidth) + size / link.bandwidth
            wait = max(0.0, self._busy_until - now)
        wait += longer * link.reordering_delay if late < link.reordering else 0.0
        delays = [wait + link.delay.at(u, v, w)]
        if twice < link.duplication:
            u, v, w, *_ = uniforms(*self._ends, f"{kind} twin", index, copy)
            delays.append(wait + link.delay.at(u, v, w))
        return Passage(None, tuple(delays))

    def bad(self, now: float) -> bool:
        """Whether the link is in one of its bad periods."""
        burst = self.link.burst
        if burst is None:
            return False
        while self._switches[-1] <= now:
            mean = burst.every if len(self._switches) % 2 == 1 else burst.lasting
            self._switches.append(self._switches[-1] + float(self._periods.exponential(mean)))
        return bisect_right(self._switches, now) % 2 == 0


class Conditions:
    """The conditions of all links of a run: a default, and ``own`` conditions of single links by (sender, receiver)."""

    def __init__(self, seed: int, default: Link, own: Mapping[tuple[int, int], Link]) -> None:
        self._seed = seed
        self._default = default
        self._own = dict(own)

    @property
    def calm(self) -> bool:
        """Whether no link does anything to a frame."""
        return self._default.calm and all(link.calm for link in self._own.values())

    def line(self, sender: int, receiver: int) -> Line:
        """The link from ``sender`` to ``receiver`` at the start of a run."""
        return Line(self._own.get((sender, receiver), self._default), self._seed, sender, receiver)


def conditions(network: Mapping[str, Any], seed: int) -> Conditions:
    """The conditions that the ``[network]`` settings describe: times in seconds, sizes in bytes.

    ``link`` lists single links with ``from`` and ``to`` (agents) and the settings that differ there.
    """
    own: dict[tuple[int, int], Link] = {}
    for entry in network.get("link") or ():
        ends = (int(entry["from"]), int(entry["to"]))
        own[ends] = _link({**network, **{key: value for key, value in entry.items() if value is not None}})
    return Conditions(seed, _link(network), own)


def _link(fields: Mapping[str, Any]) -> Link:
    given = {own.name: fields[own.name] for own in dataclasses.fields(Link) if fields.get(own.name) is not None}
    if "delay" in given:
        given["delay"] = Delay(**{key: value for key, value in given["delay"].items() if value is not None})
    if "burst" in given:
        given["burst"] = Burst(**given["burst"])
    return Link(**given)
