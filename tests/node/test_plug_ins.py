"""Modules of the current folder are found, and only where nothing installed has their name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
