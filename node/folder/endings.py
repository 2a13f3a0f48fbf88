"""Who did not finish, in a few lines: many failures for one reason are one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

MOST_REASONS = 5
MOST_AGENTS = 5


def failure_lines(failures: Sequence[dict[str, Any]]) -> list[str]:
    """One line a reason, the commonest first: how many, who (by number), and the last words of one of them.

    ``failures`` come from the launcher. Two failures have one reason if they ended with one status and
    their last words begin alike, numbers apart.
    """
    alike: dict[tuple[Any, str], list[dict[str, Any]]] = {}
    for failure in sorted(failures, key=lambda failure: str(failure["who"])):
        alike.setdefault((failure["status"], _beginning(_words(failure))), []).append(failure)
    groups = sorted(alike.values(), key=len, reverse=True)
    lines = [_line(group) for group in groups[:MOST_REASONS]]
    left = sum(len(group) for group in groups[MOST_REASONS:])
    if left:
        lines.append(f"{left} more did not finish, for {len(groups) - MOST_REASONS} other reasons: see results.json")
    return lines


def _line(group: list[dict[str, Any]]) -> str:
    first = group[0]
    status, words = first["status"], _words(first)
    if len(group) == 1:
        return f"{first['who']} did not finish (status {status}){': ' + words if words else ''}"
    listed = ", ".join(str(failure["who"]).removeprefix("agent-") for failure in group[:MOST_AGENTS])
    more = ", ..." if len(group) > MOST_AGENTS else ""
    line = f"{len(group)} agents did not finish (status {status}): {listed}{more}"
    return f"{line}; {first['who']}: {words}" if words else line


def _words(failure: dict[str, Any]) -> str:
    return "; ".join(str(word) for word in failure.get("last_words", []))


def _beginning(words: str) -> str:
    return re.sub(r"\d+", "0", re.split(r"[:;]", words)[0])
