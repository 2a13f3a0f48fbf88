"""Starts a run's processes and watches them. Once the agents are ready it only watches: killing it stops nothing.

Rules that hold here:
- The launcher never holds data: dealing and scoring are processes of their own.
- Nothing waits by sleeping: it waits for a process to end, a message of the zygote, or the next moment to look.
- Whatever happens is named: who died, with what status, and its last words.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from node.configuration.reading import Configuration, ConfigurationError, dump
from node.faults.injector import Faults
from node.folder.status import State, read_overheard, read_status
from node.places import agent_folder, agent_name
from node.plug_ins import without_here
from node.sockets.agent_sockets import ipc_endpoint
from topology import files

LOOK = 0.2
"""Seconds between two looks at the agents' status; more for more than 200 agents."""
SPARE_DESCRIPTORS = 64
"""File descriptors of a process that are not connections."""
EAVESDROPPER = "eavesdropper"
CAPTURE_INCOMPLETE = 1
"""The eavesdropper's exit status where it heard less than was said."""
QUIET_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class RunFailure(RuntimeError):
    """A run that could not be carried through; one line."""


@dataclass(frozen=True)
class Progress:
    """A moment of a run, for whoever looks: counts over all agents.

    ``ready_after`` is when the last of those who are ready was: among a thousand agents a look comes seconds later.
    """

    agents: int
    ready: int
    finished: int
    sent: int
    planned: int
    charged: int
    heard: int
    ready_after: float
    seconds: float


@dataclass
class Watch:
    """What became of a run: when all were ready, how long it took, who failed with what."""

    ready_s: float | None = None
    wall_s: float = 0.0
    world: str = "processes"
    failures: list[dict[str, Any]] = field(default_factory=list)
    eavesdropper_status: int | None = None


def deal(configuration: Configuration, folder: Path, *, force: bool = False) -> dict[str, Any]:
    """Deal the run in a process of its own; returns the manifest. Raises `ConfigurationError` with its one line."""
    command = [sys.executable, "-m", "node.dealing.folder", str(folder), *(["--force"] if force else [])]
    done = subprocess.run(
        command, input=dump(configuration), capture_output=True, text=True, env=environment(), check=False
    )
    if done.returncode == 2:
        raise ConfigurationError(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        raise RunFailure(f"dealing failed with status {done.returncode}: {_last_line(done.stderr)}")
    manifest: dict[str, Any] = json.loads(done.stdout)
    return manifest


def run_in_twin(folder: Path) -> Watch:
    """Run the dealt agents in one process with a virtual clock; charges are made as in any other world."""
    began = time.monotonic()
    command = [sys.executable, "-m", "node.worlds.twin", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode == 2:
        raise ConfigurationError(_last_line(done.stderr))
    if done.returncode != 0:
        raise RunFailure(f"the twin failed with status {done.returncode}: {_last_line(done.stderr)}")
    return Watch(ready_s=0.0, wall_s=time.monotonic() - began, world="twin")


def score(folder: Path, watch: Watch) -> None:
    """Compute the run's results in a process of its own, which writes them into ``folder``."""
    (folder / "watch.json").write_text(json.dumps(asdict(watch), indent=1) + "\n")
    command = [sys.executable, "-m", "node.results.scoring", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode != 0:
        raise RunFailure(f"scoring failed with status {done.returncode}: {_last_line(done.stderr)}")


def environment() -> dict[str, str]:
    """The environment of a run's processes: one BLAS thread, and one malloc arena, since each has pages of its own."""
    return {**os.environ, **without_here(), **QUIET_THREADS, "MALLOC_ARENA_MAX": "1", "PYTHONUNBUFFERED": "1"}


def check_limits(folder: Path, configuration: Configuration) -> None:
    """Raise the limit on open files as far as the graph needs; `ConfigurationError` where the system forbids it."""
    network = files.parse((folder / "topology.graphml").read_bytes(), "graphml")
    busiest = int(max(network.degree_counts)) if network.agents > 1 else 0
    needed = max((3 if configuration.encrypted else 2) * busiest, network.agents) + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ConfigurationError(
                f"{network.agents} agents, the busiest with {busiest} neighbours: one process needs {needed} open "
                f"{configuration.network.transport} sockets, the system allows {hard} (ulimit -Hn): use fewer agents "
                "or raise the limit"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def check_socket_paths(configuration: Configuration) -> Path:
    """The folder in which ipc sockets will have theirs; raises `TransportError` if their paths would be too long."""
    base = Path(configuration.network.folder or tempfile.gettempdir()).absolute()
    if configuration.network.transport == "ipc":
        ipc_endpoint(base / "sv-12345678", 0)
    return base


def sockets_folder(configuration: Configuration) -> Path:
    """A fresh folder for ipc sockets; the zygote removes it at its end."""
    base = check_socket_paths(configuration)
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="sv-", dir=base))


class Cluster:
    """The processes of one dealt run folder."""

    def __init__(self, folder: Path, configuration: Configuration, agents: int) -> None:
        self._folder = folder
        self._configuration = configuration
        self._agents = agents
        self._manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
        self.planned = sum(self._manifest.get("releases", []))
        """Releases of all agents together."""
        self._alive: dict[int | str, int] = {}
        self._ended: dict[int | str, int] = {}
        self._received = b""
        self._watch = Watch()
        self._sockets: Path | None = None
        self._began = time.monotonic()
        self._faults: Faults | None = None
        self._joiners: frozenset[int] = frozenset()

    def start(self, *, without: frozenset[int] = frozenset()) -> None:
        """Start the zygote, the eavesdropper and the agents (all but ``without`` and those who join later)."""
        folder, configuration = self._folder, self._configuration
        (folder / "endpoints").mkdir(exist_ok=True)
        tcp = configuration.network.transport == "tcp"
        if not tcp:
            self._sockets = sockets_folder(configuration)
        (folder / "exits.jsonl").unlink(missing_ok=True)
        if configuration.event:
            seed = int(self._manifest["seeds"]["seed"])
            self._faults = Faults(folder, configuration.event, self._manifest["names"], seed, self.restart)
            self._joiners = self._faults.joiners
        ours, theirs = socket.socketpair()
        with (folder / "zygote.log").open("w") as log:
            self._zygote = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "node.worlds.zygote",
                    str(theirs.fileno()),
                    str(folder),
                    str(self._sockets or ""),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env=environment(),
                start_new_session=True,
            )
        theirs.close()
        self._control = ours
        _write_processes(folder, self._zygote.pid, self._sockets)
        self._began = time.monotonic()
        commands: list[dict[str, object]] = [{"eavesdrop": True}] if configuration.eavesdropper.enabled else []
        for agent in range(self._agents):
            if agent not in without and agent not in self._joiners:
                bind = f"tcp://{configuration.network.host}:0" if tcp else ipc_endpoint(self._sockets or folder, agent)
                commands.append({"start": agent, "bind": bind})
        self._command(*commands, {"go": True})

    def restart(self, agent: int) -> None:
        """Start an agent that joins, or one that ended, at its old endpoint; it goes on from its ledger."""
        bind = f"tcp://{self._configuration.network.host}:0"
        if self._sockets is not None:
            bind = ipc_endpoint(self._sockets, agent)
        self._ended.pop(agent, None)
        self._command({"start": agent, "bind": bind}, {"go": True})

    def _command(self, *commands: dict[str, object]) -> None:
        # In one piece: a socket holds only some hundred small messages, and the zygote answers each start.
        self._control.sendall(b"".join(json.dumps(command).encode() + b"\n" for command in commands))

    @property
    def alive(self) -> dict[int | str, int]:
        """Process ids of who has started and not ended, by agent, and of the eavesdropper."""
        return dict(self._alive)

    @property
    def zygote_pid(self) -> int:
        return self._zygote.pid

    def watch(
        self, show: Callable[[Progress], None] = lambda _: None, until: Callable[[Progress], bool] | None = None
    ) -> Watch:
        """Watch until all have ended (or ``until`` is true of the progress); returns what became of them."""
        while True:
            look = max(LOOK, self._agents / 1000)
            over = self._listen(look if self._faults is None else self._faults.patience(look))
            progress = self.progress()
            if (
                self._watch.ready_s is None
                and progress.ready
                and progress.ready + len(self._failed_agents()) >= self._agents - len(self._joiners)
            ):
                self._watch.ready_s = progress.ready_after
            if self._faults is not None and self._watch.ready_s is not None and not over:
                self._faults.carry_out(self._alive)
            show(progress)
            if over or (until is not None and until(progress)):
                break
        self._watch.wall_s = time.monotonic() - self._began
        return self._watch

    def _listen(self, seconds: float) -> bool:
        """Take in the zygote's events; True when all that started has ended, or the zygote is gone."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([self._control], [], [], left)
            if not readable:
                break
            data = self._control.recv(1 << 16)
            if not data:
                raise RunFailure(f"the zygote ended: {_last_line((self._folder / 'zygote.log').read_text())}")
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                self._note(json.loads(line))
            if self._over:
                return True
        return self._over

    @property
    def _over(self) -> bool:
        agents_ended = sum(1 for who in self._ended if who != EAVESDROPPER)
        if self._faults is not None and self._faults.restarts_ahead:
            return False
        return bool(self._ended) and not self._alive and agents_ended > 0

    def _note(self, event: dict[str, Any]) -> None:
        if "started" in event:
            self._alive[event["started"]] = int(event["pid"])
            return
        who, status = event["ended"], int(event["status"])
        self._alive.pop(who, None)
        self._ended[who] = status
        if who == EAVESDROPPER:
            self._watch.eavesdropper_status = status
            if status not in (0, CAPTURE_INCOMPLETE):
                words = _eavesdroppers_last_words(self._folder, status)
                self._watch.failures.append({"who": who, "status": status, "last_words": words})
        elif status != 0 and not (
            status == -signal.SIGKILL and self._faults is not None and self._faults.meant(int(who))
        ):
            self._watch.failures.append(
                {"who": agent_name(who), "status": status, "last_words": _last_words(self._folder, who, status)}
            )

    def _failed_agents(self) -> list[int | str]:
        return [who for who, status in self._ended.items() if who != EAVESDROPPER and status != 0]

    def progress(self) -> Progress:
        """Counts of this moment."""
        statuses = [read_status(agent_folder(self._folder, agent) / "status") for agent in range(self._agents)]
        known = [status for status in statuses if status is not None]
        overheard = read_overheard(self._folder / "eavesdropper.status")
        return Progress(
            agents=self._agents,
            ready=sum(State.READY <= status.state <= State.FINISHED for status in known),
            finished=sum(status.state is State.FINISHED for status in known),
            sent=sum(status.sent for status in known),
            planned=self.planned,
            charged=sum(status.charged for status in known),
            heard=overheard.releases if overheard is not None else 0,
            ready_after=max((status.ready_ns / 1e9 for status in known), default=0.0) - self._began,
            seconds=time.monotonic() - self._began,
        )

    def stop(self) -> None:
        """End everything within three seconds and leave nothing behind."""
        with suppress(ProcessLookupError):
            self._zygote.send_signal(signal.SIGTERM)
        self.close()

    def close(self) -> None:
        """Let go of the zygote, which ends when its children have."""
        if self._faults is not None:
            self._faults.close()
            self._faults = None
        self._control.close()
        try:
            self._zygote.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._zygote.kill()
            self._zygote.wait()


def run_in_processes(folder: Path, configuration: Configuration, agents: int) -> Watch:
    """Run what was dealt to its end, one process for each of the ``agents``; if it is broken off, all are ended."""
    check_limits(folder, configuration)
    cluster = Cluster(folder, configuration, agents)
    try:
        cluster.start()
        watch = cluster.watch()
    except BaseException:
        cluster.stop()
        raise
    cluster.close()
    return watch


def _last_words(folder: Path, agent: int, status: int) -> list[str]:
    lines = []
    with suppress(OSError, ValueError):
        final = json.loads((agent_folder(folder, agent) / "final.json").read_text())
        if final["reason"]:
            lines.append(str(final["reason"]))
    with suppress(OSError):
        lines += (agent_folder(folder, agent) / "stderr.log").read_text(errors="replace").splitlines()[-3:]
    return lines or [_ending(status)]


def _eavesdroppers_last_words(folder: Path, status: int) -> list[str]:
    words = []
    with suppress(OSError):
        words = (folder / "eavesdropper.log").read_text(errors="replace").splitlines()[-1:]
    return words if words and status >= 0 else [_ending(status)]


def _ending(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"


# -- a run whose launcher is gone -----------------------------------------------------------------------------------


def _write_processes(folder: Path, zygote: int, sockets: Path | None) -> None:
    document = {
        "zygote": {"pid": zygote, "started": started_at(zygote)},
        "sockets": str(sockets) if sockets is not None else None,
    }
    (folder / "processes.json").write_text(json.dumps(document) + "\n")


def started_at(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; with its id this names it for good. None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def running_zygote(folder: Path) -> int | None:
    """The process id of a run's zygote if it still runs."""
    try:
        zygote = json.loads((folder / "processes.json").read_text())["zygote"]
    except (OSError, ValueError, KeyError):
        return None
    alive = zygote["started"] is not None and started_at(zygote["pid"]) == zygote["started"]
    return int(zygote["pid"]) if alive else None


def failures_of(folder: Path) -> list[dict[str, Any]]:
    """Who of a run ended badly, from what the zygote noted."""
    try:
        exits = [json.loads(line) for line in (folder / "exits.jsonl").read_text().splitlines()]
    except OSError:
        return []
    last = {note["who"]: int(note["status"]) for note in exits}
    failures = []
    for who, status in sorted(last.items()):
        if who != EAVESDROPPER and status != 0:
            words = _last_words(folder, int(who.removeprefix("agent-")), status)
            failures.append({"who": who, "status": status, "last_words": words})
        elif who == EAVESDROPPER and status not in (0, CAPTURE_INCOMPLETE):
            failures.append({"who": who, "status": status, "last_words": _eavesdroppers_last_words(folder, status)})
    return failures


def stop_run(folder: Path) -> bool:
    """End a run's processes; False if none ran. They have two seconds to end by themselves, then are killed."""
    zygote = running_zygote(folder)
    if zygote is None:
        return False
    os.kill(zygote, signal.SIGTERM)
    descriptor = os.pidfd_open(zygote)
    try:
        select.select([descriptor], [], [], 10.0)
    finally:
        os.close(descriptor)
    return True
