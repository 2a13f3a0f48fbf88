"""``python -m node.worlds.health FOLDER``: the state of the agent or the eavesdropper of the part FOLDER, in one line.

Nothing here imports numpy.

Exit status 0 if it listens, is ready, sends releases or has finished; 1 if it failed, died or never began.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from node.folder.status import State, read_status


def health(folder: Path) -> tuple[bool, str]:
    """Whether the agent or eavesdropper of the part ``folder`` is well, and its state in words."""
    if (folder / "eavesdropper.status").exists():
        return True, "listens"
    found = sorted(folder.glob("agents/agent-*/status"))
    status = read_status(found[0]) if len(found) == 1 else None
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
