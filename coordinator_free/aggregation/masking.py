"""Sums that hide everything but themselves: fixed point in Z_2^64, pairwise masks, own masks, and shares of these.

Rules that hold here:
- Numbers are whole multiples of 2^-24, as words modulo 2^64. Masks are uniform words, so a masked vector is uniform and
  independent of the value; words add exactly, in any order.
- Neighbours i < j agree on a seed (X25519) for each round; i adds the mask it expands to, j subtracts it. Each agent
  also adds a mask of its own. It shares the seed of that mask among its neighbours (Shamir); more than half rebuild it.
- For each party a neighbour reveals its share of the own seed *or* the pairwise seed, never both. `Holder` keeps that.
- Seeds differ in every round, so what is revealed of one round opens no other.
- What an agent derives belongs to one run and to one edge: the run's id, both agents' numbers and both public keys are
  in it. So masks of two neighbours never cancel, whatever keys the neighbours send.
- Keys and randomness are arguments: nothing here draws anything.

Source: Bonawitz et al. (2017), on a graph as in Bell et al. (2020).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from coordinator_free.agent import Halt
from coordinator_free.release import FloatArray

Words = npt.NDArray[np.uint64]

GRID = 2.0**-24
"""Step of the fixed-point numbers."""
PRIME = 2**127 - 1
"""Shares are polynomials over this field; seeds are below it."""
SEED_BYTES = 16
_FIELD = 2**255 - 19
"""Coordinates of X25519 are below it; a larger number would be a second name of the same point."""
_LIMIT = 2.0**63


class MaskError(Halt):
    """A masked sum that cannot be made, or would not be safe."""


# --- fixed point -----------------------------------------------------------------------------------------------------


def largest(agents: int) -> float:
    """Below this absolute value ``agents`` numbers can be added without overflow."""
    return _LIMIT * GRID / agents


def check_range(bound: float, agents: int) -> None:
    """Raise `MaskError` unless contributions up to ``bound`` in absolute value fit, before anything is sent."""
    if not bound < largest(agents):
        raise MaskError(
            f"a masked sum of {agents} numbers up to {bound:g} overflows 64 bits on the grid 2^-24; "
            f"accepted: below {largest(agents):g}"
        )


def to_words(values: FloatArray, agents: int) -> Words:
    """Values, shape (p,), rounded to the grid, as words; `MaskError` where ``agents`` such numbers could overflow."""
    bound = float(np.max(np.abs(values), initial=0.0))
    check_range(bound, agents)
    words: Words = np.rint(values / GRID).astype(np.int64).view(np.uint64)
    return words


def from_words(words: Words) -> FloatArray:
    """The numbers that words stand for."""
    values: FloatArray = words.view(np.int64).astype(np.float64) * GRID
    return values


def to_floats(words: Words) -> FloatArray:
    """Words as pairs of 32-bit halves in float64, which a release's body can carry: finite and exact."""
    return words.view("<u4").astype(np.float64)


def from_floats(halves: FloatArray) -> Words:
    """Reads `to_floats` back; raises `MaskError` for anything else."""
    whole = (halves >= 0) & (halves < 2.0**32) & (halves == np.floor(halves))
    if halves.size % 2 or not whole.all():
        raise MaskError("a masked vector holds something that is not a 32-bit number")
    return halves.astype("<u4").view("<u8").astype(np.uint64)


# --- keys and masks --------------------------------------------------------------------------------------------------


def derived(secret: bytes, purpose: str, *numbers: int, length: int = 32) -> bytes:
    """Bytes that only the holder of ``secret`` can compute, different for each purpose and numbers (SHAKE-256)."""
    label = "/".join([purpose, *map(str, numbers)]).encode()
    return hashlib.shake_256(b"sottovoce mask 1\0" + len(secret).to_bytes(4, "big") + secret + label).digest(length)


def run_secret(secret: bytes, run: bytes, agent: int) -> bytes:
    """What an agent derives its key, own seeds and shares of one run from, 32 bytes."""
    return derived(_joined(b"run", secret, run), "agent", agent)


def edge_secret(shared: bytes, run: bytes, ends: Mapping[int, bytes]) -> bytes:
    """What the two ends of an edge derive its seeds from, 32 bytes.

    ``shared`` is what they agreed on, and ``ends`` holds the public key of each of the two agents.
    """
    return derived(_joined(b"edge", shared, run, *(ends[agent] for agent in sorted(ends))), "ends", *sorted(ends))


def _joined(*parts: bytes) -> bytes:
    """All parts, each after its length, so that different parts never make the same bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def check_key(key: bytes, sender: int, held: Mapping[int, bytes]) -> None:
    """Raise `MaskError` for a public key that no honest neighbour sends.

    ``held`` are the public keys of this agent and of the neighbours that sent theirs before. Points of small order are
    refused in `agreed`: they agree on zeros.
    """
    if int.from_bytes(key, "little") >= _FIELD:
        raise MaskError(f"the public key of agent {sender} is not one: it is not below 2^255 - 19; no sum is made")
    for other, theirs in held.items():
        if other != sender and theirs == key:
            raise MaskError(
                f"agents {other} and {sender} have the same public key: one of them repeats the other's; no sum is made"
            )


def public_key(private: bytes) -> bytes:
    """The X25519 public key, 32 bytes, of 32 private bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, other: bytes) -> bytes:
    """What both ends of an edge compute from their own private and the other's public key, 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:
        raise MaskError(f"a neighbour's public key is not one: {error}") from None


def expanded(seed: bytes, count: int) -> Words:
    """``count`` words of the ChaCha20 key stream of a seed that is used once."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    key = hashlib.sha256(b"sottovoce mask stream\0" + seed).digest()
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * count))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def pair_seed(shared: bytes, round_: int) -> bytes:
    """The seed of an edge in one round; revealing it opens no other round."""
    return derived(shared, "pair", round_, length=SEED_BYTES)


def own_seed(secret: bytes, round_: int) -> bytes:
    """An agent's own seed in one round, a number below `PRIME`."""
    number = int.from_bytes(derived(secret, "own", round_, length=32), "big") % PRIME
    return number.to_bytes(SEED_BYTES, "big")


def masked(words: Words, agent: int, own: bytes | None, pairs: Mapping[int, bytes]) -> Words:
    """``words`` plus the own mask if any, plus the mask of each neighbour above, minus that of each neighbour below."""
    total = words if own is None else words + expanded(own, words.size)
    for other, seed in pairs.items():
        mask = expanded(seed, words.size)
        total = total + mask if agent < other else total - mask
    return total


# --- Shamir's shares -------------------------------------------------------------------------------------------------


def threshold(degree: int) -> int:
    """How many of ``degree`` neighbours rebuild an own seed: more than half of them."""
    return degree // 2 + 1


def shares(seed: bytes, holders: Sequence[int], needed: int, secret: bytes, round_: int) -> dict[int, bytes]:
    """A share of ``seed`` for each holder; any ``needed`` of them rebuild it, fewer reveal nothing of it.

    The polynomial's other coefficients come from ``secret``, another one in each round.
    """
    if not 1 <= needed <= len(holders):
        raise MaskError(f"a seed shared among {len(holders)} neighbours cannot need {needed} of them")
    coefficients = [int.from_bytes(seed, "big")]
    for power in range(1, needed):
        drawn = derived(secret, "share", round_, power, length=32)
        coefficients.append(int.from_bytes(drawn, "big") % PRIME)
    made = {}
    for holder in holders:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * (holder + 1) + coefficient) % PRIME
        made[holder] = value.to_bytes(SEED_BYTES, "big")
    return made


def rebuilt(held: Mapping[int, bytes], needed: int) -> bytes:
    """The seed, from the shares of at least ``needed`` holders; the lowest holders' are used."""
    if len(held) < needed:
        raise MaskError(f"{len(held)} shares of an own mask are here, {needed} are needed")
    points = tuple(sorted(held)[:needed])
    weighted = zip(points, _at_zero(points), strict=True)
    total = sum(int.from_bytes(held[i], "big") * factor for i, factor in weighted) % PRIME
    return total.to_bytes(SEED_BYTES, "big")


@lru_cache(maxsize=1024)
def _at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's factors of the values at point + 1, for the value at zero. The same holders come again each round."""
    factors = []
    for i in points:
        above, below = 1, 1
        for j in points:
            if j != i:
                above = above * (j + 1) % PRIME
                below = below * (j - i) % PRIME
        factors.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(factors)


def sealed(share: bytes, shared: bytes, sender: int, round_: int) -> bytes:
    """A share, readable only by the neighbour that also holds ``shared``; sealing it again opens it."""
    pad = derived(shared, "seal", sender, round_, length=SEED_BYTES)
    return bytes(a ^ b for a, b in zip(share, pad, strict=True))


Kind = Literal["share", "pair"]


class Holder:
    """What one agent reveals of its neighbours in one round: one thing of each, never both."""

    def __init__(self, held: Mapping[int, bytes], pairs: Mapping[int, bytes]) -> None:
        self._held = dict(held)
        self._pairs = dict(pairs)
        self._revealed: dict[int, Kind] = {}

    def reveal(self, party: int, *, present: bool) -> tuple[Kind, bytes]:
        """The share of a present party's own seed, or the seed shared with an absent party."""
        kind: Kind = "share" if present else "pair"
        before = self._revealed.get(party)
        if before is not None and before != kind:
            raise MaskError(f"of agent {party} the {before} was revealed in this round: its {kind} must stay secret")
        if present and party not in self._held:
            raise MaskError(f"no share of agent {party}'s own mask is here")
        self._revealed[party] = kind
        return kind, self._held[party] if present else self._pairs[party]


def unmasked(
    total: Words,
    own: Iterable[bytes],
    dropped: Mapping[int, Mapping[int, bytes]],
) -> Words:
    """The sum, from the sum of masked words of those present.

    ``own``: the rebuilt own seeds of those present. ``dropped``: for each absent party, the pairwise seeds that its
    present neighbours revealed, by neighbour; their masks have no counterpart and are taken out.
    """
    for seed in own:
        total = total - expanded(seed, total.size)
    for party, pairs in dropped.items():
        for neighbour, seed in pairs.items():
            mask = expanded(seed, total.size)
            total = total - mask if neighbour < party else total + mask
    return total


# --- which graphs may sum --------------------------------------------------------------------------------------------


def check_graph(agents: int, degrees: Sequence[int], connectivity: int, colluders: int, dropouts: int = 0) -> None:
    """Raise `MaskError` unless masked sums on this graph are safe.

    Safe: a sum hides each agent from ``colluders`` others that pool what they know, and can be made while up to
    ``dropouts`` others are absent. With no more absent than these bounds allow, two sums of different sets of agents
    cannot both be opened: the shares of an agent that is in only one of them were revealed by more than half of its
    neighbours, and all these would have to be absent from the other.

    It holds for colluders that lie, too. They may reveal both the share and the pairwise seed of each neighbour, give
    each receiver another vector, and pass on nothing, or inventions. What it rests on: vectors are flooded for enough
    steps to reach all honest agents without the colluders and the absent; each honest agent reveals one thing of each
    neighbour, for one set; more than ``colluders`` shares are needed for an own mask, so one honest neighbour at least
    has kept its pairwise seed; and the honest agents that reveal stay connected, so they are all in one sum. It does
    not hold for an attacker that also cuts links between honest agents that are not absent, if ``dropouts`` > 0.

    Parameters
    ----------
    agents, degrees
        The number of agents, and the number of neighbours of each.
    connectivity
        How many agents must be removed to cut the mask graph.
    colluders, dropouts
        How many agents may pool what they know, and how many may be absent.
    """
    check_hidden(agents, connectivity, colluders)
    if dropouts and colluders + dropouts >= connectivity:
        raise MaskError(
            f"privacy.dropouts = {dropouts}: with {colluders} colluders, taking {connectivity} agents away cuts the "
            f"mask graph; accepted: up to {connectivity - 1 - colluders}, or a denser graph"
        )
    needed = min(threshold(degree) for degree in degrees)
    spare = min(min(degree - threshold(degree), threshold(degree) - colluders) for degree in degrees)
    if dropouts > max(0, spare):
        raise MaskError(
            f"privacy.dropouts = {dropouts}: an own mask could not be rebuilt by the remaining agents; accepted: up to "
            f"{max(0, spare)}, or a denser graph"
        )
    if colluders >= needed:
        raise MaskError(
            f"privacy.colluders = {colluders}: {needed} neighbours can rebuild an own mask; accepted: below {needed}, "
            "or a denser graph"
        )


def check_hidden(agents: int, connectivity: int, colluders: int) -> None:
    """Raise `MaskError` unless pairwise masks hide each agent from ``colluders`` others that pool what they know.

    The parameters are those of `check_graph`.
    """
    if agents < 3:
        raise MaskError(
            f"a masked sum of {agents} agents: of two, each agent can compute the other's value; accepted: 3 or more"
        )
    if colluders < 0 or colluders > agents - 2:
        raise MaskError(f"privacy.colluders = {colluders}: accepted are 0 to {agents - 2} of {agents} agents")
    if colluders >= connectivity:
        raise MaskError(
            f"privacy.colluders = {colluders}: taking {connectivity} agents away cuts the mask graph, so as many "
            f"colluders could see the sum of a part; accepted: below {connectivity}, or a denser graph. With 0 epsilon "
            "holds only for observers that take no part in the sum"
        )


def check_agreement(mine: Sequence[float], theirs: Sequence[float], sender: int) -> None:
    """Raise `MaskError` unless a neighbour sends the same grid and weights."""
    if list(mine) != list(theirs):
        raise MaskError(
            f"agent {sender} sums with other weights or another grid than this agent: {list(theirs)}, not {list(mine)}"
        )
