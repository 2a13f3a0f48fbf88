"""One task of a Slurm job: the agents of one node, forked from one zygote, and an eavesdropper of their own.

Rules that hold here:
- A task takes its share of the agents from its rank and the number of tasks alone: no task asks another.
- Addresses are told through one folder that all nodes share. Each start of a job has a folder of its own, so that no
  agent looks for another at an address of before.
- Agents go on from their ledgers. A ledger is held by one process at a time, so a task waits until the processes of an
  earlier start have let go.
- SIGTERM (a job that is cancelled, preempted or requeued) ends the agents as a stop does.
- Agents wait for their eavesdropper before they release. If it ends before they are ready, the task ends them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coordinator_free.agents.registry import algorithm
from node.configuration.reading import load_dealt
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.exit_codes import ExitCode
from node.folder.endings import eavesdroppers_end, failure_lines, failures_of
from node.folder.keys import EAVESDROPPER_KEY, PUBLIC_KEYS
from node.folder.ledger import is_held
from node.folder.manifest import read_manifest
from node.folder.whole import copy_whole
from node.places import EAVESDROPPER, agent_folder, shard_path
from node.processes import StopSignals
from node.worlds.launcher import Cluster
from node.worlds.limits import check_limits
from node.worlds.parts import PUBLIC, part_folder
from node.worlds.progress import Progress
from node.worlds.steps import RunFailure, environment

HELD_SECONDS: Final = 60.0
"""Seconds that processes of an earlier start have to let go of their ledgers."""
RESTARTS: Final = 2
"""So often an agent that was killed is started again."""
CLOSING_SECONDS: Final = 60.0
"""Seconds that the eavesdropper has to close its log."""
SHOW_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Place:
    """Where a task is: its rank, the number of tasks, the start of the job, and the address of its node."""

    rank: int
    tasks: int
    start: str
    address: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Place:
        """Read what srun tells a task. Raises `ConfigurationError` outside of a task."""
        try:
            rank, tasks = int(environment["SLURM_PROCID"]), int(environment["SLURM_NTASKS"])
            job, launcher = environment["SLURM_JOB_ID"], environment["SLURM_LAUNCH_NODE_IPADDR"]
        except (KeyError, ValueError) as error:
            raise ConfigurationError(
                f"{error}: not a task of Slurm; start it by srun, as `sottovoce slurm` does"
            ) from None
        return cls(rank, tasks, f"{job}-{environment.get('SLURM_RESTART_COUNT', '0')}", _address_towards(launcher))

    def share(self, agents: int) -> range:
        """The agents of this task: the shares are in the order of the ranks, and differ by one agent at most."""
        return range(agents * self.rank // self.tasks, agents * (self.rank + 1) // self.tasks)


def _address_towards(other: str) -> str:
    """The address of this node on its way to another one; a name of a node often stands for its loopback."""
    family = socket.AF_INET6 if ":" in other else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((other, 9))  # sends nothing
        address = str(way.getsockname()[0])
    return f"[{address}]" if ":" in address else address


class Task:
    """The agents of one node, from their parts to their ends."""

    def __init__(self, run: Path, parts: Path, place: Place) -> None:
        self._parts, self._place = parts, place
        self._manifest = read_manifest(run)
        self.own = place.share(self._manifest.agents)
        self._air = parts / "endpoints" / place.start
        self.folder = parts / f"node-{place.rank}"
        self._eavesdroppers_part = parts / f"{EAVESDROPPER}-{place.rank}"
        dealt = load_dealt(run / "config.toml")
        self._eavesdrops = dealt.eavesdropper.enabled
        self._configuration = _for_this_node(dealt, place.address)
        self._public = [run / name for name in PUBLIC] + [p for p in (run / PUBLIC_KEYS,) if p.exists()]
        self._eavesdropper: subprocess.Popen[bytes] | None = None
        self._eavesdroppers_end = ""
        self._shown = 0.0

    def run(self, stop: Callable[[], bool]) -> ExitCode:
        """Start the agents and see them to their end, or stop them."""
        self._await_ledgers()
        self._prepare()
        self._eavesdropper = self._start_eavesdropper() if self._eavesdrops else None
        cluster = Cluster(self.folder, self._configuration, self._manifest.agents, own=self.own)
        try:
            cluster.start()
            stopped = self._watch(cluster, stop)
        except BaseException:
            cluster.stop()
            raise
        finally:
            if self._eavesdropper is not None:
                _see_out(self._eavesdropper)
        if stopped:
            return ExitCode.FAILED
        failed = failures_of(self.folder, self.own)
        for line in failure_lines(failed):
            self._tell(line)
        return ExitCode.FAILED if failed else ExitCode.FINISHED

    def _watch(self, cluster: Cluster, stop: Callable[[], bool]) -> bool:
        """Watch the agents until all have ended; start those again that were killed. True if they were stopped."""

        def look(progress: Progress) -> None:
            self._show(progress)
            self._look_at_eavesdropper(progress)
            for agent in [] if stop() else cluster.restart_killed(RESTARTS):
                self._tell(f"agent {agent} was killed, and is started again")

        cluster.watch(look, until=lambda _: stop())
        if stop():
            self._tell("told to stop: the agents end, and go on from their ledgers when the job starts again")
            cluster.stop()
            return True
        cluster.close()
        return False

    def _await_ledgers(self) -> None:
        paths = [agent_folder(part_folder(self._parts, agent), agent) / "ledger.jsonl" for agent in self.own]
        end = time.monotonic() + HELD_SECONDS
        while held := [path for path in paths if is_held(path)]:
            if time.monotonic() > end:
                raise RunFailure(f"ledger {held[0]} is held by another process: is another start of this run alive?")
            time.sleep(0.2)

    def _prepare(self) -> None:
        """Make this node's folder of the run: the public files, and links to the parts of its agents."""
        begun = any((agent_folder(part_folder(self._parts, a), a) / "journal.bin").exists() for a in self.own)
        if begun and not algorithm(self._manifest.algorithm).resumes:
            raise ConfigurationError(
                f'learning.algorithm = "{self._manifest.algorithm}": what its agents received is in their memory '
                "alone, so a job that was stopped cannot go on"
            )
        self._air.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("shards", "agents"):
            (self.folder / name).mkdir(parents=True, mode=0o700)
        for source in self._public:
            copy_whole(source, self.folder / source.name, 0o644)
        (self.folder / "endpoints").symlink_to(self._air)
        for agent in self.own:
            part = part_folder(self._parts, agent)
            for name in ("final.json", "final.npz", "status"):
                (agent_folder(part, agent) / name).unlink(missing_ok=True)
            agent_folder(self.folder, agent).symlink_to(agent_folder(part, agent))
            shard_path(self.folder, agent).symlink_to(shard_path(part, agent))
        check_limits(self.folder, self._configuration)

    def _start_eavesdropper(self) -> subprocess.Popen[bytes]:
        part = self._eavesdroppers_part
        dealt = self._parts / EAVESDROPPER
        for name in (*(source.name for source in self._public), EAVESDROPPER_KEY):
            if (dealt / name).exists():
                copy_whole(dealt / name, part / name, 0o600 if name == EAVESDROPPER_KEY else 0o644)
        (part / "endpoints").unlink(missing_ok=True)
        (part / "endpoints").symlink_to(self._air)
        agents = f"{self.own[0]}-{self.own[-1]}"
        with (part / "eavesdropper.log").open("w") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "node.traffic.eavesdropper",
                    "--run",
                    str(part),
                    "--agents",
                    agents,
                    "--until-told",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )

    def _look_at_eavesdropper(self, progress: Progress) -> None:
        if self._eavesdropper is None or self._eavesdroppers_end or self._eavesdropper.poll() is None:
            return
        self._eavesdroppers_end = eavesdroppers_end(self._eavesdroppers_part, self._eavesdropper.returncode)
        if progress.ready < len(self.own):
            raise ConfigurationError(
                f"node {self._place.rank}: the eavesdropper ended before the agents were ready: "
                f"{self._eavesdroppers_end}"
            )
        self._tell(f"the eavesdropper ended, and records nothing more: {self._eavesdroppers_end}")

    def _show(self, progress: Progress) -> None:
        if time.monotonic() >= self._shown + SHOW_SECONDS:
            self._shown = time.monotonic()
            self._tell(f"{progress.ready} of {len(self.own)} agents ready, {progress.sent} releases sent")

    def _tell(self, line: str) -> None:
        print(f"node {self._place.rank} at {self._place.address}: {line}", flush=True)


def _for_this_node(configuration: Configuration, address: str) -> Configuration:
    """The configuration of a run's share: its agents are reached at this node, and its eavesdropper is started here."""
    network = configuration.network.model_copy(update={"host": address})
    eavesdropper = configuration.eavesdropper.model_copy(update={"enabled": False})
    return configuration.model_copy(update={"network": network, "eavesdropper": eavesdropper})


def _see_out(eavesdropper: subprocess.Popen[bytes]) -> None:
    """End the eavesdropper: it logs what has arrived, and closes its log."""
    eavesdropper.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        eavesdropper.wait(CLOSING_SECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m node.worlds.slurm_task --run RUN --parts PARTS``, which the batch script starts on each node.

    Exit status 0 if the agents of this node finished, 1 if not or if they were stopped, 2 for bad input.
    """
    parser = argparse.ArgumentParser(prog="python -m node.worlds.slurm_task")
    parser.add_argument("--run", type=Path, required=True, help="the run's folder")
    parser.add_argument("--parts", type=Path, required=True, help="the folder of its parts")
    options = parser.parse_args(arguments)
    stop = StopSignals()
    try:
        task = Task(options.run.absolute(), options.parts.absolute(), Place.of(os.environ))
        return task.run(stop) if task.own else ExitCode.FINISHED
    except (RunFailure, OSError) as error:
        print(f"sottovoce: {error}", file=sys.stderr)
        return ExitCode.FAILED
    except ValueError as error:
        print(f"sottovoce: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
