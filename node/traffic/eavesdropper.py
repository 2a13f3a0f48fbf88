"""The eavesdropper: a passive process that receives every frame of every agent, and logs it.

Rules that hold here:
- It never sends, and connects only to endpoints that exist.
- Every frame is logged as received. No frame can make the loop raise.
- The log is flushed every second. However the eavesdropper ends, the log is closed and records whether it is complete.
- `node.traffic.over` decides from counts and times alone when the eavesdropper ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from node.exit_codes import ExitCode
from node.faults.log import Fault, read_faults
from node.folder.endings import CAPTURE_INCOMPLETE
from node.folder.keys import PUBLIC_KEYS, Keys, read_keys
from node.folder.manifest import read_manifest
from node.folder.status import OverheardFile
from node.plug_ins import find_here
from node.processes import StopSignals, allow_many_files, end_with_parent
from node.sockets.agent_sockets import Endpoints, FileEndpoints
from node.sockets.ear import Ear
from node.traffic.attachments import run_attachments
from node.traffic.completeness import Capture, CaptureCounter
from node.traffic.documents import EavesdropperVerdict
from node.traffic.format import TrafficLogError
from node.traffic.over import Situation, over
from node.traffic.run_logs import frames_of, logs_of, next_log
from node.traffic.writer import TrafficLogWriter

FRAME_LIMIT: Final = 64 << 20
"""Largest size of one part of a frame, in bytes: ZeroMQ closes the connection to the sender of a larger one. A frame of
more than three parts is dropped if all its parts together are larger."""
FLUSH_SECONDS: Final = 1.0
BATCH: Final = 1000
"""Largest number of frames taken from the socket before connections, status and stop are checked again."""
BUSY: Final = 20
"""After draining at least this many frames, sleep `NAP_SECONDS`: waking for each frame costs more than handling it."""
NAP_SECONDS: Final = 0.002
STOP_SECONDS: Final = 1.0
"""Seconds for which a stopped eavesdropper still logs the frames that have already arrived."""
LOOK_SECONDS: Final = 0.05
"""Seconds between two checks of the connections."""


@dataclass(frozen=True)
class Outcome:
    """How listening ended."""

    capture: Capture
    """The verdict over the log's frames."""
    ended: str
    """Why listening ended."""
    chain: bytes
    """The log's SHA-256 chain after the last frame."""
    oversized: int
    """Frames above `FRAME_LIMIT`, which were not logged."""
    failure: str | None
    """The disk's error, if the log could not be written to its end."""

    @property
    def complete(self) -> bool:
        """Whether everything that was sent is in the log."""
        return self.capture.complete and self.failure is None

    def as_json(self) -> EavesdropperVerdict:
        """Return one document for the process that started the eavesdropper."""
        capture = self.capture
        return {
            "capture": {**capture.as_results(), "complete": self.complete},
            "ended": self.ended,
            "frames": capture.frames,
            "refused": capture.refused,
            "redrawn": [list(pair) for pair in capture.redrawn],
            "backwards": list(capture.backwards),
            "silent": list(capture.silent),
            "oversized": self.oversized,
            "chain": self.chain.hex(),
            "failure": self.failure,
        }


class Eavesdropper:
    """Connects to the endpoints of ``doors``, as soon as each is known, and writes every frame to a log.

    Parameters
    ----------
    log
        The log. It is closed at the end, also after an error.
    endpoints, doors
        The addresses of agents, and the numbers of the agents to connect to.
    counter
        Judges the capture. It may have counted the frames of earlier logs of the same run already.
    stop
        Returns whether to stop. Frames that have already arrived are still logged.
    status
        The file in which the eavesdropper shows its progress.
    patience
        Seconds for which to wait for agents that are being restarted. The eavesdropper ends once no agent was connected
        for this long, even if some agent never connected.
    events
        Returns the faults of the run so far, each with its ``time_ns``.
    until_told
        Whether only ``stop`` ends it.
    keys
        Key pairs for encrypted links; agents admit the eavesdropper by its public key. None: links are not encrypted.

    Raises
    ------
    ValueError
        If there is no endpoint.
    """

    def __init__(
        self,
        log: TrafficLogWriter,
        endpoints: Endpoints,
        doors: Iterable[int],
        counter: CaptureCounter,
        *,
        stop: Callable[[], bool] = lambda: False,
        status: Path | None = None,
        patience: float | None = None,
        events: Callable[[], Iterable[Fault]] = tuple,
        keys: Keys | None = None,
        until_told: bool = False,
    ) -> None:
        self._log = log
        self._until_told = until_told
        self._endpoints = endpoints
        self._unknown = set(doors)
        if not self._unknown:
            raise ValueError("no endpoint to listen to")
        self._doors = len(self._unknown)
        self._counter = counter
        self._resumed = counter.frames > 0
        self._stop = stop
        self._patience = patience
        self._events = events
        self._events_taken = 0
        self._shown = OverheardFile(status) if status is not None else None
        self._ear = Ear(keys, FRAME_LIMIT)
        self._epoch = time.time_ns() - time.monotonic_ns()
        self._oversized = 0
        self._now = time.monotonic()
        self._next_flush = self._now + FLUSH_SECONDS
        self._next_look = self._frame_at = self._there_at = self._now
        self._stopping_since: float | None = None
        self._over: str | None = None

    def listen(self) -> Outcome:
        """Log frames until listening is over, close the log, and return the verdict.

        Raises
        ------
        TransportError
            If an endpoint cannot be connected to.
        """
        failure: str | None = None
        ended = "stopped"
        try:
            while not self._step():
                pass
            self._log_events()
            ended = self._over or ended
        except OSError as error:
            failure = f"{self._log.path}: {error.strerror or error}: the log ends with frame {self._log.frames}"
            ended = "the log could not be written"
        finally:
            self._ear.close()
            self._show()
            if self._shown is not None:
                self._shown.close()
            outcome = self._close_log(ended, failure)
        return outcome

    def _step(self) -> bool:
        """Log frames, check connections, and wait if no frame came; returns whether listening is over."""
        if self._stopping_since is None and self._stop():
            self._stopping_since = self._now
        taken = self.take()
        if self._now >= self._next_look or not taken:
            self.look_around()
        if self._stopping_since is not None and (not taken or self._now >= self._stopping_since + STOP_SECONDS):
            self._over = None
            return True
        if taken:
            self._over = None
            if self._stopping_since is None and BUSY <= taken < BATCH:
                time.sleep(NAP_SECONDS)
            return False
        if self._over is not None:
            return True  # no frame came between two checks with the same result
        self._over = None if self._until_told else over(self.situation())
        if self._over is None:
            self._ear.wait(LOOK_SECONDS)
        return False

    def take(self) -> int:
        """Log the frames that have arrived; returns their number."""
        frames = self._ear.drain(BATCH)
        for received_ns, parts in frames:
            if len(parts) > 3 and sum(map(len, parts)) > FRAME_LIMIT:
                self._oversized += 1
                continue
            self._log.write(parts, self._epoch + received_ns)
            self._counter.tally(parts)
        self._now = time.monotonic()
        if frames:
            self._frame_at = self._now
            self._show()
        if self._now >= self._next_flush:
            self._log_events()
            self._log.flush()
            self._next_flush = self._now + FLUSH_SECONDS
        return len(frames)

    def look_around(self) -> None:
        """Connect to the endpoints that have become known, follow those that moved, and count the connections."""
        self._next_look = self._now + LOOK_SECONDS
        for door in sorted(self._unknown):
            endpoint = self._endpoints.lookup(door)
            if endpoint is not None:
                self._ear.connect(endpoint, door)
                self._unknown.discard(door)
        while (moved := self._endpoints.moved()) is not None:
            agent, endpoint = moved
            if agent not in self._unknown:
                self._ear.connect(endpoint, agent)
        self._ear.notice()
        self._show()
        if self._ear.connected > 0:
            self._there_at = self._now

    def situation(self) -> Situation:
        """Return the facts that `over` decides from."""
        return Situation(
            doors=self._doors,
            unknown=len(self._unknown),
            met=len(self._ear.met),
            connected=self._ear.connected,
            complete=self._counter.complete,
            now=self._now,
            frame_at=self._frame_at,
            there_at=self._there_at,
            patience=self._patience,
            resumed=self._resumed,
        )

    def _log_events(self) -> None:
        for event in list(self._events())[self._events_taken :]:
            self._log.event(event, int(event["time_ns"]))
            self._events_taken += 1

    def _show(self) -> None:
        if self._shown is not None:
            counter = self._counter
            self._shown.show(
                counter.releases,
                counter.frames,
                counter.bytes,
                counter.done,
                len(self._ear.met),
                len(counter.backwards),
            )

    def _close_log(self, ended: str, failure: str | None) -> Outcome:
        verdict = self._counter.verdict()
        outcome = Outcome(verdict, ended, self._log.chain, self._oversized, failure)
        try:
            self._log.close(
                {"capture": {"verdict": json.dumps(outcome.as_json(), allow_nan=False), "words": verdict.in_words()}}
            )
        except OSError as error:
            return replace(outcome, failure=f"{self._log.path}: {error.strerror or error}")
        return outcome


def eavesdrop_on_run(
    run: Path,
    stop: Callable[[], bool] = lambda: False,
    endpoints: Endpoints | None = None,
    patience: float | None = None,
    agents: Iterable[int] | None = None,
    *,
    until_told: bool = False,
) -> Outcome:
    """Log every frame of agents of a dealt run.

    If the run has a log already, this one is the next (`node.traffic.run_logs`), and the verdict is over all of them.

    Parameters
    ----------
    run
        The run's folder.
    stop
        Returns whether to stop.
    endpoints
        The agents' addresses. None: the files in which the agents publish them.
    patience
        Seconds for which to wait for agents that are being restarted.
    agents
        The agents to log, and to judge the capture by. None: all. Other eavesdroppers log the others, and
        `node.traffic.merge` makes one log of theirs.
    until_told
        Whether only ``stop`` ends it: agents that are started again wait for their eavesdropper.
    """
    manifest = read_manifest(run)
    agents = range(manifest.agents) if agents is None else sorted(agents)
    keys = read_keys(run, None, agents) if (run / PUBLIC_KEYS).exists() else None
    earlier = logs_of(run)
    counter = CaptureCounter(manifest.run, agents)
    if earlier:
        for frame in frames_of(run, []):
            counter.count(frame.parts)
    metadata = {"continues": earlier[-1].name, "received before": f"{counter.frames} frames"} if earlier else None
    log = TrafficLogWriter(next_log(run), run_attachments(run), metadata)
    return Eavesdropper(
        log,
        endpoints or FileEndpoints(run / "endpoints"),
        agents,
        counter,
        stop=stop,
        status=run / "eavesdropper.status",
        patience=patience,
        events=lambda: read_faults(run),
        keys=keys,
        until_told=until_told,
    ).listen()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m node.traffic.eavesdropper --run RUN``, which the launcher starts.

    Prints one JSON document. Exit status 0 if the capture is complete, 1 if not, 2 if the folder is not a run.
    """
    parser = argparse.ArgumentParser(prog="python -m node.traffic.eavesdropper")
    parser.add_argument("--run", type=Path, required=True, help="the run's folder")
    parser.add_argument("--patience", type=float, help="seconds for which to wait for agents on other hosts")
    parser.add_argument("--agents", metavar="FIRST-LAST", help="record these agents only")
    parser.add_argument("--until-told", action="store_true", help="end by SIGTERM or SIGINT alone")
    options = parser.parse_args(arguments)
    find_here()
    stop = StopSignals()
    end_with_parent()
    allow_many_files()
    try:
        first, _, last = (options.agents or "").partition("-")
        agents = range(int(first), int(last) + 1) if first else None
        outcome = eavesdrop_on_run(
            options.run, stop, patience=options.patience, agents=agents, until_told=options.until_told
        )
    except (TrafficLogError, OSError, ValueError, KeyError) as error:
        print(f"run folder {options.run}: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    stop.ignore()  # a stop that arrives after the end must not make it fail
    print(json.dumps(outcome.as_json(), allow_nan=False), flush=True)
    if not outcome.complete:
        print(outcome.failure or outcome.capture.in_words(), file=sys.stderr)
    return ExitCode.FINISHED if outcome.complete else CAPTURE_INCOMPLETE


if __name__ == "__main__":
    sys.exit(main())
