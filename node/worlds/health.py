"""``python -m node.worlds.health FOLDER``: the state of the agents or the eavesdropper of the part FOLDER, in one line.

Nothing here imports numpy.

Exit status 0 if it listens, is ready, sends releases or has finished; 1 if it failed, died or never began.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

from node.folder.status import State, read_status


def health(folder: Path) -> tuple[bool, str]:
    """Whether the agents or the eavesdropper of the part ``folder`` are well, and their state in words."""
    places = sorted(folder.glob("agents/agent-*"))
    if not places and (folder / "eavesdropper.status").exists():
        return True, "listens"
    found = [_of_agent(place) for place in places]
    if len(found) == 1:
        return found[0]
    states = Counter(words.partition(",")[0] for _, words in found)
    words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return bool(found) and all(well for well, _ in found), words or "no status yet"


def _of_agent(place: Path) -> tuple[bool, str]:
    status = read_status(place / "status")
    if status is None:
        return False, "no status yet"
    counted = f"{status.state.name.lower()}, {status.sent} releases sent, {status.received} received"
    if status.state is State.FINISHED:
        return True, counted
    if status.state in {State.STARTING, State.FAILED}:
        return False, counted
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return False, f"process {status.pid} is gone: {counted}"
    except PermissionError:
        pass
    return True, counted


def main() -> int:
    """Print the state of the part that the first argument names; returns the exit status."""
    well, words = health(Path(sys.argv[1]))
    print(words)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
