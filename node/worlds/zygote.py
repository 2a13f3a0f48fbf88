"""The parent of a run's processes: a fresh interpreter that has imported what agents need and nothing else.

Rules that hold here:
- The zygote reads no data, opens no ZeroMQ socket and draws no random number. Each agent is forked from it and opens
  only its own files.
- The zygote outlives the launcher. It notes each process that ends in ``exits.jsonl``, by name, process id and status,
  and each that is started again, with no status.
  A run whose launcher is gone goes on to its end.
- SIGTERM ends the run: the zygote sends SIGTERM to its children, and SIGKILL once none of them has ended for two
  seconds.
- No process of a run outlives the zygote: the system sends SIGTERM to each of them when the zygote ends, for any
  reason.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

from coordinator_free.agents.registry import algorithm
from node.agent.process import run_from_folder
from node.agent.rehearsal import rehearse
from node.folder.manifest import read_manifest
from node.folder.status import read_overheard
from node.places import EAVESDROPPER, agent_folder, agent_name
from node.plug_ins import find_here
from node.processes import end_with_parent, keep_private
from node.worlds.control import Answer, Ended, Go, Start, Started, command_of, line_of

GRACE = 2.0
"""Seconds between SIGTERM, or the last end of a process after it, and SIGKILL."""
LOGGING = 3.0
"""Seconds that the eavesdropper has to end after the last agent ended and the last frame was logged."""
CLOSING = 30.0
"""Seconds that it then has to close its log."""
CONNECTING = 20.0
"""Seconds that the eavesdropper has to connect to all agents before they look for each other."""


class Zygote:
    """Carries out the launcher's commands (`node.worlds.control`), and notes the end of each child.

    Until `Go`, agents wait, so that a thousand forks do not compete with the first hundred agents. The first time, they
    also wait until the eavesdropper is connected to all of them: later it would have to share the processors with a
    thousand agents that connect. An eavesdropper with patience decides by itself when it ends.
    """

    def __init__(self, control: socket.socket, run: Path) -> None:
        self._control: socket.socket | None = control
        self._run = run
        self._children: dict[int, int | str] = {}
        self._stopping_since: float | None = None
        self._quiet_since: float | None = None
        self._frames = 0
        self._eavesdropper_told = False
        self._ended: set[int | str] = set()
        self._others_may_send = False
        self._pid = os.getpid()
        self._gate: tuple[int, int] | None = None
        self._going_since: float | None = None
        self._first_gate_opened = False
        self._received = b""
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._stop_asked = False

    def _stop(self, *_: object) -> None:
        self._stop_asked = True

    def serve(self) -> None:
        """Serve until the launcher is gone and every child has ended."""
        while self._control is not None or self._children:
            waiting: list[socket.socket | int] = [self._wake_read]
            if self._control is not None:
                waiting.append(self._control)
            readable, _, _ = select.select(waiting, [], [], self._patience())
            if self._wake_read in readable:
                os.read(self._wake_read, 4096)
            if self._control is not None and self._control in readable:
                self._carry_out_commands()
            self._reap()
            self._open_gate_when_due()
            self._end_when_due()

    def _patience(self) -> float | None:
        if self._stopping_since is not None or self._quiet_since is not None or self._stop_asked:
            return 0.1
        return 0.02 if self._going_since is not None else None

    def _carry_out_commands(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(1 << 16)
        except ConnectionResetError:  # the launcher ended before it had read its answers
            data = b""
        if not data:
            self._lose_control()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            command = command_of(line)
            if isinstance(command, Start):
                self._start(command.agent, command.bind)
            elif isinstance(command, Go):
                self._going_since = time.monotonic()
            else:
                self._eavesdrop(command.patience)

    def _open_gate_when_due(self) -> None:
        if self._going_since is None:
            return
        agents = sum(process != EAVESDROPPER for process in self._children.values())
        overheard = read_overheard(self._run / "eavesdropper.status")
        connected = overheard is not None and overheard.met >= agents
        late = time.monotonic() >= self._going_since + CONNECTING
        if self._first_gate_opened or connected or late or EAVESDROPPER not in self._children.values():
            self._open_gate()
            self._first_gate_opened = True

    def _open_gate(self) -> None:
        self._going_since = None
        if self._gate is not None:
            for end in self._gate:
                os.close(end)
            self._gate = None

    def _start(self, agent: int, bind: str) -> None:
        if self._gate is None:
            self._gate = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            self._run_agent(agent, bind)
        self._children[pid] = agent
        if agent in self._ended:
            self._note(agent_name(agent), pid, None)
        self._tell(Started(agent, pid))

    def _run_agent(self, agent: int, bind: str) -> None:
        """Run an agent in the forked child; never returns."""
        code = 1
        try:
            if self._control is not None:
                self._control.close()
            assert self._gate is not None
            gate, ours = self._gate
            os.close(ours)
            signal.set_wakeup_fd(-1)
            os.close(self._wake_read)
            os.close(self._wake_write)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until it has its own handler
            end_with_parent()
            if os.getppid() != self._pid:
                os._exit(code)
            error = agent_folder(self._run, agent) / "stderr.log"
            descriptor = os.open(error, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.dup2(descriptor, 2)
            os.close(descriptor)
            code = run_from_folder(self._run, agent, bind, hold=lambda: _pass(gate))
        except BaseException as error:
            if isinstance(error, ValueError):
                os.write(2, f"{error}\n".encode())
            else:
                os.write(2, "".join(traceback.format_exception(error)).encode())
        finally:
            os._exit(code)

    def _eavesdrop(self, patience: float | None) -> None:
        log = os.open(self._run / "eavesdropper.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "node.traffic.eavesdropper", "--run", str(self._run)),
                *([] if patience is None else ["--patience", str(patience)]),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        os.close(log)
        self._others_may_send = patience is not None
        self._children[child.pid] = EAVESDROPPER
        child.returncode = 0  # it is reaped here with the others, not by its Popen object
        self._tell(Started(EAVESDROPPER, child.pid))

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            process = self._children.pop(pid, None)
            if process is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            self._note(process if isinstance(process, str) else agent_name(process), pid, code)
            self._ended.add(process)
            if self._stopping_since is not None:
                self._stopping_since = time.monotonic()
            self._tell(Ended(process, pid, code))

    def _note(self, process: str, pid: int, code: int | None) -> None:
        """Note an end, or with None that a process which had ended was started again."""
        line = json.dumps({"process": process, "pid": pid, "status": code})
        try:
            with (self._run / "exits.jsonl").open("a") as exits:
                exits.write(line + "\n")
        except OSError as error:  # a full disk must not end the zygote, and with it all agents
            with contextlib.suppress(OSError):
                print(f"exits.jsonl cannot be written: {error.strerror}: {line}", file=sys.stderr, flush=True)

    def _end_when_due(self) -> None:
        now = time.monotonic()
        if self._stop_asked and self._stopping_since is None:
            self._stopping_since = now
            self._open_gate()
            self._signal_all(signal.SIGTERM)
        elif self._stopping_since is not None and now >= self._stopping_since + GRACE:
            self._signal_all(signal.SIGKILL)
        agents_left = any(process != EAVESDROPPER for process in self._children.values())
        if self._children and not agents_left and self._ended - {EAVESDROPPER} and not self._others_may_send:
            overheard = read_overheard(self._run / "eavesdropper.status")
            frames = 0 if overheard is None else overheard.frames
            if self._quiet_since is None or frames != self._frames:
                # On a busy machine the eavesdropper may still be logging long after the agents have ended.
                self._quiet_since, self._eavesdropper_told, self._frames = now, False, frames
            elif now >= self._quiet_since + LOGGING and not self._eavesdropper_told:
                self._signal_all(signal.SIGTERM)
                self._eavesdropper_told = True
            elif now >= self._quiet_since + LOGGING + CLOSING:
                self._signal_all(signal.SIGKILL)
        else:
            self._quiet_since = None

    def _signal_all(self, number: int) -> None:
        for pid in self._children:
            os.kill(pid, number)

    def _tell(self, answer: Answer) -> None:
        if self._control is None:
            return
        try:
            self._control.sendall(line_of(answer))
        except OSError:
            self._lose_control()

    def _lose_control(self) -> None:
        """Go on without the launcher. The processes that were started run to their end."""
        if self._control is not None:
            self._control.close()
            self._control = None
        self._open_gate()
        self._signal_all(signal.SIGCONT)  # an event of the run may have paused some of them


def _pass(gate: int) -> None:
    """Wait until the zygote opens the gate, which it does by closing the other end."""
    os.read(gate, 1)
    os.close(gate)


def main() -> None:
    """``python -m node.worlds.zygote CONTROL_FD RUN_FOLDER SOCKETS_FOLDER``, started by the launcher."""
    control = socket.socket(fileno=int(sys.argv[1]))
    run, sockets = Path(sys.argv[2]), sys.argv[3]
    find_here()
    algorithm(read_manifest(run).algorithm)
    rehearse()
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise touch, and so copy, every page of the parent
    Zygote(control, run).serve()
    if sockets:
        shutil.rmtree(sockets, ignore_errors=True)


if __name__ == "__main__":
    keep_private()  # the agents inherit it
    main()
