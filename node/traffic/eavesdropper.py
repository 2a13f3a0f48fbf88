"""The eavesdropper: a passive process that hears every agent and writes down each frame.

Rules that hold here:
- It subscribes to everything and never sends; that it listens is known to agents only by its subscription.
- It connects only to endpoints that exist.
- Whatever arrives is logged as received; nothing that arrives can raise out of the loop.
- What it heard is flushed every second, and however it ends the log is closed and says whether the capture is complete.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import zmq

from node.faults.log import read_faults
from node.folder.keys import PUBLIC_KEYS, Keys, read_keys
from node.folder.status import OverheardFile
from node.plug_ins import find_here
from node.processes import StopSignals, allow_many_files
from node.sockets.agent_sockets import Endpoints, FileEndpoints, TransportError
from node.sockets.names import NamedEndpoints
from node.traffic.completeness import Capture, CaptureCounter
from node.traffic.reader import TrafficLogError, TrafficLogWriter
from node.traffic.run_logs import frames_of, logs_of, next_log
from node.wire import EAVESDROPPER

FRAME_LIMIT: Final = 64 << 20
"""Bytes of a frame's longest part; a longer one makes ZeroMQ hang up on whoever sends it. Frames of more than three
parts are dropped if all their parts together are longer."""
FLUSH_SECONDS: Final = 1.0
BATCH: Final = 1000
"""Frames that are taken between two looks at everything else."""
BUSY: Final = 20
"""A drain of so many frames is followed by a nap: waking for each frame costs more than the frame."""
NAP_SECONDS: Final = 0.002
QUIET_SECONDS: Final = 1.0
"""A complete capture ends after so long a silence, even where agents stay."""
GONE_SECONDS: Final = 2.0
"""An incomplete capture ends so long after the last agent hung up: it may be about to come back."""
STOP_SECONDS: Final = 1.0
"""What has already arrived when it is told to stop is still taken, for so long."""
LOOK_SECONDS: Final = 0.05
_MONITORED: Final = struct.Struct("=Hi")
"""A monitor's event and its value (zmq_socket_monitor). pyzmq's own reader brings asyncio with it."""


@dataclass(frozen=True)
class Heard:
    """How listening ended: the verdict over the log's frames, why it ended, the log's chain, and what was not logged.

    ``failure`` is the disk's error if the log could not be written on; ``oversized`` counts frames above the limit.
    """

    capture: Capture
    ended: str
    chain: bytes
    oversized: int
    failure: str | None

    @property
    def complete(self) -> bool:
        """Everything that was said is in the log."""
        return self.capture.complete and self.failure is None

    def as_json(self) -> dict[str, Any]:
        """One document for whoever started the eavesdropper."""
        capture = self.capture
        return {
            "capture": {**capture.as_results(), "complete": self.complete},
            "ended": self.ended,
            "frames": capture.frames,
            "refused": capture.refused,
            "redrawn": [list(pair) for pair in capture.redrawn],
            "silent": list(capture.silent),
            "oversized": self.oversized,
            "chain": self.chain.hex(),
            "failure": self.failure,
        }


class _Ear:
    """The SUB socket, and how many of those it is connected to are there."""

    def __init__(self, keys: Keys | None) -> None:
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.SUB)
        self._keys = keys
        self._heard_at: dict[str, int] = {}
        if keys is not None:
            self._socket.curve_publickey, self._socket.curve_secretkey = keys.public, keys.private
        self._socket.linger = 0
        self._socket.rcvhwm = 0
        self._socket.maxmsgsize = FRAME_LIMIT
        self._socket.reconnect_ivl = 100
        self._socket.reconnect_ivl_max = 2000
        self._socket.ipv6 = True
        self._socket.heartbeat_ivl = 5000
        self._socket.heartbeat_timeout = 20000
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
        self._socket.subscribe(EAVESDROPPER)
        self._socket.subscribe(b"")
        self.connected = 0
        self.met: set[bytes] = set()
        """Endpoints that it has been connected to."""

    def connect(self, endpoint: str, agent: int) -> None:
        self._heard_at[endpoint] = agent
        if self._keys is not None:
            # Holds for the connections that are made from here on, so that one socket can hear everybody.
            self._socket.curve_serverkey = self._keys.agents[agent]
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise TransportError(f"cannot listen at {endpoint!r}: {error.strerror or error}") from None

    def follow(self, old: str, new: str) -> None:
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disconnect(old)
        self.connect(new, self._heard_at.pop(old))

    def wait(self, seconds: float) -> None:
        self._socket.poll(max(1, round(1000 * seconds)))

    def drain(self, most: int) -> list[tuple[int, list[bytes]]]:
        """What arrived, at most ``most`` frames, each with the monotonic time (ns) at which it was taken."""
        frames: list[tuple[int, list[bytes]]] = []
        receive, clock, flags = self._socket.recv, time.monotonic_ns, int(zmq.NOBLOCK)
        # Part by part, because asking a part whether there are more is cheaper than what recv_multipart does.
        with contextlib.suppress(zmq.Again):
            while len(frames) < most:
                part = receive(flags, copy=False)
                parts = [part.bytes]
                while part.more:
                    part = receive(flags, copy=False)
                    parts.append(part.bytes)
                frames.append((clock(), parts))
        return frames

    def notice(self) -> None:
        """Count who is there."""
        with contextlib.suppress(zmq.Again):
            while True:
                what, endpoint = self._monitor.recv_multipart(zmq.NOBLOCK)
                event, _ = _MONITORED.unpack(what)
                if event == zmq.EVENT_CONNECTED:
                    self.connected += 1
                    self.met.add(endpoint)
                elif event == zmq.EVENT_DISCONNECTED:
                    self.connected -= 1

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._context.term()


def run_eavesdropper(
    log: TrafficLogWriter,
    endpoints: Endpoints,
    doors: Iterable[int],
    *,
    run: bytes | None = None,
    agents: Sequence[int] | None = None,
    stop: Callable[[], bool] = lambda: False,
    status: Path | None = None,
    before: Iterable[Sequence[bytes]] = (),
    patience: float | None = None,
    events: Callable[[], Iterable[dict[str, Any]]] = tuple,
    keys: Keys | None = None,
) -> Heard:
    """Listen at the endpoints of ``doors``, as soon as each is known, and write all that is heard to ``log``.

    Ends when the capture is complete and everybody has hung up or is quiet; when everybody has hung up; or when
    ``stop()`` says so. ``agents`` are those that must be heard (None: whoever is). The log is closed in any case.
    Raises `TransportError` for an endpoint that cannot be.

    ``before`` are the frames of earlier logs of the same run, over which the capture is judged too. With ``patience``
    (seconds) agents may be restarted meanwhile: nobody has to have been there for so long before it ends, and then it
    ends though not everybody came. ``events()`` gives what happened to the run so far, each with its ``time_ns``. With
    ``keys`` the agents' links are encrypted, and it is let in by its own.
    """
    counter = CaptureCounter(run, agents)
    for known in before:
        counter.hear(known)
    resumed = counter.frames > 0
    gone = GONE_SECONDS if patience is None else patience
    unknown = set(doors)
    if not unknown:
        raise ValueError("no endpoint to listen to")
    doorways = len(unknown)
    shown = OverheardFile(status) if status is not None else None
    ear = _Ear(keys)
    base = time.time_ns() - time.monotonic_ns()
    oversized = 0
    failure: str | None = None
    ended = "stopped"
    now = time.monotonic()
    next_flush, next_look, last_heard, gone_since = now + FLUSH_SECONDS, now, now, now
    stopping_since: float | None = None
    over = False
    told = 0

    def take_events() -> None:
        nonlocal told
        for event in list(events())[told:]:
            log.event(event, int(event["time_ns"]))
            told += 1

    def show() -> None:
        if shown is not None:
            shown.show(counter.releases, counter.frames, counter.bytes, counter.done, len(ear.met))

    try:
        while True:
            if stopping_since is None and stop():
                stopping_since = now
            frames = ear.drain(BATCH)
            for heard_ns, parts in frames:
                if len(parts) > 3 and sum(map(len, parts)) > FRAME_LIMIT:
                    oversized += 1
                    continue
                log.write(parts, base + heard_ns)
                counter.hear(parts)
            now = time.monotonic()
            if frames:
                last_heard = now
                show()
            if now >= next_flush:
                take_events()
                log.flush()
                next_flush = now + FLUSH_SECONDS
            if now >= next_look or not frames:
                next_look = now + LOOK_SECONDS
                for door in sorted(unknown):
                    endpoint = endpoints.lookup(door)
                    if endpoint is not None:
                        ear.connect(endpoint, door)
                        unknown.discard(door)
                if isinstance(endpoints, NamedEndpoints):
                    while (moved := endpoints.moved()) is not None:
                        ear.follow(*moved)
                ear.notice()
                show()
                if ear.connected > 0:
                    gone_since = now
            if stopping_since is not None and (not frames or now >= stopping_since + STOP_SECONDS):
                ended = "stopped"
                break
            if frames:
                over = False
                if stopping_since is None and BUSY <= len(frames) < BATCH:
                    time.sleep(NAP_SECONDS)
                continue
            if over:
                break
            everybody_came = not unknown and len(ear.met) >= doorways
            nobody_left = ear.connected <= 0 and (counter.complete or now >= gone_since + gone)
            if nobody_left and (everybody_came or (patience is not None and (resumed or bool(ear.met)))):
                over, ended = True, "everybody hung up"
            elif everybody_came and counter.complete and now >= last_heard + QUIET_SECONDS:
                over, ended = True, "complete"
            else:
                ear.wait(LOOK_SECONDS)
        take_events()
    except OSError as error:
        failure = f"{log.path}: {error.strerror or error}: the log ends with frame {log.frames}"
        ended = "the log could not be written"
    finally:
        ear.close()
        show()
        if shown is not None:
            shown.close()
        verdict = counter.verdict()
        heard = Heard(verdict, ended, log.chain, oversized, failure)
        try:
            log.close({"capture": {"verdict": json.dumps(heard.as_json()), "words": verdict.in_words()}})
        except OSError as error:
            heard = Heard(verdict, ended, log.chain, oversized, f"{log.path}: {error.strerror or error}")
    return heard


def run_attachments(run: Path) -> dict[str, bytes]:
    """What a run's log carries: the public part of the configuration, the graph, the manifest."""
    from node.configuration.reading import dump_public, load

    return {
        "config.toml": dump_public(load(run / "config.toml")).encode(),
        "topology.graphml": (run / "topology.graphml").read_bytes(),
        "manifest.json": (run / "manifest.json").read_bytes(),
    }


def eavesdrop_on_run(
    run: Path,
    stop: Callable[[], bool] = lambda: False,
    endpoints: Endpoints | None = None,
    patience: float | None = None,
) -> Heard:
    """Hear all agents of a dealt run into its ``traffic.mcap``, at ``endpoints`` or as they publish them.

    Where there is a log already, this one is the next (`node.traffic.run_logs`), and its verdict is over all of them.
    """
    manifest = json.loads((run / "manifest.json").read_bytes())
    agents = range(int(manifest["agents"]))
    keys = read_keys(run, None, agents) if (run / PUBLIC_KEYS).exists() else None
    earlier = logs_of(run)
    before = [frame.parts for frame in frames_of(run, [])] if earlier else []
    metadata = {"continues": earlier[-1].name, "heard before": f"{len(before)} frames"} if earlier else None
    log = TrafficLogWriter(next_log(run), run_attachments(run), metadata)
    return run_eavesdropper(
        log,
        endpoints or FileEndpoints(run / "endpoints"),
        agents,
        run=bytes.fromhex(manifest["run"]),
        agents=agents,
        stop=stop,
        status=run / "eavesdropper.status",
        before=before,
        patience=patience,
        events=lambda: read_faults(run),
        keys=keys,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m node.traffic.eavesdropper --run RUN``, started by the launcher.

    Prints one JSON document. Exit status 0 if the capture is complete, 1 if not, 2 for a folder that is no run.
    """
    parser = argparse.ArgumentParser(prog="python -m node.traffic.eavesdropper")
    parser.add_argument("--run", type=Path, required=True, help="the run's folder")
    options = parser.parse_args(arguments)
    find_here()
    stop = StopSignals()
    allow_many_files()
    try:
        heard = eavesdrop_on_run(options.run, stop)
    except (TrafficLogError, OSError, ValueError, KeyError) as error:
        print(f"run folder {options.run}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(heard.as_json()), flush=True)
    if not heard.complete:
        print(heard.failure or heard.capture.in_words(), file=sys.stderr)
    return 0 if heard.complete else 1


if __name__ == "__main__":
    sys.exit(main())
