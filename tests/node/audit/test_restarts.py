"""One release for each index: by the log alone, by journals and ledgers, and when a run is executed again."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from coordinator_free.privacy.mechanism import GRID
from node.audit.auditor import audit
from node.audit.evidence import gather
from node.audit.outsider import audit_log
from node.audit.recording import read_recording
from node.audit.restarts import restarts
from node.audit.verify import verify
from node.folder.journal import Journal
from node.folder.ledger import LedgerFile
from node.folder.run import read_run
from node.traffic.reader import TrafficLogReader
from tests.helpers.audited_runs import is_release
from tests.helpers.canary_runs import run_with_canaries

AGENT, INDEX = 2, 4
DRAWN_AGAIN = f"agent {AGENT} release {INDEX}: received with two different bodies, its noise was drawn again"


def other(parts):
    return parts[0], parts[1], (np.frombuffer(parts[2]) + GRID).tobytes()


def and_another(parts):
    yield parts
    if is_release(parts, AGENT, INDEX):
        yield other(parts)


def with_ledger_lines(folder, agent, *lines):
    """Add lines to an agent's ledger."""
    run = read_run(folder)
    path = folder / "agents" / f"agent-{agent:04d}" / "ledger.jsonl"
    with LedgerFile.open(path, run.rows[agent].digest()) as ledger:
        for line in lines:
            ledger._write_line({"run": run.run.hex(), **line})
    return folder


def frame_of(folder, agent, index):
    frames = (frame.parts for frame in TrafficLogReader(folder / "traffic.mcap"))
    return next(parts for parts in frames if is_release(parts, agent, index))


def as_kept(parts):
    return {"again": INDEX, "frame": [base64.b64encode(part).decode() for part in parts]}


def test_a_second_release_of_an_index_is_found_without_any_shard(tmp_path, rewrite):
    run = run_with_canaries(tmp_path / "run", canaries=12)
    rewrite(run, lambda parts: [parts, parts])
    assert audit_log([run / "traffic.mcap"], run / "coins.json").findings == (), "the same bytes again are no fault"
    rewrite(run, and_another)
    assert audit_log([run / "traffic.mcap"], run / "coins.json").findings == (DRAWN_AGAIN,)


def test_a_run_with_a_second_release_of_an_index_is_not_verified(private, rewrite):
    rewrite(private, and_another)
    verdict = verify(private)
    assert not verdict.ok
    assert verdict.findings == (DRAWN_AGAIN,)


def test_a_journal_with_two_releases_of_an_index_is_found_without_a_log(private):
    parts = frame_of(private, AGENT, INDEX)
    (private / "traffic.mcap").unlink()
    journal = Journal(private / "agents" / f"agent-{AGENT:04d}" / "journal.bin")
    for written in (parts, parts):
        journal.write(0, written)
    assert read_recording(private).findings == [], "the same bytes again are no fault"
    journal.write(0, other(parts))
    journal.close()
    [finding] = read_recording(private).findings
    assert finding == f"agent {AGENT} release {INDEX}: its journal holds two different releases of this index"


def test_a_ledger_that_holds_another_release_than_was_sent_is_found(private):
    parts = frame_of(private, AGENT, INDEX)
    assert restarts(read_recording(with_ledger_lines(private, AGENT, as_kept(parts)))) == []
    with_ledger_lines(private, AGENT, as_kept(other(parts)))
    assert restarts(read_recording(private)) == [
        f"agent {AGENT} release {INDEX}: its ledger holds two different releases of this index"
    ]


def test_a_release_that_the_ledger_never_held_is_found(private):
    with_ledger_lines(private, AGENT, as_kept(other(frame_of(private, AGENT, INDEX))))
    assert restarts(read_recording(private)) == [
        f"agent {AGENT} release {INDEX}: its ledger holds another release than was recorded"
    ]


@pytest.mark.parametrize(("nonces", "found"), [(("aa" * 32, "bb" * 32), []), (("aa" * 32, "aa" * 32), [AGENT])])
def test_two_starts_with_one_nonce_are_found(private, nonces, found):
    with_ledger_lines(private, AGENT, *({"start": 10, "nonce": nonce} for nonce in nonces))
    assert restarts(read_recording(private)) == [
        f"agent {agent}: two starts of its process have one nonce, so they draw the same noise" for agent in found
    ]


def test_noise_of_an_earlier_index_is_found_by_the_tests_and_by_execution_again(private, rewrite):
    rows = gather(read_recording(private), bytes(16)).attacker.noise().rows
    noise = {row.index: row.noise for row in rows if row.agent == AGENT}

    def reused(parts):
        if is_release(parts, AGENT, INDEX + 1):
            body = np.frombuffer(parts[2]) - noise[INDEX + 1] + noise[INDEX]
            yield parts[0], parts[1], body.tobytes()
        else:
            yield parts

    rewrite(private, reused)
    findings = audit(private, trials=20, agents=[0], secret=bytes(16)).findings
    shared = f"agent {AGENT} release {INDEX} and agent {AGENT} release {INDEX + 1} share their noise"
    assert any(shared in finding for finding in findings)
    assert next((d.agent, d.index) for d in verify(private).differences) == (AGENT, INDEX + 1)
