"""Help and errors of usage come at once: what computes is imported only when something is computed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from node.cli import COMMANDS

HEAVY = ("numpy", "scipy", "networkx", "pyarrow", "matplotlib", "zmq", "mcap")
"""Modules that take longer to import than the command needs to answer. Typer itself may import pydantic."""

WRONG = (
    ["nonsense"],
    *([name, "--nonsense"] for name in COMMANDS),
    ["run", "missing.toml"],
    ["deal", "missing.toml"],
    ["topology", "missing.toml"],
    ["compose", "missing.toml"],
    ["run", __file__, "--world", "moon"],
    ["log", "info"],
    ["replay", __file__, "--to", "tcp://127.0.0.1:1", "--loop", "0"],
    ["eavesdrop", "tcp://127.0.0.1:1"],
    ["wiretap", "--log", "missing.mcap"],
    ["status", "missing"],
    ["predict", "missing", __file__, "--agent", "0"],
    ["audit"],
)

ANSWER = """
import json, sys
from node.cli import main
for given in json.loads(sys.argv[1]):
    try:
        main(given)
    except SystemExit as stop:
        print(json.dumps([given, stop.code, [name for name in json.loads(sys.argv[2]) if name in sys.modules]]))
"""
"""Runs the command once for each list of arguments, and tells after each its exit status and what is imported."""


def answers(lines: list[list[str]], heavy: tuple[str, ...], folder: Path) -> list[tuple[list[str], int, list[str]]]:
    code = [sys.executable, "-c", ANSWER, json.dumps(lines), json.dumps(heavy)]
    told = subprocess.run(code, check=True, capture_output=True, text=True, cwd=folder).stdout
    return [json.loads(line) for line in told.splitlines() if line.startswith("[")]


def test_help_imports_nothing_that_computes(tmp_path: Path) -> None:
    lines = [["--help"], ["log", "--help"], *([name, "--help"] for name in COMMANDS)]
    assert answers(lines, (*HEAVY, "rich"), tmp_path) == [[line, 0, []] for line in lines]


def test_an_error_of_usage_imports_nothing_that_computes(tmp_path: Path) -> None:
    lines = list(WRONG)
    assert answers(lines, HEAVY, tmp_path) == [[line, 2, []] for line in lines]
