"""The lines of a ledger file as bytes: see `node.folder.ledger` for what each kind is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from coordinator_free.privacy.families import from_description
from coordinator_free.privacy.ledger import Budget, Charge, LedgerError, Plan
from coordinator_free.privacy.mechanism import Mechanism, MechanismError
from coordinator_free.privacy.noise import NONCE_BYTES
from node.untyped import Json

VERSION = 1


class Kept(TypedDict, total=False):
    """What an agent in rounds needs of a release after a restart, in base64: the parts of its frame, and its state."""

    frame: list[str]
    state: str


class Line(Kept, total=False):
    """A line after the first: a charge, or ``again``, ``plan`` or ``start``; see `node.folder.ledger`."""

    run: str
    """In hexadecimal digits."""
    first: int
    last: int
    mechanism: Json | None
    torn: bool
    again: int
    plan: list[list[Any]]
    windows: list[list[int]]
    start: int
    nonce: str


def described(mechanism: Mechanism | None) -> Json | None:
    """A charge's mechanism as a ledger names it."""
    return None if mechanism is None else mechanism.describe()


def charge_as_written(charge: Charge) -> Line:
    """A charge as a ledger writes it."""
    return {"first": charge.first, "last": charge.last, "run": charge.run, "mechanism": described(charge.mechanism)}


def groups(plan: Plan) -> list[list[Any]]:
    """A plan as a ledger writes it: a count and a mechanism for each group of releases."""
    return [[count, described(mechanism)] for count, mechanism in plan.groups]


def plan_as_written(plan: Plan) -> Line:
    """A plan's part of a line: its groups, and the windows of the records where records arrive during the run."""
    line: Line = {"plan": groups(plan)}
    if plan.windows:
        line["windows"] = [list(window) for window in plan.windows]
    return line


def _plan(content: Mapping[str, Any]) -> Plan:
    groups = tuple((int(count), None if m is None else from_description(m)) for count, m in content["plan"])
    return Plan(groups, tuple((int(first), int(last)) for first, last in content.get("windows", ())))


def line_of(content: Mapping[str, object], crc: int) -> tuple[bytes, int]:
    """A line, and the checksum of the file up to its end; ``crc`` is that up to its start."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    crc = zlib.crc32(text, crc)
    return text + b" %08x\n" % crc, crc


class Header(NamedTuple):
    """The first line."""

    shard: str
    """Digest of the rows that it belongs to."""
    record: str
    """The unit of privacy, in words."""
    budget: Budget | None
    plan: Plan
    earlier: Charge | None
    """What was charged when the ledger was made."""


class Contents(NamedTuple):
    """What a ledger's bytes hold."""

    header: Header
    charges: list[Charge]
    plans: dict[str, Plan]
    """Of runs that have their own; the one that wrote last is last."""
    end: int
    """Length of what is whole."""
    crc: int
    """Checksum of what is whole."""
    torn: bytes | None
    """A last line that is not."""


def contents(path: Path, data: bytes) -> Contents:
    """Read a ledger's bytes; raises `LedgerError` for damage before the last line. ``path`` is for messages."""
    lines = data.split(b"\n")
    whole = len(lines) - 1
    if lines[-1] == b"":
        lines.pop()  # the file ends with a whole line
    header: Header | None = None
    charges: list[Charge] = []
    plans: dict[str, Plan] = {}
    end, crc = 0, 0
    for number, line in enumerate(lines):
        try:
            content, crc_after = _content(line, crc, ended=number < whole)
            if number == 0:
                header = _header(content)
                charges += [] if header.earlier is None else [header.earlier]
            elif "plan" in content:
                run = str(content["run"])
                plans.pop(run, None)
                plans[run] = _plan(content)
            elif "start" in content:
                _check_start(content)
            elif "again" not in content:
                charges.append(_charge(content))
        except (ValueError, KeyError, TypeError, AttributeError, MechanismError) as error:
            if header is None or number < len(lines) - 1:
                which = "its first line" if number == 0 else f"line {number + 1} of {len(lines)}"
                raise LedgerError(f"ledger {path}: {which} is damaged ({error})") from None
            return Contents(header, charges, plans, end, crc, line)
        end, crc = end + len(line) + 1, crc_after
    if header is None:
        raise LedgerError(f"ledger {path}: is empty")
    return Contents(header, charges, plans, end, crc, None)


def _content(line: bytes, crc: int, *, ended: bool) -> tuple[Any, int]:
    """A line's document, and the CRC of the file up to the line's end; ``crc`` is that up to its start."""
    if not ended:
        raise ValueError("no end of line")
    crc = zlib.crc32(line[:-9], crc)
    if line[-9:] != b" %08x" % crc:
        raise ValueError("checksum")
    return json.loads(line[:-9]), crc


def _check_start(content: Mapping[str, Any]) -> None:
    if len(bytes.fromhex(content["nonce"])) != NONCE_BYTES or int(content["start"]) < 0:
        raise ValueError("start")


def _header(content: Mapping[str, Any]) -> Header:
    if content["ledger"] != VERSION:
        raise ValueError(f"version {content['ledger']}, not {VERSION}")
    budget = content["budget"]
    return Header(
        str(content["shard"]),
        str(content["record"]),
        None if budget is None else Budget(float(budget["epsilon"]), float(budget["delta"])),
        _plan(content),
        _charge(content["earlier"]) if "earlier" in content else None,
    )


def _charge(content: Mapping[str, Any]) -> Charge:
    described = content["mechanism"]
    mechanism = None if described is None else from_description(described)
    return Charge(str(content["run"]), int(content["first"]), int(content["last"]), mechanism)
