"""Many failures for one reason are one line."""

from __future__ import annotations

from typing import Any

import pytest

from node.folder.endings import MOST_REASONS, failure_lines


def failure(agent: int, words: str, status: int = 3) -> dict[str, Any]:
    return {"who": f"agent-{agent:04d}", "status": status, "last_words": [words]}


def test_one_failure_says_everything() -> None:
    assert failure_lines([failure(4, "killed by SIGKILL", -9)]) == [
        "agent-0004 did not finish (status -9): killed by SIGKILL"
    ]
    assert failure_lines([{"who": "agent-0004", "status": 1}]) == ["agent-0004 did not finish (status 1)"]
    assert failure_lines([]) == []


def test_sixty_five_with_one_reason_are_one_line() -> None:
    late = "not ready after network.deadline = 0.05 s: nothing heard from agents {}, {}"
    lines = failure_lines([failure(agent, late.format(agent + 1, agent + 2)) for agent in reversed(range(65))])
    assert lines == [
        "65 agents did not finish (status 3): 0000, 0001, 0002, 0003, 0004, ...; agent-0000: " + late.format(1, 2)
    ]


def test_reasons_are_apart_and_the_commonest_comes_first() -> None:
    full = [failure(agent, "ledger: No space left on device", 4) for agent in range(3)]
    lines = failure_lines([failure(9, "killed by SIGKILL", -9), *full])
    assert lines[0].startswith("3 agents did not finish (status 4): 0000, 0001, 0002; agent-0000: ledger")
    assert lines[1].startswith("agent-0009")


@pytest.mark.parametrize("reasons", [MOST_REASONS, MOST_REASONS + 3])
def test_many_reasons_are_cut_and_counted(reasons: int) -> None:
    lines = failure_lines([failure(number, f"{'ab' * number} gone") for number in range(reasons)])
    assert len(lines) == MOST_REASONS + (reasons > MOST_REASONS)
    if reasons > MOST_REASONS:
        assert lines[-1] == "3 more did not finish, for 3 other reasons: see results.json"
