"""Starts a run's processes and watches them. Once the agents are ready, a run goes on even if its launcher is killed.

Rules that hold here:
- The launcher never holds data: dealing and scoring are processes of their own (`node.worlds.steps`).
- Nothing waits by sleeping: it waits for a process to end, a message of the zygote, or the next moment to look.
- A process that died is named, with its exit status and its last words.
"""

from __future__ import annotations

import logging
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from node.configuration.sections import Configuration
from node.faults.injector import Faults
from node.folder.endings import ending, failure
from node.folder.manifest import read_manifest
from node.folder.registry import settle
from node.folder.status import State, read_overheard, read_status
from node.folder.watch import Watch
from node.places import EAVESDROPPER, agent_folder, agent_name
from node.sockets.agent_sockets import ipc_endpoint
from node.worlds.control import Answer, Command, Eavesdrop, Go, Start, Started, answer_of, line_of
from node.worlds.limits import check_limits, sockets_folder
from node.worlds.orphan import end_left, see_out, write_processes
from node.worlds.progress import Progress, Standstill
from node.worlds.steps import RunFailure, environment, last_line

_log = logging.getLogger(__name__)

LOOK = 0.2
"""Seconds between two looks at the agents' status; more for more than 200 agents."""
STANDS_STILL = 3.0
"""Seconds without anything new after which the progress names the agents that are waited for; more on a slow clock."""


class Cluster:
    """The processes of one dealt run folder.

    Parameters
    ----------
    folder
        The run's folder.
    configuration
        Its configuration.
    agents
        The number of agents of the run.
    own
        The agents that are here; None: all. The others are on other hosts.
    first_port
        With tcp, the port of the first agent that is here, and so on; 0: the system chooses.
    listening
        Seconds without any agent after which the eavesdropper ends; None: it ends with the agents that are here.
    """

    def __init__(
        self,
        folder: Path,
        configuration: Configuration,
        agents: int,
        *,
        own: Sequence[int] | None = None,
        first_port: int = 0,
        listening: float | None = None,
    ) -> None:
        self._folder = folder
        self._configuration = configuration
        self._own = tuple(range(agents) if own is None else own)
        self._agents = len(self._own)
        self._first_port = first_port
        self._listening = listening
        self._manifest = read_manifest(folder)
        self.planned = sum(self._manifest.releases[agent] for agent in self._own)
        """Releases of all agents together."""
        self._alive: dict[int | str, int] = {}
        self._starting: set[int] = set()
        self._restarts: Counter[int] = Counter()
        self._ended: dict[int | str, int] = {}
        self._received = b""
        self._watch = Watch()
        self._standstill = Standstill(max(STANDS_STILL, 5.0 / configuration.clock.rate))
        self._sockets: Path | None = None
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._began = time.monotonic()
        self._faults: Faults | None = None
        self._joiners: frozenset[int] = frozenset()

    def start(self, *, without: frozenset[int] = frozenset(), go: bool = True) -> None:
        """Start the zygote, the eavesdropper and the agents, except agents ``without`` and those that join later.

        The agents tell where they listen. They look for their neighbours at once, or where ``go`` is false after `go`.
        """
        folder, configuration = self._folder, self._configuration
        (folder / "endpoints").mkdir(exist_ok=True)
        tcp = configuration.network.transport == "tcp"
        if not tcp:
            self._sockets = sockets_folder(configuration)
        (folder / "exits.jsonl").unlink(missing_ok=True)
        if configuration.event:
            seed = self._manifest.seeds.seed
            self._faults = Faults(folder, configuration.event, self._manifest.names, seed, self.restart)
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
        write_processes(folder, self._zygote.pid, self._sockets)
        self._began = time.monotonic()
        commands: list[Command] = []
        if configuration.eavesdropper.enabled:
            commands.append(Eavesdrop(self._listening))
        for agent in self._own:
            if agent not in without and agent not in self._joiners:
                commands.append(Start(agent, self._bind(agent)))
        if go:
            commands.append(Go())
        self._command(*commands)
        _log.info("zygote %d starts %d processes of %s", self._zygote.pid, len(commands) - go, folder)

    def go(self) -> None:
        """Let the agents look for their neighbours."""
        self._command(Go())

    def restart(self, agent: int) -> None:
        """Start an agent that joins, or one that ended, at its old endpoint; it goes on from its ledger."""
        self._ended.pop(agent, None)
        self._watch.failures = [failed for failed in self._watch.failures if failed.process != agent_name(agent)]
        self._starting.add(agent)
        _log.info("starting agent %d again", agent)
        self._command(Start(agent, self._bind(agent)), Go())

    def _bind(self, agent: int) -> str:
        if self._sockets is not None:
            return ipc_endpoint(self._sockets, agent)
        port = self._first_port and self._first_port + self._own.index(agent)
        return f"tcp://{self._configuration.network.host}:{port}"

    def restart_killed(self, most: int) -> list[int]:
        """Start the agents again that a signal ended, each ``most`` times at most; returns them."""
        killed = [agent for agent, status in self._ended.items() if isinstance(agent, int) and status < 0]
        again = [agent for agent in killed if self._restarts[agent] < most]
        for agent in again:
            self._restarts[agent] += 1
            self.restart(agent)
        return again

    def _command(self, *commands: Command) -> None:
        # All in one send: a socket holds only some hundred small messages, and the zygote answers each start.
        assert self._control is not None
        self._control.sendall(b"".join(map(line_of, commands)))

    @property
    def alive(self) -> dict[int | str, int]:
        """The process ids of the agents, by number, and of the eavesdropper, that have started and not ended."""
        return dict(self._alive)

    @property
    def ended(self) -> dict[int | str, int]:
        """The exit statuses of those that have ended, and were not started again; negative for a signal."""
        return dict(self._ended)

    @property
    def zygote_pid(self) -> int:
        """The process id of the zygote."""
        assert self._zygote is not None
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
                _log.info("all agents are ready after %.1f s", progress.ready_after)
            if self._faults is not None and self._watch.ready_s is not None and not over:
                self._faults.carry_out(self._alive)
            show(progress)
            if (over and self._over) or (until is not None and until(progress)):
                break
        self._watch.wall_s = time.monotonic() - self._began
        return self._watch

    def _listen(self, seconds: float) -> bool:
        """Read the zygote's events for so many seconds. True when every process that started has ended."""
        assert self._control is not None
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([self._control], [], [], left)
            if not readable:
                break
            data = self._control.recv(1 << 16)
            if not data:
                raise RunFailure(f"the zygote ended, and all agents with it: {self._zygotes_words()}")
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                self._note(answer_of(line))
            if self._over:
                return True
        return self._over

    def _zygotes_words(self) -> str:
        assert self._zygote is not None
        words = (self._folder / "zygote.log").read_text(errors="replace").strip()
        return last_line(words) if words else ending(self._zygote.wait())

    @property
    def _over(self) -> bool:
        agents_ended = sum(1 for process in self._ended if process != EAVESDROPPER)
        if self._faults is not None and self._faults.restarts_ahead:
            return False
        return bool(self._ended) and not self._alive and not self._starting and agents_ended > 0

    def _note(self, answer: Answer) -> None:
        process = answer.process
        if isinstance(answer, Started):
            self._alive[process] = answer.pid
            if isinstance(process, int):
                self._starting.discard(process)
            _log.info("started %s, process %d", process, answer.pid)
            return
        status = answer.status
        self._alive.pop(process, None)
        self._ended[process] = status
        _log.info("ended %s, status %d", process, status)
        if process == EAVESDROPPER:
            self._watch.eavesdropper_status = status
        elif status == -signal.SIGKILL and self._faults is not None and self._faults.meant(int(process)):
            return
        failed = failure(self._folder, process, status)
        if failed is not None:
            self._watch.failures.append(failed)

    def _failed_agents(self) -> list[int | str]:
        return [process for process, status in self._ended.items() if process != EAVESDROPPER and status != 0]

    def progress(self) -> Progress:
        """Counts of this moment."""
        statuses = [read_status(agent_folder(self._folder, agent) / "status") for agent in self._own]
        known = [status for status in statuses if status is not None]
        overheard = read_overheard(self._folder / "eavesdropper.status")
        now = time.monotonic()
        still, waited_for = self._standstill.look(statuses, now)
        return Progress(
            agents=self._agents,
            ready=sum(State.READY <= status.state <= State.FINISHED for status in known),
            finished=sum(status.state is State.FINISHED for status in known),
            sent=sum(status.sent for status in known),
            planned=self.planned,
            charged=sum(status.charged for status in known),
            logged=overheard.releases if overheard is not None else 0,
            ready_after=max((status.ready_ns / 1e9 for status in known), default=0.0) - self._began,
            seconds=now - self._began,
            failures=tuple(self._watch.failures),
            still=still,
            waited_for=tuple(self._own[place] for place in waited_for),
        )

    def stop(self) -> None:
        """End everything and leave nothing behind: agents that do not end within two seconds are killed."""
        if self._zygote is not None:
            with suppress(ProcessLookupError):
                self._zygote.send_signal(signal.SIGTERM)
        self.close()

    def close(self) -> None:
        """Close the connection to the zygote, and wait for its end. It ends when its children have ended."""
        if self._faults is not None:
            self._faults.close()
            self._faults = None
        if self._control is not None:
            self._control.close()
        if self._zygote is not None:
            see_out(self._folder, self._zygote.pid)
            self._zygote.wait()
            end_left(self._folder)


def run_in_processes(
    folder: Path, configuration: Configuration, agents: int, show: Callable[[Progress], None] = lambda _: None
) -> Watch:
    """Run what was dealt to its end, one process for each agent. If it is interrupted, all processes are ended.

    ``show`` is called with the progress several times a second. An exception from it ends the run.
    """
    check_limits(folder, configuration)
    cluster = Cluster(folder, configuration, agents)
    try:
        cluster.start()
        watch = cluster.watch(show)
    except BaseException:
        cluster.stop()
        settle(folder)
        raise
    cluster.close()
    settle(folder)
    return watch
