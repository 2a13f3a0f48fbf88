"""Describing, choosing, saving and checking logs."""

from __future__ import annotations

import csv
import io
import json
import random
import struct
import zlib
from pathlib import Path

import lz4.frame
import numpy as np
import pytest
from mcap.opcode import Opcode
from mcap.reader import make_reader

from coordinator_free.release import Release
from node.traffic.check import verify_log
from node.traffic.export import COLUMNS, write_csv, write_ndjson, write_parquet
from node.traffic.format import Frame
from node.traffic.information import information
from node.traffic.reader import TrafficLogReader
from node.traffic.salvage import filter_log, salvage
from node.traffic.selection import Selection, SelectionError
from node.traffic.writer import TrafficLogWriter
from node.wire import encode
from tests.helpers.speech import RUN, START_NS, conversation, done, hello, release, write_log
from tests.helpers.traffic_logs import parts_of, record_offsets

MANIFEST = {"manifest.json": json.dumps({"agents": 4, "run": RUN.hex(), "dimension": 5}).encode()}


def test_information_on_a_complete_log(tmp_path: Path) -> None:
    said = conversation(4, 10)
    attached = {**MANIFEST, "config.toml": b"[learning]\nmu = 1\n"}
    path = write_log(tmp_path / "a.mcap", [*said, release(2, 3, value=23.0, round=3), (b"?",)], attachments=attached)
    found = information(path)
    assert found["kinds"] == {"done": 4, "hello": 4, "refused": 1, "release": 41}
    assert (found["agents"], found["releases"], found["repeats"]) == (4, 40, 1)
    assert found["releases_per_agent"] == {"min": 10, "mean": 10.0, "max": 10}
    assert found["span_s"] == pytest.approx(0.049)
    assert found["releases_per_s"] == pytest.approx(40 / 0.049)
    assert found["body_bytes"] == {"40": 41}
    assert found["frame_bytes"] == sum(len(part) for parts in parts_of(path) for part in parts)
    assert found["capture"]["complete"]
    assert found["refused"] == {"parts": 1}
    assert found["configuration"] == "[learning]\nmu = 1\n"
    assert found["closed"]
    assert found["damage"] == []
    json.dumps(found, allow_nan=False)


def test_information_names_agents_that_were_never_heard(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", [hello(0), release(0, 0), done(0, 0)], attachments=MANIFEST)
    assert information(path)["capture"]["silent"] == [1, 2, 3]
    assert not information(path)["capture"]["complete"]


def test_information_on_an_empty_log(tmp_path: Path) -> None:
    found = information(write_log(tmp_path / "a.mcap", []))
    assert (found["frames"], found["span_s"], found["releases_per_s"], found["first_ns"]) == (0, 0.0, None, None)
    assert found["capture"]["in_words"] == "incomplete: no frame of an agent was received"


# -- choosing ---------------------------------------------------------------------------------------------------------


def frames_of(path: Path, selection: Selection) -> list[Frame]:
    return list(selection.apply(TrafficLogReader(path)))


def test_selection_by_agent_time_rounds_and_number(tmp_path: Path) -> None:
    said = conversation(4, 10)
    path = write_log(tmp_path / "a.mcap", [*said, (b"?",)])
    assert [f.parts for f in frames_of(path, Selection.of([1]))] == [p for p in said if p[0][3] == 1]
    assert [f.parts for f in frames_of(path, Selection.of(excluded=[1]))] == [p for p in said if p[0][3] != 1] + [
        (b"?",)
    ]
    chosen = frames_of(path, Selection.of(start=0.0105, duration=0.005))
    assert [f.parts for f in chosen] == said[11:16]
    assert [f.parts for f in frames_of(path, Selection.of(start=0.0105, limit=2))] == said[11:13]
    rounds = frames_of(path, Selection.of(rounds=(3, 4)))
    assert [f.parts for f in rounds] == said[:4] + said[4 + 12 : 4 + 20] + said[-4:]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"start": -1.0}, "--start-offset -1"),
        ({"start": float("nan")}, "--start-offset nan"),
        ({"duration": 0.0}, "--duration 0"),
        ({"limit": 0}, "--limit 0"),
        ({"rounds": (5, 2)}, "--rounds 5-2"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(SelectionError, match=named):
        Selection.of(**wrong)  # type: ignore[arg-type]


def test_an_agent_that_the_log_has_not_is_refused(tmp_path: Path) -> None:
    reader = TrafficLogReader(write_log(tmp_path / "a.mcap", conversation(), attachments=MANIFEST))
    with pytest.raises(SelectionError, match=r"agent 4 is not in .*; its agents: 0 to 3"):
        Selection.of([4]).check(reader)
    without_manifest = TrafficLogReader(write_log(tmp_path / "b.mcap", conversation()))
    with pytest.raises(SelectionError, match="agent 4"):
        Selection.of(excluded=[4]).check(without_manifest)
    Selection.of([3]).check(without_manifest)


def test_a_selection_that_chooses_nothing_is_refused(tmp_path: Path) -> None:
    reader = TrafficLogReader(write_log(tmp_path / "a.mcap", conversation()))
    with pytest.raises(SelectionError, match=r"no frame .* \(from 9 s\); it has 48 frames, the last 0.047"):
        Selection.of(start=9.0).check(reader)
    Selection.of(start=0.047).check(reader)
    Selection().check(TrafficLogReader(write_log(tmp_path / "empty.mcap", [])))


def test_rounds_of_a_log_without_rounds_are_refused(tmp_path: Path) -> None:
    reader = TrafficLogReader(write_log(tmp_path / "a.mcap", [hello(0), release(0, 0), release(0, 1)]))
    with pytest.raises(SelectionError, match=r"--rounds 0-1: the releases in .* have no rounds"):
        Selection.of(rounds=(0, 1)).check(reader)


def test_a_frame_with_an_earlier_time_than_the_first_is_selected(tmp_path: Path) -> None:
    said = conversation()[:4]
    with TrafficLogWriter(tmp_path / "a.mcap") as writer:
        for parts, at in zip(said, (100, 50, 99, 200), strict=True):
            writer.write(parts, at)
    assert [frame.parts for frame in frames_of(tmp_path / "a.mcap", Selection())] == said
    assert information(tmp_path / "a.mcap")["span_s"] == pytest.approx(150e-9)


def test_filter_keeps_times_and_attachments(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(), attachments=MANIFEST)
    done_ = filter_log(path, tmp_path / "b.mcap", Selection.of([1, 2], duration=0.02))
    reader = TrafficLogReader(tmp_path / "b.mcap")
    assert list(reader) == frames_of(path, Selection.of([1, 2], duration=0.02))
    assert done_["frames"] == len(list(reader)) > 0
    assert reader.attachments == MANIFEST
    assert reader.metadata["sottovoce"] == {"filtered": "agents 1, 2; for 0.02 s"}
    assert verify_log(tmp_path / "b.mcap")["ok"]


# -- tables -----------------------------------------------------------------------------------------------------------


def some_frames() -> list[Frame]:
    used = Release(3, 7, np.array([0.5, -1.25]), ((1, 4), (3, 6)), 2, 1)
    odd = Release(3, 8, np.array([np.nan, np.inf]))
    said = [hello(3), encode(RUN, used), encode(RUN, odd), done(3, 8, (0, 1)), (b"a", b"b")]
    return [
        Frame(START_NS + k, *parts) if len(parts) == 3 else Frame(START_NS + k, b"", b"", b"", parts)
        for k, parts in enumerate(said)
    ]


def test_ndjson_has_every_field(tmp_path: Path) -> None:
    out = io.StringIO()
    assert write_ndjson(some_frames(), out) == 5
    rows = [json.loads(line, parse_constant=lambda name: pytest.fail(name)) for line in out.getvalue().splitlines()]
    assert [row.get("kind") for row in rows] == ["hello", "release", "release", "done", None]
    assert rows[1]["vector"] == [0.5, -1.25]
    assert rows[1]["used"] == [[1, 4], [3, 6]]
    assert (rows[1]["from"], rows[1]["to"], rows[1]["index"], rows[1]["round"]) == (3, 1, 7, 2)
    assert rows[1]["time_ns"] == START_NS + 1
    assert rows[2]["vector"] == ["nan", "inf"]
    assert (rows[3]["last"], rows[3]["skipped"]) == (8, [0, 1])
    assert rows[4]["refused"] == "parts"
    assert rows[4]["parts"] == ["YQ==", "Yg=="]


def test_csv_has_a_column_for_every_field() -> None:
    out = io.StringIO()
    assert write_csv(some_frames(), out) == 5
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert tuple(rows[0]) == COLUMNS
    assert rows[1]["used"] == "1:4 3:6"
    assert rows[1]["vector"] == "0.5 -1.25"
    assert rows[3]["skipped"] == "0 1"


def test_parquet_has_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert write_parquet(some_frames(), tmp_path / "a.parquet", batch=2) == 5
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert tuple(rows[0]) == COLUMNS
    assert rows[1]["vector"] == [0.5, -1.25]
    assert rows[1]["used"] == [[1, 4], [3, 6]]
    assert [row["kind"] for row in rows] == ["hello", "release", "release", "done", None]


# -- saving -----------------------------------------------------------------------------------------------------------


def test_salvage_gives_back_every_whole_chunk_and_nothing_else(tmp_path: Path) -> None:
    said = conversation(4, 60)
    path = write_log(tmp_path / "a.mcap", said, attachments=MANIFEST, chunk_bytes=2500)
    whole = path.read_bytes()
    chunks = [(start, end) for opcode, start, end in record_offsets(whole) if opcode == 6]
    seen: list[int] = []
    for _, end in chunks:
        (tmp_path / "x.mcap").write_bytes(whole[:end])
        seen.append(len(parts_of(tmp_path / "x.mcap")))
    assert seen == sorted(set(seen))
    assert seen[-1] == len(said)
    stream = random.Random(7)
    cut, saved = tmp_path / "cut.mcap", tmp_path / "saved.mcap"
    for _ in range(60):
        at = stream.randrange(chunks[0][0], len(whole))
        cut.write_bytes(whole[:at])
        report = salvage(cut, saved)
        expected = max((count for (_, end), count in zip(chunks, seen, strict=True) if end <= at), default=0)
        assert list(TrafficLogReader(saved)) == list(TrafficLogReader(path))[:expected]
        assert report["frames"] == expected
        assert report["chunks"] == sum(end <= at for _, end in chunks)
        assert report["lost"]
        assert verify_log(saved)["ok"]
        assert TrafficLogReader(saved).attachments == MANIFEST
        saved.unlink()


def test_salvage_of_a_whole_log_loses_nothing(tmp_path: Path) -> None:
    with TrafficLogWriter(tmp_path / "a.mcap") as writer:
        writer.write(release(0, 0), START_NS)
        writer.event({"kind": "kill"}, START_NS + 1)
    report = salvage(tmp_path / "a.mcap", tmp_path / "b.mcap")
    assert (report["frames"], report["lost"], report["lost_bytes"]) == (1, [], 0)
    assert (
        list(TrafficLogReader(tmp_path / "b.mcap").items())[:2]
        == list(TrafficLogReader(tmp_path / "a.mcap").items())[:2]
    )


# -- checking ---------------------------------------------------------------------------------------------------------


def rewritten(path: Path, number: int, old: bytes, new: bytes) -> None:
    """Change bytes inside chunk ``number`` as a forger who knows MCAP would: every checksum of the file is right."""
    data = path.read_bytes()
    records = record_offsets(data)
    out = data[:8]
    count = 0
    for opcode, start, end in records:
        record = data[start:end]
        if opcode == 6:
            if count == number:
                content = record[9:]
                first, last, size, _, name_length = struct.unpack_from("<QQQII", content)
                at = 32 + name_length
                plain = lz4.frame.decompress(content[at + 8 :])
                assert plain.count(old) == 1
                plain = plain.replace(old, new)
                packed = lz4.frame.compress(plain)
                content = struct.pack("<QQQII", first, last, size, zlib.crc32(plain), name_length) + content[32:at]
                content += struct.pack("<Q", len(packed)) + packed
                record = struct.pack("<BQ", 6, len(content)) + content
            count += 1
        if opcode == 15:
            record = struct.pack("<BQI", 15, 4, zlib.crc32(out))
        out += record
    path.write_bytes(out + data[-8:])


def test_verify_a_whole_log(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(), attachments=MANIFEST, chunk_bytes=900)
    found = verify_log(path)
    assert found["ok"]
    assert found["capture"]["complete"]
    assert found["checkpoints"] > 3
    assert found["frames"] == len(conversation())


def test_verify_finds_a_release_that_was_changed_with_all_checksums_right(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(), attachments=MANIFEST, chunk_bytes=900)
    forged = struct.pack("<5d", *[12.0] * 5)
    chunk = next(k for k in range(20) if forged in plain_chunk(path, k))
    before = verify_log(path)["chain"]
    rewritten(path, chunk, forged, struct.pack("<5d", *[12.5] * 5))
    reader = TrafficLogReader(path)
    assert len(list(reader)) == len(conversation())
    assert reader.damage == [], "the forgery passes every checksum"
    found = verify_log(path)
    assert not found["ok"]
    assert len(found["chain_broken"]) == 1
    span = found["chain_broken"][0]
    place = next(k for k, parts in enumerate(parts_of(path)) if parts[2] == struct.pack("<5d", *[12.5] * 5))
    assert span["from_frame"] <= place < span["to_frame"]
    assert found["chain"] == before


def plain_chunk(path: Path, number: int) -> bytes:
    data = path.read_bytes()
    chunks = [data[start + 9 : end] for opcode, start, end in record_offsets(data) if opcode == 6]
    content = chunks[number]
    return lz4.frame.decompress(content[32 + struct.unpack_from("<I", content, 28)[0] + 8 :])


@pytest.mark.thorough
def test_verify_finds_every_bit_that_was_flipped_in_the_summary(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(), attachments=MANIFEST, chunk_bytes=900)
    whole = path.read_bytes()
    data_end = next(start for opcode, start, _ in record_offsets(whole) if opcode == Opcode.DATA_END)
    for at in range(data_end, len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        assert not verify_log(path)["ok"], at


def test_verify_finds_a_summary_that_hides_a_chunk_with_all_checksums_right(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(), chunk_bytes=900)
    whole = path.read_bytes()
    records = record_offsets(whole)
    hidden = next((start, end) for opcode, start, end in records if opcode == Opcode.CHUNK_INDEX)
    summary = next(end for opcode, _, end in records if opcode == Opcode.DATA_END)
    rest = whole[summary : hidden[0]] + whole[hidden[1] : -12]
    path.write_bytes(whole[:summary] + rest + struct.pack("<I", zlib.crc32(rest)) + whole[-8:])
    with path.open("rb") as file:
        seen = sum(channel.topic.startswith("/agents/") for _, channel, _ in make_reader(file).iter_messages())
    assert seen < len(conversation()), "other readers miss frames"
    found = verify_log(path)
    assert [one["meaning"] for one in found["damage"]] == [
        "the closing summary lists other chunks or attachments than the log holds: other MCAP readers miss some"
    ]
    assert found["frames"] == len(conversation())


def test_verify_finds_changed_attachments(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(), attachments=MANIFEST)
    path.write_bytes(path.read_bytes().replace(b'"agents": 4', b'"agents": 3'))
    assert not verify_log(path)["ok"]


def test_verify_finds_redrawn_noise_odd_sizes_and_a_cut(tmp_path: Path) -> None:
    redrawn = write_log(tmp_path / "a.mcap", [*conversation(), release(0, 0, value=99.0, round=0)])
    found = verify_log(redrawn)
    assert (found["ok"], found["redrawn"]) == (False, [[0, 0]])
    longer = encode(RUN, Release(0, 10, np.zeros(6)))
    found = verify_log(write_log(tmp_path / "b.mcap", [*conversation(), longer], attachments=MANIFEST))
    assert (found["ok"], found["other_sizes"]) == (False, {"48": 1})
    path = write_log(tmp_path / "c.mcap", conversation(), chunk_bytes=900)
    path.write_bytes(path.read_bytes()[:2000])
    found = verify_log(path)
    assert not found["ok"]
    assert found["chain_broken"] == []
    assert found["damage"]


def test_verify_accepts_releases_that_are_longer_than_a_model(tmp_path: Path) -> None:
    masked = [encode(RUN, Release(0, k, np.zeros(9))) for k in range(3)]
    found = verify_log(write_log(tmp_path / "a.mcap", masked, attachments=MANIFEST))
    assert (found["ok"], found["other_sizes"]) == (True, {})
