"""The first message of an agent, and the receipts of ledgers that it may carry.

Rules that hold here:
- A hello without receipts has the keys that all hellos had before there were receipts.
- A receipt is checked in form only: its tag means something to the agent that made it, and to no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, TypedDict

HELLO_KEYS: Final = frozenset({"v", "run", "from", "to", "kind", "digest"})
"""Of a hello without a receipt, as all were before there were receipts."""
RECEIPT_KEYS: Final = HELLO_KEYS | {"receipt", "asks", "echoes"}
RECEIPT_TAG_BYTES: Final = 16

Envelope = TypedDict("Envelope", {"v": int, "run": bytes, "from": int, "to": int | None})
"""What every header has: version, run, sender, and recipient or None for all."""


class HelloFields(TypedDict):
    """What the header of a hello has besides. Without a receipt the last three are left out."""

    kind: Literal["hello"]
    digest: bytes
    receipt: NotRequired[list[Any] | None]
    """Starts, charges and tag."""
    asks: NotRequired[bool]
    echoes: NotRequired[list[list[Any]]]
    """An agent, and the three parts of its receipt."""


class HelloHeader(Envelope, HelloFields):
    """The header of a hello."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """How far an agent's ledger reaches in a run: starts of its process, indices charged, and a tag of the agent's."""

    starts: int
    charged: int
    tag: bytes

    @property
    def reach(self) -> tuple[int, int]:
        """By which receipts of one agent are compared: a ledger that is older has charged less."""
        return self.charged, self.starts


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of an agent, with the digest of its public configuration.

    With a ``receipt`` of the sender it is sent again now and then. ``asks``: the sender waits for its receipt from each
    neighbour; ``echoes`` are the newest receipts of such neighbours, each with the agent's number.
    """

    sender: int
    digest: bytes
    receipt: Receipt | None = None
    asks: bool = False
    echoes: tuple[tuple[int, Receipt], ...] = ()


def hello_fields(message: Hello) -> HelloFields:
    """What the header of a hello has beside its sender and its run."""
    fields: HelloFields = {"kind": "hello", "digest": message.digest}
    if message.receipt is None and not message.asks and not message.echoes:
        return fields
    echoes = [[agent, *_receipt_fields(echo)] for agent, echo in message.echoes]
    own = None if message.receipt is None else _receipt_fields(message.receipt)
    return {**fields, "receipt": own, "asks": message.asks, "echoes": echoes}


def _receipt_fields(receipt: Receipt) -> list[Any]:
    return [receipt.starts, receipt.charged, receipt.tag]


def hello_of(fields: HelloHeader) -> Hello:
    """The hello of a header that `is_hello` accepts."""
    own = fields.get("receipt")
    echoes = tuple((agent, Receipt(*rest)) for agent, *rest in fields.get("echoes", ()))
    receipt = None if own is None else Receipt(*own)
    return Hello(fields["from"], fields["digest"], receipt, fields.get("asks", False), echoes)


def _is_receipt(value: object) -> bool:
    return (
        type(value) is list
        and len(value) == 3
        and naturals(value[:2])
        and max(value[:2]) < 1 << 63
        and type(value[2]) is bytes
        and len(value[2]) == RECEIPT_TAG_BYTES
    )


def is_hello(fields: Mapping[str, Any]) -> bool:
    """Whether the values of a hello's header have the right form."""
    if type(fields["digest"]) is not bytes or len(fields["digest"]) != 32:
        return False
    if "receipt" not in fields:
        return True
    own, echoes = fields["receipt"], fields["echoes"]
    return (
        (own is None or _is_receipt(own))
        and type(fields["asks"]) is bool
        and type(echoes) is list
        and all(type(e) is list and naturals(e[:1]) and len(e) == 4 and _is_receipt(e[1:]) for e in echoes)
    )


def naturals(value: object) -> bool:
    """Whether a value is a list of whole numbers, 0 and more."""
    return type(value) is list and (not value or (set(map(type, value)) == {int} and min(value) >= 0))
