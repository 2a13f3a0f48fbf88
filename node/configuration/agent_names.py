"""What text names an agent: in graph files, in files of budgets, and in events.

An agent is named by its whole name ("school 12"), by the part that is its own ("12"), or as its folder is
("agent-0003"). A plain number is an agent's number only where none of the plain numbers beside it is a name.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import takewhile

from node.places import agent_name


class AgentNameError(ValueError):
    """Text that names no agent, or might name two: ``text``, and one line that says what would be accepted."""

    def __init__(self, text: str, message: str) -> None:
        super().__init__(message)
        self.text = text


def numbered(texts: Sequence[str], names: Sequence[str]) -> list[int]:
    """The number of the agent that each text names, among agents called ``names``; raises `AgentNameError`."""
    known = _names(names)
    unknown = [text for text in texts if text not in known]
    numbers = {str(number): number for number in range(len(names))}
    for text in unknown:
        if text not in numbers:
            raise AgentNameError(text, _no_agent(text, names, list(known)))
    doubtful = [text for text in texts if text in numbers and text in known]
    if unknown and doubtful:
        raise AgentNameError(
            doubtful[0],
            f"{doubtful[0]!r} is the name of {names[known[doubtful[0]]]!r}, but {unknown[0]!r} is no name, only a "
            f"number; write names throughout, such as {names[numbers[unknown[0]]]!r} or {agent_name(0)!r}",
        )
    return [known.get(text, numbers.get(text, -1)) for text in texts]


def have_own_names(names: Sequence[str]) -> bool:
    """Whether the agents are called something else than their numbers."""
    return any(name != f"agent {number}" for number, name in enumerate(names))


def _names(names: Sequence[str]) -> dict[str, int]:
    """Each name's agent: whole names before parts of them, longer parts before shorter ones."""
    found = {name: number for number, name in reversed(list(enumerate(names)))}
    pairs = enumerate(zip(min(names), max(names), strict=False))  # what these two share all share
    shared = takewhile(lambda pair: pair[1][0] == pair[1][1], pairs)
    for start in [place + 1 for place, (letter, _) in shared if letter == " "]:
        for number, name in enumerate(names):
            found.setdefault(name[start:], number)
    for number in range(len(names)):
        found.setdefault(agent_name(number), number)
    return found


def _no_agent(text: str, names: Sequence[str], known: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f", or its name, such as {names[0]!r}"
    return f"there is no agent {text!r}; accepted are 0 to {len(names) - 1}{hint}"
