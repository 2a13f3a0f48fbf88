"""Faults in a copy of the packages are found, and a copy without a fault has no finding."""

from __future__ import annotations

from pathlib import Path

import pytest

import node
from node.audit.mutants import MUTANTS, TASKS
from node.audit.self_test import cases
from tests.helpers.command import run_cli

ROOT = Path(node.__path__[0]).parent


def test_each_fault_has_its_one_place_in_the_packages() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.task in TASKS
        assert mutant.before != mutant.after
        assert (ROOT / mutant.place).read_text(encoding="utf-8").count(mutant.before) == 1, mutant.name


@pytest.mark.slow
@pytest.mark.processes
def test_faults_are_found_from_outside_and_by_the_installation_that_has_them() -> None:
    again = "an index that was sent is used again after a restart"
    names = (again, "a clip that does not act")
    found = list(cases([mutant for mutant in MUTANTS if mutant.name in names]))
    assert [case.name for case in found] == ["no fault", "no fault", *names]
    assert all(case.passed for case in found), found
    assert [bool(case.finding) for case in found] == [False, False, True, True]
    assert "agent 3 release 5" in found[2].finding


def test_faults_need_the_self_test(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("audit", "runs/none", "--faults") == 2
    assert "--faults: belongs to --self-test" in capsys.readouterr().err
