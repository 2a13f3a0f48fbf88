"""The steps of a run that are processes of their own: dealing, the twin, scoring.

Rules that hold here:
- The launcher never holds data: each step reads and writes the run's folder.
- A step that ends with `ExitCode.BAD_INPUT` has refused its input; its last line names the setting and the reason.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from node.configuration.public import dump
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.exit_codes import ExitCode
from node.folder.endings import failure_lines
from node.folder.manifest import Manifest
from node.folder.registry import settle
from node.folder.watch import Watch, write_watch
from node.plug_ins import without_here

QUIET_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

ENDING = 5.0
"""Seconds that a step has to remove what it made when the run is interrupted."""


_log = logging.getLogger(__name__)


class RunFailure(RuntimeError):
    """A step of a run that failed; one line."""


def deal(configuration: Configuration, folder: Path, *, force: bool = False) -> Manifest:
    """Deal the run in a process of its own.

    Returns
    -------
    Manifest
        The public facts of the run.

    Raises
    ------
    ConfigurationError
        With the one line of the step, if it refused the configuration or the data.
    RunFailure
        If the step failed.
    """
    printed = _step("dealing", "node.dealing", folder, *(["--force"] if force else []), given=dump(configuration))
    return Manifest.from_json(json.loads(printed))


def deal_in_place(folder: Path, assembled: Path) -> Path:
    """Deal the agents of the host in ``folder`` for an assembled run, in a process of its own; returns its part.

    Raises
    ------
    ConfigurationError, RunFailure
        As `deal`.
    """
    return Path(_step("dealing in place", "node.dealing.in_place", folder, str(assembled)).strip())


def score_host(folder: Path) -> None:
    """Score the agents of one host, in a process of its own, which writes ``scores.json`` into its part.

    Raises
    ------
    RunFailure
        If scoring failed.
    """
    _step("scoring", "node.results.host_scores", folder)


def seal(folder: Path, target: Path, receiver: str, purpose: str) -> None:
    """Seal a part for the holder of a key, in a process of its own (`node.folder.sealed.seal`).

    Raises
    ------
    ConfigurationError, RunFailure
        As `deal`.
    """
    _step("sealing", "node.folder.sealed", folder, str(target), "--receiver", receiver, "--purpose", purpose)


def unseal(sealed: Path, folder: Path, key: Path, purpose: str) -> None:
    """Open a sealed part into the new ``folder``, in a process of its own (`node.folder.sealed.unseal`).

    Raises
    ------
    ConfigurationError, RunFailure
        As `deal`.
    """
    _step("opening", "node.folder.sealed", sealed, str(folder), "--key", str(key), "--purpose", purpose)


def run_in_twin(folder: Path) -> Watch:
    """Run the dealt agents in one process with a virtual clock; charges are made as in any other world.

    Raises
    ------
    ConfigurationError, RunFailure
        As `deal`.
    """
    began = time.monotonic()
    try:
        _step("the twin", "node.worlds.twin", folder)
    finally:
        settle(folder)
    return Watch(ready_s=0.0, wall_s=time.monotonic() - began, world="twin")


def score(folder: Path, watch: Watch) -> None:
    """Compute the run's results in a process of its own, which writes them into ``folder``.

    Raises
    ------
    RunFailure
        If scoring failed. Agents that did not finish come first: they may be the reason.
    """
    write_watch(folder, watch)
    try:
        _step("scoring", "node.results.scoring", folder)
    except RunFailure as failure:
        if not watch.failures:
            raise
        told = RunFailure("\n".join([*failure_lines(watch.failures), str(failure)]))
        told.add_note("\n".join(getattr(failure, "__notes__", ())))
        raise told from None


def environment() -> dict[str, str]:
    """Return the environment of a run's processes: one BLAS thread, and one malloc arena (each has its own pages)."""
    return {**os.environ, **without_here(), **QUIET_THREADS, "MALLOC_ARENA_MAX": "1", "PYTHONUNBUFFERED": "1"}


def last_line(text: str) -> str:
    """Return the last line of what a process printed."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"


def _step(name: str, module: str, folder: Path, *options: str, given: str | None = None) -> str:
    """Run a module with the run's folder; returns what it printed."""
    command = [sys.executable, "-m", module, str(folder), *options]
    began = time.monotonic()
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment()) as process:
        try:
            printed, errors = process.communicate(given)
        except BaseException:
            _end(process)
            raise
    _log.info("%s of %s took %.1f s, status %d", name, folder, time.monotonic() - began, process.returncode)
    if process.returncode == ExitCode.BAD_INPUT:
        raise ConfigurationError(last_line(errors))
    if process.returncode != ExitCode.FINISHED:
        failure = RunFailure(f"{name} failed with status {process.returncode}: {last_line(errors)}")
        failure.add_note(errors)  # --debug shows the traceback of the step too
        raise failure
    return printed


def _end(process: subprocess.Popen[str]) -> None:
    """End a step, which may remove what it has made so far: a dealing that is killed would leave rows behind."""
    process.terminate()
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
