"""Logs in forms that other tools show: read back by the MCAP library, and against the form of trace events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from mcap.reader import make_reader
from typer.testing import CliRunner

from coordinator_free.release import Release
from node.cli import application
from node.traffic.reader import TrafficLogReader
from node.traffic.writer import TrafficLogWriter
from node.wire import encode
from tests.helpers.speech import RUN, START_NS, done, hello, release

STEP_NS = 400_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents: hellos, three releases, a repeat, a frame that is no message, a release of NaN, a fault, a done."""
    path = tmp_path_factory.mktemp("log") / "traffic.mcap"
    frames = [
        hello(0),
        hello(1),
        release(0, 0, value=2.0),
        release(0, 1, value=3.0),
        encode(RUN, Release(1, 0, np.full(5, 4.0), ((0, 0),))),
        release(0, 1, value=3.0),
        (b"\0\0\0\1odd", b"no header", b""),
        encode(RUN, Release(1, 1, np.array([np.nan, 1.0, 1.0, 1.0, 1.0]), ((0, 1), (1, 0)))),
        done(0, 1),
    ]
    with TrafficLogWriter(path) as writer:
        for k, parts in enumerate(frames):
            writer.write(parts, START_NS + k * STEP_NS)
            if k == 4:
                writer.event({"fault": "partition", "agents": [1]}, START_NS + k * STEP_NS)
    return path


def exported(log: Path, out: Path, *words: str) -> str:
    result = CliRunner().invoke(application(["log"]), ["log", "export", str(log), "--out", str(out), *words])
    assert result.exit_code == 0, result.output
    return result.output


def messages(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The messages of each channel as the MCAP library gives them, each valid under its channel's schema."""
    found: dict[str, list[dict[str, Any]]] = {}
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        for schema, channel, message in reader.iter_messages():
            assert channel.message_encoding == "json"
            assert schema is not None
            assert schema.encoding == "jsonschema"
            fields = json.loads(message.data, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
            jsonschema.validate(fields, json.loads(schema.data))
            found.setdefault(channel.topic, []).append(fields | {"at": message.log_time - START_NS})
    return found


def test_an_mcap_tool_finds_decoded_messages_and_numbers_to_plot(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "decoded.mcap"
    # Nine frames, one event, and the rates of four seconds.
    assert f"{out.name}: 14 messages" in exported(log, out)
    found = messages(out)
    mine = found["/agents/agent-0000/releases"]
    assert [one["index"] for one in mine] == [0, 1, 1]
    assert [one["repeat"] for one in mine] == [False, False, True]
    assert mine[0]["vector"] == [2.0] * 5
    assert mine[0]["norm"] == pytest.approx(np.sqrt(20.0))
    theirs = found["/agents/agent-0001/releases"]
    assert theirs[0]["used"] == [[0, 0]]
    assert [one["age"] for one in theirs] == [1.0, 0.0], "agent 0 had released index 1 before both"
    assert theirs[1]["vector"] == ["NaN", 1.0, 1.0, 1.0, 1.0]
    assert [one["kind"] for one in found["/agents/agent-0000/ends"]] == ["hello", "done"]
    assert "refused" in found["/other"][0]
    assert found["/events"][0]["fault"] == "partition"
    rates = found["/rates"]
    assert sum(one["releases_per_s"] for one in rates) == rates[-1]["releases"] == 5
    frames = list(TrafficLogReader(log))
    assert sum(one["bytes_per_s"] for one in rates) == sum(sum(map(len, frame.parts)) for frame in frames)
    times = [frame.time_ns - START_NS for frame in frames]
    assert (
        sorted(one["at"] for name, all_ in found.items() for one in all_ if name not in ("/rates", "/events")) == times
    )


def test_a_trace_has_a_track_an_agent_and_an_arrow_for_each_release_that_was_used(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    exported(log, out, "--format", "trace")
    events = json.loads(out.read_text())
    names = {one["tid"]: one["args"]["name"] for one in events if one["name"] == "thread_name"}
    assert sorted(names.values()) == ["agent-0000", "agent-0001", "events of the run"]
    slices = [one for one in events if one["ph"] == "X"]
    assert [(names[one["tid"]], one["name"]) for one in slices] == [
        ("agent-0000", "release 0"),
        ("agent-0000", "release 1"),
        ("agent-0001", "release 0"),
        ("agent-0001", "release 1"),
    ]
    assert [one["ts"] for one in slices] == [k * STEP_NS / 1000 for k in (2, 3, 4, 7)]
    arrows = {one["id"]: {} for one in events if one["ph"] == "s"}
    for one in events:
        if one["ph"] in "sf" and len(one["ph"]) == 1:
            arrows[one["id"]][one["ph"]] = (names[one["tid"]], one["ts"])
    at = {(names[one["tid"]], one["args"]["index"]): one["ts"] for one in slices}
    assert list(arrows.values()) == [
        {"s": ("agent-0000", at["agent-0000", 0]), "f": ("agent-0001", at["agent-0001", 0])},
        {"s": ("agent-0000", at["agent-0000", 1]), "f": ("agent-0001", at["agent-0001", 1])},
    ]
    assert [one["name"] for one in events if one["ph"] == "i" and one["s"] == "p"] == ["partition"]
    assert [one["args"]["releases"] for one in events if one["name"] == "releases"] == [1, 2, 3, 4]


def test_a_file_that_is_there_is_kept_and_an_error_leaves_none(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept.json"
    out.write_text("mine")
    for words in (["--format", "trace"], ["--format", "mcap-json"], ["--format", "svg"]):
        result = CliRunner().invoke(application(["log"]), ["log", "export", str(log), "--out", str(out), *words])
        assert isinstance(result.exception, ValueError)
    assert out.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]
