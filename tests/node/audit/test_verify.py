"""Re-execution: bit for bit, and the first difference with what it was computed from."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from coordinator_free.privacy.mechanism import GRID
from node.audit.verify import verify
from node.cli import main
from node.folder.journal import Journal
from node.traffic.reader import TrafficLogReader
from tests.helpers.audited_runs import is_release, release
from tests.helpers.command import run_cli
from tests.helpers.documents import conforms


def test_a_run_is_what_its_code_says(private):
    verdict = verify(private)
    assert verdict.ok
    assert verdict.exact
    assert (verdict.agents, verdict.releases, verdict.filled, verdict.missing) == (8, 80, 0, 0)


def test_a_run_without_privacy_too(open_run):
    assert verify(open_run).ok


def test_one_changed_bit_in_the_log_is_named_with_its_origin(private, rewrite, capsys):
    def tamper(parts):
        if is_release(parts, 3, 5):
            body = bytearray(parts[2])
            body[0] ^= 1
            yield parts[0], parts[1], bytes(body)
        else:
            yield parts

    rewrite(private, tamper)
    assert run_cli("verify", str(private)) == 1
    first = capsys.readouterr().out.splitlines()[1]
    assert "agent 3 release 5" in first
    assert "the vector differs" in first
    assert "computed from its release 4" in first


def test_a_changed_input_is_found_where_it_was_used(private, rewrite):
    def tamper(parts):
        if is_release(parts, 3, 5):
            yield parts[0], parts[1], (np.frombuffer(parts[2]) + GRID).tobytes()
        else:
            yield parts

    rewrite(private, tamper)
    verdict = verify(private)
    assert (verdict.differences[0].agent, verdict.differences[0].index) == (3, 5)
    assert {d.agent for d in verdict.differences} <= {2, 3, 4}


def test_a_shard_changed_in_one_bit_is_named(private, capsys):
    shard = private / "shards" / "agent-0004.npz"
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 1
    shard.write_bytes(data)
    assert run_cli("verify", str(private)) == 1
    assert "agent-0004.npz" in capsys.readouterr().out.replace("\n", "")


def test_another_secret_is_another_run(private):
    shutil.copy(private / "agents" / "agent-0001" / "secret", private / "agents" / "agent-0002" / "secret")
    verdict = verify(private)
    assert [(d.agent, d.index) for d in verdict.differences] == [(2, 0)]
    assert "the start" in verdict.differences[0].computed_from


def test_journals_fill_in_what_the_log_missed(private, rewrite):
    frames = [frame.parts for frame in TrafficLogReader(private / "traffic.mcap")]
    for agent in range(8):
        journal = Journal(private / "agents" / f"agent-{agent:04d}" / "journal.bin")
        for parts in frames:
            said = release(parts)
            if said is not None and said.sender == agent:
                journal.write(0, parts)
        journal.close()
    rewrite(private, lambda parts: [] if is_release(parts, 3, 5) else [parts])
    verdict = verify(private)
    assert verdict.ok, verdict
    assert verdict.filled == 1


def test_what_nobody_has_is_counted_and_no_difference(private, rewrite, capsys):
    rewrite(private, lambda parts: [] if is_release(parts, 3, 5) else [parts])
    verdict = verify(private)
    assert verdict.missing == 1
    assert not verdict.ok
    assert not verdict.differences
    assert {stop.agent for stop in verdict.stopped} <= {2, 3, 4}
    assert run_cli("verify", str(private)) == 1
    assert "incomplete" in capsys.readouterr().out


def test_a_journal_that_disagrees_with_the_log_is_found(private):
    journal = Journal(private / "agents" / "agent-0000" / "journal.bin")
    for frame in TrafficLogReader(private / "traffic.mcap"):
        said = release(frame.parts)
        if said is not None and said.sender == 0:
            topic, header, body = frame.parts
            journal.write(0, (topic, header, bytes(len(body)) if said.index == 2 else body))
    journal.close()
    verdict = verify(private)
    assert not verdict.ok
    assert verdict.findings == ("agent 0 release 2: its journal holds other bytes than the log",)


def test_on_another_build_small_differences_pass_and_large_ones_do_not(private, rewrite):
    manifest = json.loads((private / "manifest.json").read_text())
    manifest["build"]["processor"] = "another"
    (private / "manifest.json").write_text(json.dumps(manifest))
    verdict = verify(private)
    assert verdict.ok
    assert not verdict.exact

    def tamper(parts):
        if is_release(parts, 3, 5):
            yield parts[0], parts[1], (np.frombuffer(parts[2]) + 4 * GRID).tobytes()
        else:
            yield parts

    rewrite(private, tamper)
    found = verify(private).differences
    assert (found[0].agent, found[0].index) == (3, 5)


def test_json_is_one_document(private, capsys):
    assert run_cli("verify", str(private), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    conforms(document, "verify")
    assert document["ok"] is True
    assert document["bit_for_bit"] is True
    (private / "shards" / "agent-0000.npz").write_bytes(b"no shard")
    assert run_cli("verify", str(private), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    conforms(document, "verify")
    assert "agent-0000.npz" in document["findings"][0]


def test_a_folder_that_is_no_run_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["verify", str(tmp_path)])
    assert stop.value.code == 2
    assert "not a run's folder" in capsys.readouterr().err
