"""Hosts in network namespaces of this machine: each has an address of its own, and a link that can be cut."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
"""Debian's libfaketime, which sets a program's wall clock ahead."""


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def _must(*words: str) -> str:
    done = _ip(*words)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout


class Namespaces:
    """Hosts by name, on one switch; ``address`` of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._own = f"sv{os.getpid()}-"
        self.names = tuple(names)
        self.address = {name: f"10.77.0.{place + 1}" for place, name in enumerate(names)}

    def make(self) -> None:
        """Make the namespaces, and a bridge between them."""
        switch = self._own + "switch"
        _must("netns", "add", switch)
        self._in(switch, "link", "add", "br0", "type", "bridge")
        self._in(switch, "link", "set", "br0", "up")
        for name, address in self.address.items():
            own = self._own + name
            _must("netns", "add", own)
            _must("link", "add", "eth0", "netns", own, "type", "veth", "peer", "name", f"v-{name}", "netns", switch)
            self._in(switch, "link", "set", f"v-{name}", "master", "br0", "up")
            self._in(own, "address", "add", f"{address}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                self._in(own, "link", "set", link, "up")

    @staticmethod
    def _in(namespace: str, *words: str) -> None:
        _must("-n", namespace, *words)

    def inside(self, name: str, *, same_clock: bool = False) -> list[str]:
        """What to write before a command that runs on a host; the clocks since boot differ by hours between hosts."""
        hours = 0 if same_clock else 3600 * self.names.index(name)
        own = ["unshare", "--time", "--monotonic", str(hours), "--fork"] if hours else []
        return ["ip", "netns", "exec", self._own + name, *own]

    def processes(self, name: str) -> list[int]:
        """The processes of a host."""
        return [int(pid) for pid in _ip("netns", "pids", self._own + name).stdout.split()]

    def lose(self, name: str) -> None:
        """A host is gone at once: its link is cut, so that no other host is told, and its processes end."""
        self._in(self._own + name, "link", "set", "eth0", "down")
        for pid in self.processes(name):
            os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """End what runs there, and remove the namespaces."""
        for name in self.names:
            for pid in self.processes(name):
                os.kill(pid, signal.SIGKILL)
        for name in (*self.names, "switch"):
            _ip("netns", "delete", self._own + name)


@contextmanager
def hosts_in_namespaces(*names: str) -> Iterator[Namespaces]:
    """Hosts with these names; the test is skipped where the system lets it make none."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces are made by root")
    made = Namespaces(names)
    try:
        made.make()
    except (OSError, AssertionError) as error:
        made.remove()
        pytest.skip(f"network namespaces cannot be made here: {error}")
    try:
        yield made
    finally:
        made.remove()


def ahead(seconds: int) -> dict[str, str]:
    """The environment of programs whose wall clock is ahead, and nothing else; empty without libfaketime."""
    if not FAKETIME.exists():
        return {}
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"+{seconds}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
