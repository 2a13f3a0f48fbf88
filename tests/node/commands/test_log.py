"""The commands: what they print, and one line and exit status 2 for bad input."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.cli import main
from node.commands.log import _moment
from node.traffic.reader import TrafficLogReader
from tests.helpers.documents import conforms
from tests.helpers.speech import RUN, conversation, release, write_log

MANIFEST = {
    "manifest.json": json.dumps({"agents": 4, "run": RUN.hex()}).encode(),
    "config.toml": b"[learning]\nmu = 20.0\n",
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "a.mcap", conversation(), attachments=MANIFEST, chunk_bytes=900)


@pytest.fixture(autouse=True)
def signals_restored() -> Iterator[None]:
    """The commands run in this process, and take over its signals."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def exit_status(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    return code if isinstance(code, int) else 0


def test_info_in_words_and_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status("log", "info", log) == 0
    words = capsys.readouterr().out
    assert "complete: 40 releases of 4 agents" in words
    assert "mu = 20.0" in words
    assert "began" in words
    assert exit_status("log", "info", log, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    conforms(document, "log-info")
    assert document["releases"] == 40


@pytest.mark.parametrize(
    ("time_ns", "told"),
    [(1_795_974_568_646_813_778, "2026-11-29 17:49:28 UTC"), (2_500_000_000, "at 2.500 s"), (None, "no frame")],
)
def test_a_log_tells_when_it_began(time_ns: int | None, told: str) -> None:
    assert _moment(time_ns).startswith(told)


def test_info_on_a_cut_log_tells_what_is_whole(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes()[:2000])
    assert exit_status("log", "info", log) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "not closed" in words
    assert "the frames after the last whole chunk are lost" in words
    assert "incomplete, missing agent 0" in words


def test_cat_and_its_formats(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status("log", "cat", log, "--agent", 2, "--limit", 3) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["from"] for row in rows] == [2, 2, 2]
    assert exit_status("log", "cat", log, "--format", "csv", "--rounds", "3-4") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 4 + 8 + 4
    assert exit_status("log", "cat", log, "--format", "ndjson", "--out", tmp_path / "a.ndjson") == 0
    assert len((tmp_path / "a.ndjson").read_text().splitlines()) == len(conversation())
    assert exit_status("log", "cat", log, "--format", "xml") == 2
    assert "--format xml: accepted are ndjson, csv and parquet" in capsys.readouterr().err
    assert exit_status("log", "cat", log, "--format", "parquet") == 2
    assert "--out" in capsys.readouterr().err


def test_filter_salvage_and_verify(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status("log", "filter", log, "--out", tmp_path / "b.mcap", "--exclude", 0, "--json") == 0
    filtered = json.loads(capsys.readouterr().out)
    conforms(filtered, "log-filter")
    assert filtered["frames"] == 36
    assert exit_status("log", "verify", tmp_path / "b.mcap") == 0
    assert "whole and unchanged" in capsys.readouterr().out
    log.write_bytes(log.read_bytes()[:2500])
    assert exit_status("log", "verify", log) == 1
    assert "NOT whole" in capsys.readouterr().out
    assert exit_status("log", "salvage", log, "--out", tmp_path / "c.mcap") == 0
    assert "lost: " in capsys.readouterr().out
    assert exit_status("log", "verify", tmp_path / "c.mcap", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    conforms(found, "log-verify")
    assert exit_status("log", "verify", log, "--json") == 1
    conforms(json.loads(capsys.readouterr().out), "log-verify")
    assert exit_status("log", "salvage", log, "--out", tmp_path / "d.mcap", "--json") == 0
    conforms(json.loads(capsys.readouterr().out), "log-salvage")
    assert found["frames"] == len(list(TrafficLogReader(log))) > 0


def test_verify_tells_redrawn_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path / "a.mcap", [*conversation(), release(1, 4, value=0.0, round=4)])
    assert exit_status("log", "verify", path) == 1
    assert "agent 1 released index 4 with different bytes" in capsys.readouterr().out


BAD: list[tuple[list[str], str]] = [
    (["log", "info", "{folder}/none.mcap"], "cannot be read: No such file"),
    (["log", "info", "{folder}"], "cannot be read: Is a directory"),
    (["log", "info", "{folder}/text"], "is not a traffic log"),
    (["log", "verify", "{folder}/text"], "is not a traffic log"),
    (["log", "salvage", "{folder}/text", "--out", "{folder}/x"], "is not a traffic log"),
    (["log", "info", "{folder}/version.mcap"], "version 9; this program reads 1"),
    (["log", "cat", "{log}", "--agent", "44"], "agent 44 is not in"),
    (["log", "cat", "{log}", "--rounds", "a-b"], "--rounds a-b: should be FIRST-LAST"),
    (["log", "filter", "{log}", "--out", "{folder}/x", "--agent", "4"], "its agents: 0 to 3"),
    (["log", "filter", "{log}", "--out", "{log}"], "exists: a traffic log is never overwritten"),
    (["replay", "{log}", "--rate", "0", "--to", "ipc://{folder}/s"], "--rate 0: should be from 0.01 to 1000"),
    (["replay", "{log}", "--rate", "0", "--dry-run"], "--rate 0"),
    (["replay", "{folder}/text", "--to", "ipc://{folder}/s"], "is not a traffic log"),
    (["replay", "{folder}/version.mcap", "--to", "ipc://{folder}/s"], "version 9"),
    (["replay", "{log}"], "--to ENDPOINT is missing"),
    (["replay", "{log}", "--to", "nonsense"], "--to nonsense: cannot be bound"),
    (["replay", "{log}", "--to", "ipc://{folder}/text"], "exists and is not a socket"),
    (["replay", "{log}", "--agent", "4", "--to", "ipc://{folder}/s"], "agent 4 is not in"),
    (["replay", "{log}", "--exclude", "4", "--dry-run"], "agent 4 is not in"),
    (["replay", "{log}", "--loop", "0", "--dry-run"], "--loop 0"),
    (["replay", "{log}", "--start-offset", "9", "--dry-run"], "no frame of"),
    (["replay", "{log}", "--start-offset", "9", "--to", "ipc://{folder}/s"], "no frame of"),
    (["log", "filter", "{log}", "--start-offset", "9", "--out", "{folder}/x"], "no frame of"),
    (["replay", "{log}", "--duration", "-1", "--dry-run"], "--duration -1"),
    (["replay", "{log}", "--wait-subscribers", "-1", "--dry-run"], "--wait-subscribers -1"),
    (["eavesdrop", "nonsense", "--log", "{folder}/x"], "accepted are tcp://HOST:PORT and ipc://PATH"),
    (["eavesdrop", "ipc://{folder}/s", "--log", "{log}"], "exists: a traffic log is never overwritten"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD, ids=[" ".join(case[:2]) + f" {named}" for case, named in BAD])
def test_bad_input_is_one_line_and_status_2(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    (tmp_path / "text").write_text("this is no log at all\n")
    version = write_log(tmp_path / "version.mcap", conversation())
    version.write_bytes(version.read_bytes().replace(b"sottovoce-traffic/1", b"sottovoce-traffic/9"))
    before = log.read_bytes()
    given = [argument.format(folder=tmp_path, log=log) for argument in arguments]
    assert exit_status(*given) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert named in printed.err
    assert len(printed.err.splitlines()) == 1
    assert log.read_bytes() == before
    assert (tmp_path / "text").read_text() == "this is no log at all\n"


def test_a_dry_run_opens_no_socket(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["replay", log, "--to", f"ipc://{tmp_path}/s", "--dry-run", "--rate", "2", "--loop", "3", "--json"]
    assert exit_status(*arguments) == 0
    planned = json.loads(capsys.readouterr().out)
    conforms(planned, "replay-plan")
    assert planned["frames"] == 3 * len(conversation())
    assert planned["seconds"] == pytest.approx(3 * 0.047 / 2)
    assert not (tmp_path / "s").exists()


def test_replay_and_eavesdrop_meet(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The replay runs in a thread, since only the main thread can take the eavesdropper's signals."""
    endpoint = f"ipc://{tmp_path}/s"
    status: list[int] = []
    arguments = ["replay", log, "--to", endpoint, "--as-fast-as-possible", "--stats", "--json"]
    player = threading.Thread(target=lambda: status.append(exit_status(*arguments)))
    player.start()
    assert exit_status("eavesdrop", endpoint, "--log", tmp_path / "b.mcap") == 0
    player.join(600)
    assert status == [0]
    assert [f.parts for f in TrafficLogReader(tmp_path / "b.mcap")] == [f.parts for f in TrafficLogReader(log)]
    printed = capsys.readouterr().out
    report = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    conforms(report, "replay")
    assert report["frames"] == len(conversation())
    assert report["frames_per_agent"] == {str(k): 12 for k in range(4)}
    assert "complete: 40 releases of 4 agents" in printed


@pytest.mark.parametrize("command", ["info", "cat", "filter", "salvage", "verify"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status("log", command, "--help") == 0
    assert "Example:" in capsys.readouterr().out
