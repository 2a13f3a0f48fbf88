"""Imports point downwards only, and the mathematics touches nothing outside itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

OUTSIDE = {
    "asyncio",
    "multiprocessing",
    "os",
    "pathlib",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "zmq",
}
"""Modules by which code reaches sockets, files, clocks, processes or the environment."""
FORBIDDEN = {"topology": OUTSIDE | {"coordinator_free", "node"}, "coordinator_free": OUTSIDE | {"node"}, "node": set()}
GLOBAL_RANDOM = {"seed", "random", "rand", "randn", "randint", "normal", "uniform", "choice", "shuffle", "permutation"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_imports_point_downwards_only(package: str) -> None:
    assert modules(package)
    for path in modules(package):
        found = imported(ast.parse(path.read_text())) & FORBIDDEN[package]
        assert not found, f"{path.relative_to(ROOT)} imports {sorted(found)}"


@pytest.mark.parametrize("package", ["topology", "coordinator_free"])
def test_no_file_is_opened_and_no_global_generator_drawn_from(package: str) -> None:
    for path in modules(package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", f"{path.relative_to(ROOT)}:{node.lineno} opens a file"
            if isinstance(node, ast.Attribute) and node.attr in GLOBAL_RANDOM:
                owner = node.value
                is_numpy_random = isinstance(owner, ast.Attribute) and owner.attr == "random"
                assert not is_numpy_random, f"{path.relative_to(ROOT)}:{node.lineno} draws from a global generator"


def test_no_test_module_is_imported_by_another() -> None:
    """What several tests use is in `tests.helpers`, so that a test module can change without breaking others."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("tests")):
                own = not node.level and str(node.module).startswith("tests.helpers")
                assert own, f"{path.relative_to(ROOT)}:{node.lineno} imports from {node.module}, not from tests.helpers"


def test_nothing_is_pickled() -> None:
    for package in FORBIDDEN:
        for path in modules(package):
            text = path.read_text()
            assert "pickle" not in imported(ast.parse(text)), path
            assert "allow_pickle=True" not in text, path


@pytest.mark.parametrize(
    ("started", "heavy"),
    [
        ("import node.traffic.eavesdropper", ("scipy", "networkx", "pydantic", "asyncio")),
        ("import node.worlds.zygote; node.worlds.zygote.rehearse()", ("scipy", "networkx", "pydantic", "asyncio")),
        ("import node.configuration.reading", ("scipy", "networkx", "asyncio")),
        ("import node.cli", ("numpy", "pydantic", "asyncio")),
    ],
    ids=["eavesdropper", "zygote", "configuration", "command line"],
)
def test_what_a_run_waits_for_imports_little(started: str, heavy: tuple[str, ...]) -> None:
    """All wait for the eavesdropper, and every agent is a fork of the zygote, with the tables of all that is mapped.

    A user waits for a refusal: of a setting, of a command.
    """
    code = f"import sys; {started}; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
