"""Many failures for one reason are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node.folder.endings import MOST_REASONS, Failure, failure, failure_lines, failures_of
from node.places import EAVESDROPPER


def failed(agent: int, words: str, status: int = 3) -> Failure:
    return Failure(f"agent-{agent:04d}", status, (words,))


def test_one_failure_says_everything() -> None:
    assert failure_lines([failed(4, "killed by SIGKILL", -9)]) == [
        "agent-0004 did not finish (status -9): killed by SIGKILL"
    ]
    assert failure_lines([Failure("agent-0004", 1, ())]) == ["agent-0004 did not finish (status 1)"]
    assert failure_lines([]) == []


def test_sixty_five_with_one_reason_are_one_line() -> None:
    late = "not ready after network.deadline = 0.05 s: nothing received from agents {}, {}"
    lines = failure_lines([failed(agent, late.format(agent + 1, agent + 2)) for agent in reversed(range(65))])
    assert lines == [
        "65 agents did not finish (status 3): 0064, 0063, 0062, 0061, 0060, ...; agent-0064: " + late.format(65, 66)
    ]


def test_the_first_to_fail_comes_first_and_then_the_commonest_reason() -> None:
    full = [failed(agent, "ledger: No space left on device", 4) for agent in range(3)]
    lines = failure_lines([failed(9, "killed by SIGKILL", -9), failed(8, "gone"), *full])
    assert lines[0].startswith("agent-0009")
    assert lines[1].startswith("3 agents did not finish (status 4): 0000, 0001, 0002; agent-0000: ledger")
    assert lines[2].startswith("agent-0008")


@pytest.mark.parametrize("key", ["process", "who"], ids=["now", "older folders"])
def test_failures_are_in_the_order_in_which_the_processes_ended(tmp_path: Path, key: str) -> None:
    ends = [("agent-0002", -9), ("agent-0003", 1), ("agent-0001", 5), ("agent-0003", 5), ("agent-0000", 0)]
    lines = [json.dumps({key: name, "pid": 1, "status": status}) + "\n" for name, status in ends]
    (tmp_path / "exits.jsonl").write_text("".join(lines))
    assert [one.process for one in failures_of(tmp_path)] == ["agent-0002", "agent-0001", "agent-0003"]


def test_a_process_that_was_started_again_has_not_failed_until_it_ends_again(tmp_path: Path) -> None:
    ends = [("agent-0002", -9), ("agent-0001", -9), ("agent-0002", None), ("agent-0001", None), ("agent-0001", 5)]
    lines = [json.dumps({"process": name, "pid": 1, "status": status}) + "\n" for name, status in ends]
    (tmp_path / "exits.jsonl").write_text("".join(lines))
    assert [(one.process, one.status) for one in failures_of(tmp_path)] == [("agent-0001", 5)]


def test_an_eavesdropper_that_had_closed_its_log_did_not_fail_however_it_was_ended(tmp_path: Path) -> None:
    log = tmp_path / "eavesdropper.log"
    assert failure(tmp_path, EAVESDROPPER, -15) is not None
    log.write_text('{"failure": null, "ended": "stopped"}\nincomplete, missing agent 3: from 9 on\n')
    assert failure(tmp_path, EAVESDROPPER, -15) is None
    log.write_text('{"failure": "No space left on device"}\n')
    assert failure(tmp_path, EAVESDROPPER, -15) is not None
    assert failure(tmp_path, EAVESDROPPER, 2) is not None


@pytest.mark.parametrize("reasons", [MOST_REASONS, MOST_REASONS + 3])
def test_many_reasons_are_cut_and_counted(reasons: int) -> None:
    lines = failure_lines([failed(number, f"{'ab' * number} gone") for number in range(reasons)])
    assert len(lines) == MOST_REASONS + (reasons > MOST_REASONS)
    if reasons > MOST_REASONS:
        assert lines[-1] == "3 more did not finish, for 3 other reasons: see results.json"


def test_causes_come_before_their_consequences() -> None:
    waited = "stopped releasing: round {}: agents {}, {} ended before it"
    failures = [failed(agent, waited.format(6 + agent, agent, agent + 1), 5) for agent in range(4)]
    cause = "stopped releasing: the algorithm failed with a RuntimeError at loss.py:7, in slope"
    lines = failure_lines([*failures, failed(7, cause, 5)])
    assert lines == [
        f"agent-0007 did not finish (status 5): {cause}",
        "4 agents did not finish (status 5): 0000, 0001, 0002, 0003; agent-0000: " + waited.format(6, 0, 1),
    ]
