"""The version, as the distribution has it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys


def test_the_version_is_that_of_the_distribution_and_imports_no_numbers() -> None:
    shown = (
        "import sys; from node.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout == f"sottovoce {importlib.metadata.version('sottovoce')}\n"
