"""Faults put into a copy of the implementation, which then makes a run: the audit must find each.

Rules that hold here:
- Nothing of this installation is changed: the packages are copied, and the copy runs in processes of its own.
- The copy without a fault is one of the cases: an audit that finds something there proves nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import coordinator_free
import node
import topology
from node.audit.auditor import audit
from node.audit.mutants import KILL, KILLED, MUTANTS, RESTARTED, TASKS, Mutant
from node.audit.report import AuditError
from node.audit.verify import verify

_PACKAGES: Final = (topology, coordinator_free, node)
_TRIALS: Final = 300
_AGENTS: Final = (0, 1, 3)
_CORRECT: Final = "no fault"
_RUN: Final = """
from pathlib import Path
from node.configuration.reading import load
from node.dealing.folder import deal_run
from node.worlds.twin import run_twin
deal_run(load(Path("task.toml")), Path("run"))
run_twin(Path("run"))
"""
_RUN_WITH_A_RESTART: Final = f"""
from pathlib import Path
from node.configuration.reading import load
from node.dealing.folder import deal_run
from node.worlds.launcher import Cluster
configuration, folder = load(Path("task.toml")), Path("run")
deal_run(configuration, folder)
cluster = Cluster(folder, configuration, configuration.data.agents)
cluster.start()
try:
    cluster.watch(until=lambda _: {KILLED} in cluster.ended)
    cluster.restart({KILLED})
    cluster.watch()
finally:
    cluster.close()
"""
_AUDIT: Final = f"""
from pathlib import Path
from node.audit.auditor import audit
print(*audit(Path("run"), trials={_TRIALS}, agents={_AGENTS}).findings, sep="\\n")
"""


@dataclass(frozen=True)
class Case:
    """One run of a copy: whether it was judged rightly, and the first finding (empty: none)."""

    name: str
    task: str
    passed: bool
    finding: str


def cases(mutants: Sequence[Mutant] = MUTANTS) -> Iterator[Case]:
    """A run without a fault of each task, and one of each fault, as they end."""
    tasks = dict.fromkeys(mutant.task for mutant in mutants)
    plain = [Mutant(_CORRECT, task, "node/__init__.py", "", "") for task in tasks]
    with TemporaryDirectory(prefix="sottovoce-faults-") as folder, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        work = [(number, mutant, Path(folder)) for number, mutant in enumerate([*plain, *mutants])]
        yield from pool.map(lambda one: _case(*one), work)


def _case(number: int, mutant: Mutant, folder: Path) -> Case:
    place = folder / str(number)
    place.mkdir()
    for package in _PACKAGES:
        source = Path(package.__path__[0])
        shutil.copytree(source, place / package.__name__, ignore=shutil.ignore_patterns("__pycache__"))
    _change(place / mutant.place, mutant)
    (place / "task.toml").write_text(TASKS[mutant.task], encoding="utf-8")
    if mutant.task in RESTARTED:
        _change(place / KILL.place, KILL)
    _copy(place, _RUN_WITH_A_RESTART if mutant.task in RESTARTED else _RUN)
    if mutant.own:
        findings = [line for line in _copy(place, _AUDIT).splitlines() if line]
    else:
        findings = list(audit(place / "run", trials=_TRIALS, agents=_AGENTS, secret=bytes(range(32))).findings)
        if not findings and not (again := verify(place / "run")).ok:
            findings = [f"verify: {again.findings[0]}" if again.findings else "verify: not executed again alike"]
    finding = findings[0] if findings else ""
    passed = not findings if mutant.name == _CORRECT else bool(findings)
    shutil.rmtree(place)
    return Case(mutant.name, mutant.task, passed, finding)


def _change(place: Path, mutant: Mutant) -> None:
    if not mutant.before:
        return
    text = place.read_text(encoding="utf-8")
    if text.count(mutant.before) != 1:
        raise AuditError(
            f"{mutant.place} has {text.count(mutant.before)} places for the fault {mutant.name!r}, not one"
        )
    place.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")


def _copy(place: Path, program: str) -> str:
    """What a program of the copy prints; raises `AuditError` where it fails."""
    environment = {**os.environ, "PYTHONPATH": str(place), "HOME": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AuditError(f"a copy with a fault ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
