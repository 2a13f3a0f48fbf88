"""The place of losses, algorithms, mechanisms and topologies that a user wrote: ``package.module:NAME``.

Rules that hold here:
- The current folder is searched last, after everything that is installed: a file in it never replaces a module of this
  program or of Python.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import node


def find_here() -> None:
    """Let modules be found in the current folder too. Each process of a run does so once, when it starts."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def without_here() -> dict[str, str]:
    """The environment of a Python process that runs this very program and does not put the current folder first."""
    path = [str(Path(str(node.__file__)).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(part for part in path if part)}
