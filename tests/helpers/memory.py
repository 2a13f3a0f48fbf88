"""What is in the memory of a running process."""

from __future__ import annotations

import re
from pathlib import Path


def memory_holds(pid: int, pattern: bytes) -> bool:
    """Whether a process has these bytes anywhere in what it may read of its own memory."""
    of = Path(f"/proc/{pid}")
    with (of / "maps").open() as maps, (of / "mem").open("rb", buffering=0) as memory:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if match is None or "[vvar" in line or "[vsyscall" in line:
                continue
            start, end = (int(text, 16) for text in match.groups())
            try:
                memory.seek(start)
                while start < end:
                    block = memory.read(min(1 << 24, end - start))
                    if not block:
                        break
                    if pattern in block:
                        return True
                    start += len(block)
            except OSError:
                continue
    return False
