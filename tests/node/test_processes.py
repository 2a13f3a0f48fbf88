"""What the operating system is asked for: no core file with rows in it, and no half-made folder after a signal."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from node.configuration.public import dump
from node.configuration.reading import from_table
from node.processes import undone_when_told
from node.worlds.steps import environment
from tests.helpers.tables import public

pytestmark = pytest.mark.processes

GET_DUMPABLE = 3


@pytest.mark.parametrize("module", ["cli", "dealing", "results.scoring", "worlds.twin", "worlds.zygote"])
def test_each_process_that_holds_rows_or_secrets_keeps_its_memory_to_itself(module: str) -> None:
    code = (
        "import runpy, sys, node.processes; node.processes.keep_private = lambda: sys.exit(77); "
        f"sys.argv = ['x', '/nowhere', '/nowhere', '']; runpy.run_module('node.{module}', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 77, done.stderr


def test_a_private_process_leaves_no_core_and_is_not_dumpable(tmp_path: Path) -> None:
    code = (
        "import ctypes, os, resource, node.processes; node.processes.keep_private(); "
        f"print(resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl({GET_DUMPABLE}), flush=True); "
        f"os.fork() or print(ctypes.CDLL(None).prctl({GET_DUMPABLE}), flush=True); os.abort()"
    )
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**environment(), "PYTHONSAFEPATH": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
    )
    assert done.returncode == -signal.SIGABRT
    assert done.stdout.split() == ["0", "0", "0"]
    assert list(tmp_path.iterdir()) == []


def test_a_second_signal_does_not_break_off_the_removal() -> None:
    removed = []

    def work() -> None:
        with undone_when_told():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(10)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGINT)
                removed.append(True)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        work()
    assert removed
    assert ended.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_dealing_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    table = public(data={"source": "synthetic", "agents": 3000, "records": [500, 500], "dimension": 40})
    (tmp_path / "config.toml").write_text(dump(from_table(table)))
    out = tmp_path / "runs"
    command = [sys.executable, "-m", "node.cli", "deal", str(tmp_path / "config.toml"), "--out", str(out / "run")]
    with subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Programs that a shell starts in the background ignore SIGINT, and what they start does too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as dealing:
        end = time.monotonic() + 600
        while not list(out.glob(".run.*.partial/shards/*")) and time.monotonic() < end:
            assert dealing.poll() is None
            time.sleep(0.01)
        dealing.send_signal(number)
        assert dealing.wait(600) in (130, 128 + number)
    assert not out.exists()
