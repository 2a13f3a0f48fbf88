"""The place of losses, algorithms, mechanisms and topologies that a user wrote: ``package.module:NAME``.

Also: which line of a user's own code an error came from.

Rules that hold here:
- The current folder is searched last, after everything that is installed: a file in it never replaces a module of this
  program or of Python.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, TracebackType

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


_LONGEST = 300
"""Characters of an error's message in one line."""


def _not_a_users() -> tuple[str, ...]:
    """How the file names of this program, of Python and of installed packages begin."""
    import sysconfig  # only where an error is told: it loads Python's build settings

    program = Path(str(node.__file__)).parent.parent
    packages = (str(program / name) for name in ("topology", "coordinator_free", "node", "sottovoce"))
    python = (sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
    return ("<", *(folder + os.sep for folder in (*packages, *python)))


def place_of(error: BaseException) -> str:
    """Where a user's own code raised an error, or called what raised it: "loss.py:5, in slope"; empty if nowhere."""
    seen: BaseException | None = error
    others = _not_a_users()
    while seen is not None:
        own = [f for f in traceback.extract_tb(seen.__traceback__) if not f.filename.startswith(others)]
        if own:
            return f"{Path(own[-1].filename).name}:{own[-1].lineno}, in {own[-1].name}"
        seen = seen.__cause__ or seen.__context__
    return ""


def one_line(error: BaseException) -> str:
    """An error in one line: its type, the first line of its message, and the line of a user's own code."""
    message = next(iter(str(error).strip().splitlines()), "")[:_LONGEST]
    place = place_of(error)
    return f"{type(error).__name__}{': ' + message if message else ''}{f' ({place})' if place else ''}"


def message_of(error: BaseException) -> str:
    """What a person is told of an error: its message, and the line of a user's own code that it came from.

    A `ValueError` says what was refused and why. Of another error of a user's own code the type is told too.
    """
    place = place_of(error)
    if place and not isinstance(error, ValueError):
        return one_line(error)
    return (str(error) or type(error).__name__) + (f" ({place})" if place else "")


def end_errors_with_one_line() -> None:
    """Let an error that ends this process print its `one_line` after the traceback: its parent shows that line."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error, trace)
        print(one_line(error), file=sys.stderr)

    sys.excepthook = show


def exit_status_of(work: Callable[[], object], *refused: type[Exception]) -> int:
    """Do the work of a process of its own: 0, or 2 with one line on standard error for what is ``refused``."""
    find_here()
    end_errors_with_one_line()
    try:
        work()
    except refused as error:
        print(message_of(error), file=sys.stderr)
        return 2
    return 0
