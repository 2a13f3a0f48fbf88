"""A traffic log as an MCAP file that other tools show: messages decoded to JSON, with a JSON Schema for each channel.

The log itself holds frames as the eavesdropper received them, and other tools can list these and nothing more. Here
each agent has a channel for its releases, with the vector and numbers to plot, and one for hello and done. The channel
`/rates` has the traffic of each second. Events of the run are copied.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from mcap.writer import CompressionType, Writer

from node.folder.whole import new_file
from node.places import agent_name
from node.traffic.documents import Row
from node.traffic.export import row
from node.traffic.format import Checkpoint, Event, Frame
from node.untyped import Json

Properties = Mapping[str, Mapping[str, object]]
"""Properties of a JSON Schema."""

SECOND: Final = 1_000_000_000
_NUMBER: Final = {"type": ["number", "string"]}
_COUNT: Final = {"type": "integer"}
_REFUSED: Final[Properties] = {"refused": {"type": "string"}}
_RELEASE: Final[Properties] = {
    "index": _COUNT,
    "round": {"type": ["integer", "null"]},
    "to": {"type": ["integer", "null"]},
    "used": {"type": "array", "items": {"type": "array", "items": _COUNT}},
    "bytes": _COUNT,
    "repeat": {"type": "boolean"},
    "norm": _NUMBER,
    "age": {"type": ["number", "null"]},
    "vector": {"type": "array", "items": _NUMBER},
}
_ENDS: Final[Properties] = {"kind": {"type": "string"}}
_RATES: Final[Properties] = {"releases": _COUNT, "releases_per_s": _NUMBER, "bytes_per_s": _NUMBER}


def write_mcap_json(items: Iterable[Frame | Checkpoint | Event], out: Path) -> int:
    """Write a new MCAP file of JSON messages; returns how many there are.

    Parameters
    ----------
    items
        Frames and events of a traffic log, in file order.
    out
        The file; it must not exist. After an error there is none.

    Raises
    ------
    FileExistsError
        If the file exists.
    """
    with new_file(out) as file:
        channels = _Channels(file)
        seen, rates = _Seen(), _Rates(channels)
        for item in items:
            if isinstance(item, Event):
                channels.write("/events", "event", {}, item.time_ns, item.fields)
            elif isinstance(item, Frame):
                fields = row(item)
                rates.count(item.time_ns, fields)
                _write_frame(channels, seen, item.time_ns, fields)
        rates.close()
        return channels.close()


def _write_frame(channels: _Channels, seen: _Seen, time_ns: int, fields: Row) -> None:
    told = {key: value for key, value in fields.items() if key not in ("time_ns", "from", "kind")}
    if "refused" in fields:
        channels.write("/other", "no message", _REFUSED, time_ns, fields)
        return
    sender = int(fields["from"] or 0)
    place = f"/agents/{agent_name(sender)}"
    if fields["kind"] == "release":
        channels.write(f"{place}/releases", "release", _RELEASE, time_ns, told | seen.numbers(sender, fields))
    else:
        channels.write(f"{place}/ends", "hello or done", _ENDS, time_ns, {"kind": fields["kind"], **told})


class _Seen:
    """What was released so far, for the numbers that a single frame does not hold."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._indices: dict[int, set[int]] = {}

    def numbers(self, sender: int, release: Row) -> Json:
        """Numbers to plot: the vector's norm, and the mean age of the releases that were used, in releases."""
        index = release["index"]
        ages = [max(0, self._newest.get(j, k) - k) for j, k in release["used"] if j != sender]
        before = self._indices.setdefault(sender, set())
        repeat = index in before
        before.add(index)
        self._newest[sender] = max(index, self._newest.get(sender, -1))
        return {
            "repeat": repeat,
            "norm": math.hypot(*map(float, release["vector"])),
            "age": sum(ages) / len(ages) if ages else None,
        }


class _Rates:
    """The traffic of each whole second of the log's clock in which a frame was received."""

    def __init__(self, channels: _Channels) -> None:
        self._channels = channels
        self._second: int | None = None
        self._releases = self._bytes = self._all = 0

    def count(self, time_ns: int, fields: Row) -> None:
        """Count a frame; what a full second held is written."""
        second = time_ns // SECOND
        if second != self._second:
            self.close()
            self._second = second
        self._releases += fields.get("kind") == "release"
        self._bytes += fields["bytes"]

    def close(self) -> None:
        """Write the last second."""
        if self._second is None:
            return
        self._all += self._releases
        fields = {"releases": self._all, "releases_per_s": self._releases, "bytes_per_s": self._bytes}
        self._channels.write("/rates", "rates", _RATES, (self._second + 1) * SECOND, fields)
        self._releases = self._bytes = 0


class _Channels:
    """The channels of the new file, each registered with its schema when its first message comes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._writer = Writer(file, compression=CompressionType.LZ4)
        self._writer.start(profile="", library="sottovoce")
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._written = 0

    def write(self, topic: str, name: str, properties: Properties, time_ns: int, fields: Mapping[str, Any]) -> None:
        """Write one message. Infinity and NaN are strings, as JSON lacks them."""
        channel = self._channels.get(topic)
        if channel is None:
            channel = self._channels[topic] = self._writer.register_channel(
                topic, "json", self._schema(name, properties)
            )
        try:
            data = json.dumps(fields, allow_nan=False)
        except ValueError:
            data = json.dumps(json.loads(json.dumps(fields), parse_constant=str))
        self._writer.add_message(
            channel, log_time=time_ns, data=data.encode(), publish_time=time_ns, sequence=self._written
        )
        self._written += 1

    def _schema(self, name: str, properties: Properties) -> int:
        if name not in self._schemas:
            schema = {"title": f"sottovoce {name}", "type": "object", "properties": properties}
            data = json.dumps(schema).encode()
            self._schemas[name] = self._writer.register_schema(f"sottovoce.{name}", "jsonschema", data)
        return self._schemas[name]

    def close(self) -> int:
        """Write the summary; returns the number of messages."""
        self._writer.finish()  # type: ignore[no-untyped-call]
        return self._written
