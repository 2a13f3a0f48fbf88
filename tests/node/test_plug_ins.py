"""Modules of the current folder are found, and only where nothing installed has their name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from node.plug_ins import message_of, one_line, place_of

SEARCH = "from node.plug_ins import find_here; find_here(); find_here(); import topology, mine, parts.one, json"


def test_the_current_folder_comes_after_everything_that_is_installed(tmp_path: Path) -> None:
    for name in ("topology", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('taken for another module')\n")
    (tmp_path / "parts").mkdir()
    for name in ("mine", "parts/__init__", "parts/one"):
        (tmp_path / f"{name}.py").write_text("")
    code = f"{SEARCH}; print(topology.__path__[0], mine.__file__, parts.one.__file__, sep='\\n')"
    # -P: as the installed command is started, without the current folder in sys.path
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program, *own = done.stdout.split()
    assert not Path(program).is_relative_to(tmp_path)
    assert own == [str(tmp_path / "mine.py"), str(tmp_path / "parts" / "one.py")]


def raised(folder: Path, body: str) -> BaseException:
    """The error of a user's own function, which lies in ``folder``."""
    path = folder / "own.py"
    path.write_text(f"import json\ndef slope():\n    {body}\n")
    names: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises((RuntimeError, ValueError), match=r"first|Expecting") as caught:
        names["slope"]()  # type: ignore[operator]
    return caught.value


def test_an_error_names_the_line_of_a_users_own_code(tmp_path: Path) -> None:
    assert place_of(RuntimeError("of the program")) == ""
    assert message_of(RuntimeError("of the program")) == "of the program"
    own = raised(tmp_path, "raise RuntimeError('first\\nsecond')")
    assert one_line(own) == message_of(own) == "RuntimeError: first (own.py:3, in slope)"
    inside = raised(tmp_path, "json.loads('{')")
    assert place_of(inside) == "own.py:3, in slope", "what it called lies deeper, in Python's own library"
    refused = ValueError("learning.loss: refused")
    refused.__cause__ = own
    assert message_of(refused) == "learning.loss: refused (own.py:3, in slope)"
