"""Signatures of releases that other agents pass on: Ed25519, one for each origin, made from the agent's secret.

Rules that hold here:
- A signature covers the run, the origin and every number of what is passed on. So a release of another run, of another
  origin or with other numbers is refused.
- Ed25519 draws no random numbers: a run that is executed again makes the same signatures.
- A signature is 16 numbers of 32 bits: exact in float64, and small enough for every receiver.

Source: RFC 8032.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from coordinator_free.release import FloatArray

NUMBERS = 16
"""Numbers of a release's vector that its signature takes."""
_DOMAIN = b"sottovoce relay 1\x00"
_KEY_DOMAIN = b"sottovoce signing key 1\x00"


def available() -> bool:
    """Whether this installation can sign: the package cryptography is there."""
    try:
        import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
    except ImportError:
        return False
    return True


def verification_key(secret: bytes, run: bytes) -> bytes:
    """The public key of the agent with this ``secret`` in one run, 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_seed(secret, run)).public_key().public_bytes_raw()


def signature(secret: bytes, run: bytes, content: FloatArray) -> FloatArray:
    """Sign ``content``, whose first number is the origin; shape (16,)."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    signed = Ed25519PrivateKey.from_private_bytes(_seed(secret, run)).sign(_message(run, content.tobytes()))
    return np.frombuffer(signed, dtype="<u4").astype(np.float64)


def is_signed(key: bytes, run: bytes, content: FloatArray, numbers: FloatArray) -> bool:
    """Whether ``numbers``, shape (16,), are the signature of ``content`` by the holder of ``key``'s secret."""
    if not ((numbers >= 0) & (numbers < 2.0**32) & (numbers == np.floor(numbers))).all():
        return False
    return _verified(key, _message(run, content.tobytes()), numbers.astype("<u4").tobytes())


def _seed(secret: bytes, run: bytes) -> bytes:
    return hashlib.shake_256(_KEY_DOMAIN + len(secret).to_bytes(8, "big") + secret + run).digest(32)


def _message(run: bytes, content: bytes) -> bytes:
    return _DOMAIN + len(run).to_bytes(8, "big") + run + content


@lru_cache(maxsize=1 << 14)
def _verified(key: bytes, message: bytes, signed: bytes) -> bool:
    """Remembered, because in the twin all agents ask for the same."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signed, message)
    except InvalidSignature:
        return False
    return True
