"""What a node does for an engine: it keeps one host's part of a run, runs `sottovoce host` on it, and gives it back.

Rules that hold here:
- The part arrives and leaves sealed. This process, which belongs to the engine, never holds what is inside.
- It leaves for the key alone that lay in the sealed part.
- `sottovoce host` is a process of its own, known by process id and start time. The next engine process of the same
  place finds it, and starts no second one.
- A host process that a signal ended is started again, at most `STARTS` times by one engine process.

What lies in the place of a part, ``$XDG_DATA_HOME/sottovoce/hosts/RUN/NAME`` (default: ``~/.local/share``), mode 0700:

    key            the private key that the part is sealed to
    part/          the part
    exchange/      endpoints of agents, one file a host
    host.log       what `sottovoce host` printed
    host.json      its process
    state          "begun", "stopped" or "ended"
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from node.configuration.reading import load_dealt
from node.folder.build import Build, build
from node.folder.endings import failures_of
from node.folder.hosts import checked_name, read_hosts
from node.folder.manifest import read_manifest
from node.folder.sealed import make_key
from node.folder.status import read_overheard
from node.folder.whole import write_whole
from node.worlds import steps
from node.worlds.exchange import SUFFIX
from node.worlds.launcher import Cluster
from node.worlds.orphan import started_at, stop_run
from node.worlds.progress import Progress
from node.worlds.steps import RunFailure

STARTS: Final = 4
"""So often one engine process starts the host process."""
LOOK: Final = 0.05
"""Seconds between two looks at a host process that was told to stop."""
RETURN_KEY: Final = "return-key"
"""In a sealed part: the public key that the part is sealed to on its way back."""
TRAVELLING: Final = 1 << 24
"""Bytes of a sealed part that travel at once."""
_LARGEST_EXCHANGED: Final = 1 << 24


@dataclass(frozen=True)
class Met:
    """What a node answers first: its public key, its build, and whether the part is there already."""

    key: str
    build: Build
    holds: bool


@dataclass(frozen=True)
class HostReport:
    """How far the host of a part is. ``state`` is "begun", "stopped" or "ended", or "new" before it began."""

    name: str
    state: str
    starts: int
    progress: Progress
    backwards: int = 0
    """Agents whose ledger went backwards, as the eavesdropper noticed."""

    @property
    def over(self) -> bool:
        """Whether nothing runs here, and nothing will be started."""
        return self.state in ("ended", "stopped")


def report_of(part: Path, name: str) -> HostReport:
    """How far the host of a part is by what lies in it; the part need not have begun."""
    own = next(host for host in read_hosts(part) if host.name == name)
    seen = Cluster(part, load_dealt(part / "config.toml"), read_manifest(part).agents, own=own.agents)
    progress = replace(seen.progress(), failures=tuple(failures_of(part)))
    overheard = read_overheard(part / "eavesdropper.status")
    state = "ended" if (part / "processes.json").exists() else "new"
    return HostReport(name, state, 0, progress, 0 if overheard is None else overheard.backwards)


def purpose(run: str, name: str, *, back: bool) -> str:
    """What a sealed part is for: the way to its host, or back."""
    return f"run {run}, {'from' if back else 'to'} host {name}"


def places() -> Path:
    """Where the parts of runs lie on this node."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "sottovoce" / "hosts"


class NodeShare:
    """One host's part of a run on the node of this process.

    Parameters
    ----------
    run
        The run's name in hexadecimal digits.
    name
        The host's name.
    address
        The numeric address at which the other hosts reach this node.
    """

    def __init__(self, run: str, name: str, address: str) -> None:
        bytes.fromhex(run)  # both become names of folders
        self._run, self._name, self._address = run, checked_name(name), address
        self._place = places() / run / name
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._part, self._exchange = self._place / "part", self._place / "exchange"
        self._exchange.mkdir(exist_ok=True)
        self._child: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._lock = threading.Lock()
        self._ticks = threading.Event()

    def meet(self) -> Met:
        """Tell the public key, made at the first call, and what bit-for-bit claims depend on."""
        return Met(make_key(self._place / "key"), build(), self._part.exists())

    def take(self, offset: int, data: bytes) -> None:
        """Take bytes of the sealed part."""
        mode = "wb" if offset == 0 else "r+b"
        with (self._place / "incoming.sealed").open(mode) as file:
            file.seek(offset)
            file.write(data)

    def open(self) -> None:
        """Open the sealed part that was taken. Raises `ConfigurationError` if it was not sealed for this host."""
        incoming = self._place / "incoming.sealed"
        if not self._part.exists():
            steps.unseal(incoming, self._part, self._place / "key", purpose(self._run, self._name, back=False))
        incoming.unlink()

    def begin(self) -> None:
        """Start the host process, or go on with it."""
        with self._lock:
            if not self._part.exists():
                raise RunFailure(f"{self._name}: its part has not arrived")
            self._write_state("begun")
            self._starts = 0
            if self._child is not None and self._child.poll() is not None:
                self._child = None  # how it ended is no reason to start no other
        self.look()

    def look(self) -> None:
        """Start the host process again if a signal ended it."""
        with self._lock:
            code = None if self._child is None else self._child.poll()
            if self._state() != "begun" or self._runs():
                return
            if (code is not None and code >= 0) or self._starts >= STARTS:
                self._write_state("ended")
            else:
                self._start()

    def stop(self) -> None:
        """End the host process and its agents. What was charged stays charged."""
        with self._lock:
            self._write_state("stopped")
            pid = self._noted()
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            while self._runs():
                self._ticks.wait(LOOK)
            if self._child is not None:
                self._child.wait()
            stop_run(self._part)

    def report(self) -> HostReport:
        """How far the host is."""
        if not self._part.exists():
            raise RunFailure(f"{self._name}: its part is not here")
        return replace(report_of(self._part, self._name), state=self._state(), starts=self._starts)

    def pack(self) -> int:
        """Seal the part for its way back; returns the bytes of the sealed file.

        Raises
        ------
        RunFailure
            If its agents may still charge their ledgers.
        """
        if self._runs() or self._state() == "begun":
            raise RunFailure(f"{self._name}: its agents run; their ledgers leave when they have ended")
        target = self._place / "outgoing.sealed"
        receiver = (self._part / RETURN_KEY).read_text().strip()
        steps.seal(self._part, target, receiver, purpose(self._run, self._name, back=True))
        return target.stat().st_size

    def give(self, offset: int) -> bytes:
        """Give bytes of the sealed part."""
        with (self._place / "outgoing.sealed").open("rb") as file:
            file.seek(offset)
            return file.read(TRAVELLING)

    def forget(self) -> None:
        """Remove the part: it has arrived where it came from, and a ledger is in one place alone."""
        shutil.rmtree(self._place)
        with suppress(OSError):
            self._place.parent.rmdir()

    def endpoints(self) -> str:
        """The endpoints of the agents here, as the host told them."""
        try:
            return (self._exchange / f"{self._name}{SUFFIX}").read_text(encoding="ascii")
        except FileNotFoundError:
            return ""

    def tell(self, name: str, text: str) -> None:
        """Take the endpoints of another host; what they say is checked by the host process."""
        write_whole(self._exchange / f"{checked_name(name)}{SUFFIX}", text.encode()[:_LARGEST_EXCHANGED], 0o644)

    def _start(self) -> None:
        given = ["host", str(self._part), "--address", self._address, "--endpoints", str(self._exchange)]
        with (self._place / "host.log").open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "node.cli", *given],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=steps.environment(),
                start_new_session=True,
            )
        self._starts += 1
        noted = {"pid": self._child.pid, "started": started_at(self._child.pid)}
        write_whole(self._place / "host.json", json.dumps(noted).encode())

    def _noted(self) -> int | None:
        """The process id of the host process that was started last, by whatever engine process; None if it ended."""
        try:
            noted = json.loads((self._place / "host.json").read_text())
        except OSError:
            return None
        return int(noted["pid"]) if started_at(noted["pid"]) == noted["started"] is not None else None

    def _runs(self) -> bool:
        return self._noted() is not None

    def _state(self) -> str:
        try:
            return (self._place / "state").read_text()
        except FileNotFoundError:
            return "new"

    def _write_state(self, state: str) -> None:
        write_whole(self._place / "state", state.encode())
