"""Several eavesdroppers' logs become the log that one eavesdropper would have written."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from coordinator_free.release import Release
from coordinator_free.theory.staleness import Ages
from node.traffic.check import verify_log
from node.traffic.format import Checkpoint, Event, Frame, TrafficLogError
from node.traffic.merge import merge_logs
from node.traffic.offsets import offsets_from
from node.traffic.reader import TrafficLogReader
from node.traffic.writer import TrafficLogWriter
from node.wire import Done, decode, encode
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from tests.helpers.speech import RUN, START_NS, hello
from tests.helpers.traffic_logs import parts_of

AGENTS, RELEASES = 6, 60
MS = 1_000_000
MANIFEST = {"manifest.json": json.dumps({"agents": AGENTS, "run": RUN.hex()}).encode()}
Spoken = list[tuple[int, tuple[bytes, ...]]]


def sender(parts: tuple[bytes, ...]) -> int:
    return int.from_bytes(parts[0][:4])


@pytest.fixture(scope="module")
def spoken() -> Spoken:
    """(time in ns, parts) of agents on a ring that wake at random and use what was released 2 ms before."""
    draw = random.Random(20)
    frames: Spoken = [(START_NS + agent, hello(agent)) for agent in range(AGENTS)]
    wakes = [(draw.expovariate(20), agent, 0) for agent in range(AGENTS)]
    heapq.heapify(wakes)
    released: dict[int, list[float]] = {agent: [] for agent in range(AGENTS)}
    while wakes:
        at, agent, index = heapq.heappop(wakes)
        arrived = [(j % AGENTS, sum(t < at - 0.002 for t in released[j % AGENTS]) - 1) for j in (agent - 1, agent + 1)]
        used = tuple((j, k) for j, k in arrived if k >= 0)
        message = Release(agent, index, np.full(3, float(index)), used)
        frames.append((START_NS + int(at * 1e9), encode(RUN, message)))
        released[agent].append(at)
        if index + 1 < RELEASES:
            heapq.heappush(wakes, (at + draw.expovariate(20), agent, index + 1))
        else:
            frames.append((START_NS + int(at * 1e9) + 1, encode(RUN, Done(agent, index))))
    return sorted(frames)


def log(path: Path, frames: Iterable[tuple[int, tuple[bytes, ...]]], *, ahead: int = 0, manifest: bool = True) -> Path:
    with TrafficLogWriter(path, MANIFEST if manifest else {}, chunk_bytes=4000) as writer:
        for at, parts in frames:
            writer.write(parts, at + ahead)
    return path


def shares(spoken: Spoken, folder: Path, clocks: Iterable[int], *, manifest: bool = True) -> list[Path]:
    """A log of two agents each, by eavesdroppers whose clocks are so many ns ahead."""
    return [
        log(folder / f"{k}.mcap", [f for f in spoken if sender(f[1]) // 2 == k], ahead=ahead, manifest=manifest)
        for k, ahead in enumerate(clocks)
    ]


def mean_age(frames: Iterable[tuple[bytes, ...]]) -> float:
    ages = Ages([[(i - 1) % AGENTS, (i + 1) % AGENTS] for i in range(AGENTS)], RELEASES)
    for parts in frames:
        message = decode(parts)
        if isinstance(message, Release):
            ages.receive(message)
    counts = ages.staleness.counts
    return float(np.average(np.arange(len(counts)), weights=counts))


def test_logs_of_equal_clocks_give_the_log_of_one_eavesdropper(spoken: Spoken, tmp_path: Path) -> None:
    whole = log(tmp_path / "whole.mcap", spoken)
    done = merge_logs(shares(spoken, tmp_path, (0, 0, 0)), tmp_path / "out.mcap")
    assert list(TrafficLogReader(tmp_path / "out.mcap")) == list(TrafficLogReader(whole))
    assert done["chain"] == verify_log(whole)["chain"] == verify_log(tmp_path / "out.mcap")["chain"]
    assert done["capture"] == verify_log(whole)["capture"]
    assert done["capture"]["complete"]
    assert (done["duplicates"], done["out_of_order"]) == (0, 0)
    assert [part["offset_ns"] for part in done["logs"]] == [0, 0, 0]


@pytest.mark.parametrize("manifest", [True, False])
def test_clocks_three_seconds_apart_give_the_ages_of_one_eavesdropper(
    spoken: Spoken, tmp_path: Path, manifest: bool
) -> None:
    clocks = (0, 3_000 * MS, -2_000 * MS)
    logs = shares(spoken, tmp_path, clocks, manifest=manifest)
    done = merge_logs(logs, tmp_path / "out.mcap")
    found = [part["offset_ns"] for part in done["logs"]]
    # What was released 2 ms before was used, so the bounds leave a few ms.
    assert found == [pytest.approx(-ahead, abs=5 * MS) for ahead in clocks]
    assert done["out_of_order"] == 0
    true = mean_age(parts for _, parts in spoken)
    assert mean_age(parts_of(tmp_path / "out.mcap")) == pytest.approx(true, abs=0.05)
    in_a_row = [parts for path in logs for parts in parts_of(path)]
    assert mean_age(in_a_row) > true + 5, "what logs one after another say"
    assert done["capture"]["complete"]
    assert verify_log(tmp_path / "out.mcap")["ok"]


def test_the_same_frame_of_two_eavesdroppers_is_written_once_and_a_repeat_as_often_as_it_was_received(
    spoken: Spoken, tmp_path: Path
) -> None:
    repeated = spoken[50]
    first = log(tmp_path / "a.mcap", sorted([*spoken, (repeated[0] + MS, repeated[1])]))
    lost = [frame for k, frame in enumerate(spoken) if k % 7]
    second = log(tmp_path / "b.mcap", lost, ahead=3_000 * MS)
    done = merge_logs([second, first], tmp_path / "out.mcap")
    assert done["frames"] == len(spoken) + 1
    assert done["duplicates"] == len(lost)
    assert sorted(parts_of(tmp_path / "out.mcap")) == sorted(parts_of(first))
    assert done["capture"]["complete"]
    assert done["capture"]["repeats"] == 1
    assert done["logs"][1]["offset_ns"] == pytest.approx(3_000 * MS, abs=3 * MS)
    assert mean_age(parts_of(tmp_path / "out.mcap")) == pytest.approx(mean_age(p for _, p in spoken), abs=0.05)


def test_a_repeat_after_a_new_start_is_not_taken_for_the_time_of_its_release(spoken: Spoken, tmp_path: Path) -> None:
    """Agents and eavesdroppers were started again: each agent repeats its last release first, 40 s later."""
    half = len(spoken) // 2
    last = {sender(parts): parts for _, parts in spoken[:half] if b"release" in parts[1]}
    pause = 40_000 * MS
    later = [(spoken[half][0], parts) for parts in last.values()] + spoken[half:]
    logs = []
    for k in range(3):
        (tmp_path / str(k)).mkdir()
        logs += [
            log(tmp_path / str(k) / name, [f for f in frames if sender(f[1]) // 2 == k], ahead=ahead)
            for name, frames, ahead in (("1.mcap", spoken[:half], 0), ("2.mcap", later, pause))
        ]
    done = merge_logs(logs, tmp_path / "out.mcap")
    assert [part["offset_ns"] for part in done["logs"]] == [0] * 6
    assert done["out_of_order"] == 0
    assert done["capture"]["complete"]


def test_what_no_eavesdropper_received_is_missing(spoken: Spoken, tmp_path: Path) -> None:
    at = next(k for k, (_, parts) in enumerate(spoken) if b"release" in parts[1] and sender(parts) == 3)
    index = decode(spoken[at][1]).index  # type: ignore[union-attr]
    done = merge_logs(shares([*spoken[:at], *spoken[at + 1 :]], tmp_path, (0, 0, 0)), tmp_path / "out.mcap")
    assert done["capture"]["missing"] == {"3": [[index, index]]}
    only = merge_logs([tmp_path / "0.mcap", tmp_path / "2.mcap"], tmp_path / "two.mcap")
    assert not only["capture"]["complete"]
    assert only["capture"]["missing"].keys() == {"2", "3"}


def test_another_body_in_another_log_is_a_finding(spoken: Spoken, tmp_path: Path) -> None:
    other = encode(RUN, Release(0, 7, np.full(3, 99.0), ()))
    logs = [*shares(spoken, tmp_path, (0, 0, 0)), log(tmp_path / "other.mcap", [(START_NS + 400 * MS, other)])]
    merge_logs(logs, tmp_path / "out.mcap")
    assert verify_log(tmp_path / "out.mcap")["redrawn"] == [[0, 7]]


def test_every_event_once_and_every_checkpoint(spoken: Spoken, tmp_path: Path) -> None:
    paths = []
    for k in range(2):
        paths.append(tmp_path / f"{k}.mcap")
        with TrafficLogWriter(paths[-1], MANIFEST) as writer:
            for at, parts in spoken:
                if sender(parts) % 2 == k:
                    writer.write(parts, at)
            writer.event({"fault": "kill", "time_ns": START_NS + 5}, START_NS + 5)
            writer.event({"fault": "join", "log": k}, START_NS + 6)
    merge_logs(paths, tmp_path / "out.mcap")
    events = [item.fields for item in TrafficLogReader(tmp_path / "out.mcap").items() if isinstance(item, Event)]
    kept = [event for event in events if event.get("event") != "checkpoint"]
    assert sorted(kept, key=json.dumps) == [
        {"fault": "join", "log": 0},
        {"fault": "join", "log": 1},
        {"fault": "kill", "time_ns": START_NS + 5},
    ]
    seals = [
        (log, item) for log, p in enumerate(paths) for item in TrafficLogReader(p).items() if type(item) is Checkpoint
    ]
    told = [(e["log"], e["frames"], e["chain"]) for e in events if e.get("event") == "checkpoint"]
    assert sorted(told) == sorted((log, seal.frames, seal.chain) for log, seal in seals)


def test_a_log_that_was_cut_is_merged_and_its_loss_is_told(spoken: Spoken, tmp_path: Path) -> None:
    logs = shares(spoken, tmp_path, (0, 0, 0))
    logs[1].write_bytes(logs[1].read_bytes()[: logs[1].stat().st_size // 2])
    done = merge_logs(logs, tmp_path / "out.mcap")
    assert "the file ends" in done["logs"][1]["damage"][0]["meaning"]
    assert done["capture"]["missing"].keys() == {"2", "3"}


def test_a_log_that_was_changed_is_refused_and_nothing_is_written(spoken: Spoken, tmp_path: Path) -> None:
    logs = shares(spoken, tmp_path, (0, 0, 0))
    changed = list(TrafficLogReader(logs[2]))
    logs[2].unlink()
    with TrafficLogWriter(logs[2], MANIFEST) as writer:
        writer.chain = bytes(32)
        for frame in changed:
            writer.write(frame.parts, frame.time_ns)
    with pytest.raises(TrafficLogError, match=r"2\.mcap is not what was written"):
        merge_logs(logs, tmp_path / "out.mcap")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.mcap", "1.mcap", "2.mcap"]


def test_logs_of_different_runs_are_refused(spoken: Spoken, tmp_path: Path) -> None:
    other = bytes(15) + b"\7"
    strange = [(at, encode(other, decode(parts))) for at, parts in spoken]
    own = shares(spoken, tmp_path, (0, 0, 0))
    for name, manifest in (("strange", {}), ("told", {"manifest.json": json.dumps({"run": other.hex()}).encode()})):
        with TrafficLogWriter(tmp_path / f"{name}.mcap", manifest) as writer:
            for at, parts in strange:
                writer.write(parts, at)
        with pytest.raises(TrafficLogError, match=rf"{name}\.mcap is a log of another run"):
            merge_logs([own[0], tmp_path / f"{name}.mcap"], tmp_path / "out.mcap")
    assert not (tmp_path / "out.mcap").exists()


def test_an_agent_that_names_what_it_cannot_have_used_moves_no_release_out_of_the_log(
    spoken: Spoken, tmp_path: Path
) -> None:
    lie = encode(RUN, Release(5, RELEASES + 3, np.zeros(3), ((0, RELEASES - 1),)))
    logs = shares(sorted([*spoken, (START_NS, lie)]), tmp_path, (0, 0, 0))
    done = merge_logs(logs, tmp_path / "out.mcap")
    assert done["out_of_order"] > 0
    assert done["frames"] == len(spoken) + 1


@pytest.mark.parametrize(
    ("bounds", "offsets"),
    [
        ({}, [0, 0, 0]),
        ({(0, 1): -5, (1, 0): -5}, [0, 0, 0]),
        ({(0, 1): 100, (1, 0): -140}, [0, 120, 0]),
        ({(0, 1): 100}, [0, 100, 0]),
        ({(1, 0): 100}, [0, -100, 0]),
        ({(0, 1): 100, (1, 0): -100, (1, 2): 50, (2, 1): -70}, [0, 100, 160]),
        # Only log 2 knows both others.
        ({(0, 2): 10, (2, 0): -20, (2, 1): 300, (1, 2): -320}, [0, 325, 15]),
        # A contradiction: in the middle of it.
        ({(0, 1): 100, (1, 0): -60}, [0, 80, 0]),
    ],
)
def test_offsets_satisfy_all_bounds(bounds: dict[tuple[int, int], int], offsets: list[int]) -> None:
    assert offsets_from(bounds, 3) == offsets


@pytest.mark.parametrize("seed", range(20))
def test_offsets_satisfy_bounds_of_any_clocks(seed: int) -> None:
    draw = random.Random(seed)
    logs = draw.randrange(2, 9)
    clocks = [draw.randrange(-(10**10), 10**10) for _ in range(logs)]
    pairs = [(a, b) for a in range(logs) for b in range(logs) if a != b and draw.random() < 0.5]
    bounds = {(a, b): clocks[a] - clocks[b] - draw.randrange(10**7) for a, b in pairs}
    found = offsets_from(bounds, logs)
    assert all(found[b] - found[a] >= least for (a, b), least in bounds.items())


def test_the_command(spoken: Spoken, tmp_path: Path) -> None:
    logs = shares(spoken, tmp_path, (0, 3_000 * MS, 0))
    done = answered("log", "merge", *logs, "-o", tmp_path / "a.mcap")
    assert done.returncode == 0, done.stderr
    assert f"{logs[1]}: " in done.stdout
    assert "clock moved by -3.00" in done.stdout
    assert "complete: 360 releases of 6 agents" in done.stdout
    as_json = answered("log", "merge", *logs, "--out", tmp_path / "b.mcap", "--json")
    conforms(json.loads(as_json.stdout), "log-merge")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda f: [f / "0.mcap"], "accepted are two or more, each named once"),
        (lambda f: [f / "0.mcap", f / "0.mcap"], "accepted are two or more, each named once"),
        (lambda f: [f / "0.mcap", f / "none.mcap"], "none.mcap cannot be read: No such file"),
        (lambda f: [f / "0.mcap", f / "1.mcap", "-o", f / "2.mcap"], "exists: a traffic log is never overwritten"),
    ],
)
def test_bad_input_is_told_in_one_line(
    spoken: Spoken, tmp_path: Path, arguments: Callable[[Path], list[object]], words: str
) -> None:
    shares(spoken, tmp_path, (0, 0, 0))
    given = arguments(tmp_path)
    done = answered("log", "merge", *given, *([] if "-o" in given else ["-o", tmp_path / "out.mcap"]))
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.mcap").exists()


def test_times_do_not_run_backwards(spoken: Spoken, tmp_path: Path) -> None:
    merge_logs(shares(spoken, tmp_path, (0, 100 * MS, -70 * MS)), tmp_path / "out.mcap")
    items = list(TrafficLogReader(tmp_path / "out.mcap"))
    assert all(isinstance(item, Frame) for item in items)
    assert all(a.time_ns <= b.time_ns for a, b in pairwise(items))
