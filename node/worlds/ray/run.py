"""A run on a Ray cluster: its parts travel to the nodes, the hosts run them, and the parts come back.

Rules that hold here:
- A part is in one place: here (``RUN.parts/NAME``) or on its node. It is removed where it came from once it is on the
  disk of the other. Where both hold it, a process was killed in between, and the node's counts.
- Everything that a later process needs to find the run is in ``RUN/ray.json``; it may be killed at any moment.
- This process holds sealed bytes only. Sealing and opening are processes of their own.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.folder.build import build, same_build
from node.folder.hosts import HostShare, read_hosts, shared, write_hosts
from node.folder.manifest import Manifest, read_manifest
from node.folder.sealed import make_key
from node.folder.watch import Watch
from node.folder.whole import write_whole
from node.places import agents_in_words
from node.worlds import steps
from node.worlds.parts import hand_over
from node.worlds.progress import Progress
from node.worlds.ray import cluster
from node.worlds.ray.note import RayNote, parts_of, read_note, write_note
from node.worlds.ray.share import RETURN_KEY, TRAVELLING, HostReport, Met, purpose, report_of
from node.worlds.steps import RunFailure

_KEY: Final = "return.key"
"""In the folder of the parts: the private key that parts are sealed to on their way back."""
LOOK: Final = 0.5
"""Seconds between two looks at the hosts."""
_COUNTS: Final = ("agents", "ready", "finished", "sent", "planned", "charged", "logged")


def check_on_ray(configuration: Configuration) -> None:
    """Raise `ConfigurationError` for what hosts of a Ray cluster cannot carry out."""
    if configuration.event:
        raise ConfigurationError(
            f"event: {len(configuration.event)} events; accepted with --on is a configuration without events, because "
            "no process can kill or start the agents of another node"
        )
    if configuration.network.transport == "ipc" and "transport" in configuration.network.model_fields_set:
        raise ConfigurationError(
            "network.transport = 'ipc': accepted with --on is 'tcp', because the agents are on several nodes"
        )


def deal_for(configuration: Configuration, run: Path, on: str, addresses: list[str]) -> Manifest:
    """Deal a run in one part a node, and note where its hosts are.

    Parameters
    ----------
    configuration
        The run's configuration; links have keys unless it says otherwise.
    run
        The new folder of the run; the parts lie beside it.
    on
        How Ray is reached: ``ray`` or ``ray://HOST:PORT``.
    addresses
        The addresses of the nodes. There are no more hosts than agents.

    Raises
    ------
    ConfigurationError, RunFailure
        As `node.worlds.steps.deal`.
    """
    if configuration.network.encryption is None:
        network = configuration.network.model_copy(update={"transport": "tcp", "encryption": True})
        configuration = configuration.model_copy(update={"network": network})
    manifest = steps.deal(configuration, run)
    hosts = {f"node-{place}": address for place, address in enumerate(addresses[: manifest.agents])}
    write_hosts(run, shared(list(hosts), manifest.agents, eavesdropper=configuration.eavesdropper.enabled))
    hand_over(run, parts_of(run))
    write_note(run, RayNote(on, hosts))
    return manifest


@dataclass(frozen=True)
class Look:
    """What the hosts answered at one moment."""

    reports: Mapping[str, HostReport]
    """By name; the last answer of a host that does not answer now."""
    silent: tuple[str, ...]
    """The hosts that do not answer."""
    progress: Progress

    @property
    def over(self) -> bool:
        """Whether every host that answers has ended, and one does."""
        answering = [report for name, report in self.reports.items() if name not in self.silent]
        return bool(answering) and all(report.over for report in answering)


class RayRun:
    """A dealt run and its hosts on a Ray cluster, to which this process is connected.

    Parameters
    ----------
    run
        The run's folder.
    """

    def __init__(self, run: Path) -> None:
        self.folder = run
        self.parts = parts_of(run)
        noted = read_note(run)
        self.on, self.hosts = noted.on, noted.hosts
        self._manifest = read_manifest(run)
        self._name = self._manifest.run.hex()
        self._last: dict[str, HostReport] = {}
        self._began = time.monotonic()

    @property
    def away(self) -> list[str]:
        """The hosts whose part is on its node."""
        return [name for name in self.hosts if not (self.parts / name).exists()]

    @property
    def began(self) -> bool:
        """Whether a host has its part and was told to begin, and its part is not back."""
        return any(report.state != "new" for name, report in self.look().reports.items() if name in self.away)

    @cached_property
    def _actors(self) -> dict[str, Any]:
        return {name: cluster.actor(self._name, name, self.hosts) for name in self.hosts}

    def deliver(self, tell: Callable[[str], None]) -> None:
        """Bring the parts that are here to their nodes. What should be known is told in lines.

        Raises
        ------
        RunFailure
            If a node has no place, or does not answer.
        """
        answers: dict[str, Met] = cluster.ask(self._actors, "meet", seconds=cluster.PLACING)
        missing = sorted(self.hosts.keys() - answers.keys())
        if missing:
            where = ", ".join(f"{name} at {self.hosts[name]}" for name in missing)
            raise RunFailure(
                f"{where}: Ray started no actor there within {cluster.PLACING:.0f} s: is a CPU of the node free "
                "(ray status)?"
            )
        system = build()["system"]  # the kernel computes nothing
        for name, met in sorted(answers.items()):
            if not same_build({**met.build, "system": system}):
                tell(f"{name} has another build than this machine: verify may find other bits there")
            self._deliver_one(name, met)

    def _deliver_one(self, name: str, met: Met) -> None:
        part = self.parts / name
        if met.holds or not part.exists():
            if not met.holds:
                raise RunFailure(f"{name} at {self.hosts[name]}: the part is neither on its node nor in {self.parts}")
            shutil.rmtree(part, ignore_errors=True)
            return
        write_whole(part / RETURN_KEY, make_key(self.parts / _KEY).encode())
        sealed = self.parts / f"{name}.sealed"
        steps.seal(part, sealed, met.key, purpose(self._name, name, back=False))
        with sealed.open("rb") as file:
            while data := file.read(TRAVELLING):
                cluster.call(self._actors[name], name, "take", file.tell() - len(data), data)
        cluster.call(self._actors[name], name, "open")
        sealed.unlink()
        shutil.rmtree(part)

    def begin(self) -> None:
        """Start the hosts, or go on with them."""
        for name, one in self._actors.items():
            cluster.call(one, name, "begin")

    def look(self) -> Look:
        """Ask the hosts how far they are."""
        away = self.away
        answered: dict[str, HostReport] = cluster.ask({n: self._actors[n] for n in away}, "report") if away else {}
        answered |= {name: report_of(self.parts / name, name) for name in self.hosts if name not in away}
        self._last |= answered
        silent = tuple(name for name in self.hosts if name not in answered)
        return Look(dict(self._last), silent, self._progress())

    def _progress(self) -> Progress:
        each = [report.progress for report in self._last.values()]
        counts = {name: sum(getattr(progress, name) for progress in each) for name in _COUNTS}
        known = sum(len(host.agents) for host in read_hosts(self.folder))
        return Progress(
            **{**counts, "agents": known, "planned": sum(self._manifest.releases)},
            ready_after=0.0,
            seconds=time.monotonic() - self._began,
            failures=tuple(failure for progress in each for failure in progress.failures),
        )

    def watch(self, show: Callable[[Look], None]) -> Watch:
        """Watch until every host has ended, or is not in the cluster any more.

        Returns
        -------
        Watch
            Seconds until all agents were ready, and in all.
        """
        watch = Watch(world="hosts")
        waiting = threading.Event()
        while True:
            look = self.look()
            show(look)
            if watch.ready_s is None and look.progress.ready == look.progress.agents:
                watch.ready_s = time.monotonic() - self._began
            if look.over and not {self.hosts[name] for name in look.silent} & cluster.alive():
                break
            waiting.wait(LOOK)
        watch.wall_s = time.monotonic() - self._began
        return watch

    def fetch(self) -> None:
        """Bring back the parts of the hosts that have ended, and remove them on their nodes.

        Raises
        ------
        RunFailure
            If agents still run, or a node is not there: the message names the host and its agents.
        """
        look = self.look()
        never = sorted(name for name, report in look.reports.items() if report.state == "new")
        if never:
            raise RunFailure(f"{', '.join(never)} never started: sottovoce resume {self.folder} starts the run")
        shares = {host.name: host for host in read_hosts(self.folder)}
        for name in self.away:
            if name in look.reports and name not in look.silent:
                self._fetch_one(name, look.reports[name])
        if self.away:
            raise RunFailure(self._missing({name: shares[name] for name in self.away}))

    def _fetch_one(self, name: str, report: HostReport) -> None:
        one = self._actors[name]
        if not report.over:
            raise RunFailure(
                f"{name}: {report.progress.finished} of {report.progress.agents} agents have finished; --wait waits "
                "for the others"
            )
        size = cluster.call(one, name, "pack")
        sealed = self.parts / f"{name}.sealed"
        with sealed.open("wb") as file:
            while file.tell() < size:
                file.write(cluster.call(one, name, "give", file.tell()))
        steps.unseal(sealed, self.parts / name, self.parts / _KEY, purpose(self._name, name, back=True))
        sealed.unlink()
        cluster.call(one, name, "forget")
        cluster.end({name: one})

    def _missing(self, lost: Mapping[str, HostShare]) -> str:
        hosts = "; ".join(
            f"{name} at {self.hosts[name]} does not answer, and has the part of {agents_in_words(host.agents)}"
            for name, host in lost.items()
        )
        return f"{hosts}. When it is back: sottovoce collect {self.folder} --wait"

    def stop(self) -> list[str]:
        """End all hosts and their agents; returns the hosts that did not answer."""
        answered = cluster.ask({name: self._actors[name] for name in self.away}, "stop")
        return [name for name in self.away if name not in answered]
