"""The place of losses, algorithms, mechanisms and topologies that a user wrote: ``package.module:NAME``.

Rules that hold here:
- The current folder is searched last, after everything that is installed: a file in it never replaces a module of this
  program or of Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import node


class _Folder:
    """Finds modules in one folder; Python asks the finders of ``sys.meta_path`` in their order."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the folder itself: a package's own modules lie on the package's path."""
        return PathFinder.find_spec(name, [self.folder], target) if path is None else None


def find_here() -> None:
    """Let modules be found in the current folder too. Each process of a run does so once, when it starts.

    A folder at the end of ``sys.path`` is not last: a program installed for editing is found by a finder after it.
    """
    here = str(Path.cwd())
    if not any(isinstance(finder, _Folder) and finder.folder == here for finder in sys.meta_path):
        sys.meta_path.append(_Folder(here))


def without_here() -> dict[str, str]:
    """The environment of a Python process that runs this very program and does not put the current folder first."""
    path = [str(Path(str(node.__file__)).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(part for part in path if part)}
