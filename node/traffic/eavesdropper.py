"""The eavesdropper: a passive process that receives what every agent sends, and logs each frame.

Rules that hold here:
- It never sends, and connects only to endpoints that exist.
- Every frame is logged as received; nothing that arrives can raise out of the loop.
- The log is flushed every second. However the eavesdropper ends, the log is closed and says whether it is complete.
- When it ends is decided by `over` from counts and times alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from node.exit_codes import ExitCode
from node.faults.log import read_faults
from node.folder.endings import CAPTURE_INCOMPLETE
from node.folder.keys import PUBLIC_KEYS, Keys, read_keys
from node.folder.status import OverheardFile
from node.plug_ins import find_here
from node.processes import StopSignals, allow_many_files
from node.sockets.agent_sockets import Endpoints, FileEndpoints
from node.sockets.ear import Ear
from node.sockets.names import NamedEndpoints
from node.traffic.attachments import run_attachments
from node.traffic.completeness import Capture, CaptureCounter
from node.traffic.format import TrafficLogError
from node.traffic.run_logs import frames_of, logs_of, next_log
from node.traffic.writer import TrafficLogWriter

FRAME_LIMIT: Final = 64 << 20
"""Bytes of a frame's longest part; ZeroMQ hangs up on the sender of a longer one. Frames of more than three parts are
dropped if all their parts together are longer."""
FLUSH_SECONDS: Final = 1.0
BATCH: Final = 1000
"""Frames that are taken between two looks at everything else."""
BUSY: Final = 20
"""After draining at least this many frames, sleep `NAP_SECONDS`: waking for each frame costs more than handling it."""
NAP_SECONDS: Final = 0.002
QUIET_SECONDS: Final = 1.0
"""Listening ends this long after the last frame of a complete capture, even where agents stay."""
GONE_SECONDS: Final = 2.0
"""Listening ends this long after the last agent hung up, if the capture is incomplete: an agent may come back."""
STOP_SECONDS: Final = 1.0
"""Seconds for which an eavesdropper that was told to stop still takes what has already arrived."""
LOOK_SECONDS: Final = 0.05


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
        """Whether everything that was sent is in the log."""
        return self.capture.complete and self.failure is None

    def as_json(self) -> dict[str, Any]:
        """Return one document for the process that started the eavesdropper."""
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


@dataclass(frozen=True, slots=True)
class Situation:
    """What the end of listening is decided from: counts, and times in seconds of one clock.

    ``doors`` is the number of endpoints, ``unknown`` of those not known yet, ``met`` of those ever connected to,
    ``connected`` of open connections. ``complete`` is the verdict so far. ``heard_at`` is the time of the last frame,
    ``there_at`` the last time at which any agent was connected. With ``patience`` (seconds) agents may be restarted
    meanwhile; ``resumed`` if frames of earlier logs are here.
    """

    doors: int
    unknown: int
    met: int
    connected: int
    complete: bool
    now: float
    heard_at: float
    there_at: float
    patience: float | None = None
    resumed: bool = False


def over(at: Situation) -> str | None:
    """Return why listening is over, or None while it goes on.

    It is over when all agents came and have hung up, or when the capture is complete and all is quiet. With patience
    not every agent has to have come.
    """
    all_came = at.unknown == 0 and at.met >= at.doors
    gone = GONE_SECONDS if at.patience is None else at.patience
    none_left = at.connected <= 0 and (at.complete or at.now >= at.there_at + gone)
    if none_left and (all_came or (at.patience is not None and (at.resumed or at.met > 0))):
        return "everybody hung up"
    if all_came and at.complete and at.now >= at.heard_at + QUIET_SECONDS:
        return "complete"
    return None


class Eavesdropper:
    """Listens at the endpoints of ``doors``, as soon as each is known, and writes all that arrives to a log.

    Parameters
    ----------
    log
        The log; it is closed at the end, however that comes.
    endpoints, doors
        Where agents are, and the numbers of those that are listened to.
    counter
        Judges the capture. It may have been fed with the frames of earlier logs of the same run.
    stop
        Says whether to stop; what has already arrived is still taken.
    status
        The file in which the eavesdropper shows how far it is.
    patience
        With it (seconds) agents may be restarted meanwhile: it ends once no agent was connected for so long, though not
        every agent came.
    events
        Gives what happened to the run so far, each with its ``time_ns``.
    keys
        With them the agents' links are encrypted, and the eavesdropper is admitted by its own key.

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
        events: Callable[[], Iterable[dict[str, Any]]] = tuple,
        keys: Keys | None = None,
    ) -> None:
        self._log = log
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
        self._next_look = self._heard_at = self._there_at = self._now
        self._stopping_since: float | None = None
        self._over: str | None = None

    def listen(self) -> Heard:
        """Listen to the end, close the log, and return the verdict.

        Raises
        ------
        TransportError
            For an endpoint that cannot be listened at.
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
            heard = self._close_log(ended, failure)
        return heard

    def _step(self) -> bool:
        """Take, look around, and wait if nothing came; True if listening is over."""
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
            return True  # nothing came between two looks that agreed
        self._over = over(self.situation())
        if self._over is None:
            self._ear.wait(LOOK_SECONDS)
        return False

    def take(self) -> int:
        """Log what has arrived; returns the number of frames."""
        frames = self._ear.drain(BATCH)
        for heard_ns, parts in frames:
            if len(parts) > 3 and sum(map(len, parts)) > FRAME_LIMIT:
                self._oversized += 1
                continue
            self._log.write(parts, self._epoch + heard_ns)
            self._counter.hear(parts)
        self._now = time.monotonic()
        if frames:
            self._heard_at = self._now
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
        if isinstance(self._endpoints, NamedEndpoints):
            while (moved := self._endpoints.moved()) is not None:
                self._ear.follow(*moved)
        self._ear.notice()
        self._show()
        if self._ear.connected > 0:
            self._there_at = self._now

    def situation(self) -> Situation:
        """Return what `over` decides from."""
        return Situation(
            doors=self._doors,
            unknown=len(self._unknown),
            met=len(self._ear.met),
            connected=self._ear.connected,
            complete=self._counter.complete,
            now=self._now,
            heard_at=self._heard_at,
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
            self._shown.show(counter.releases, counter.frames, counter.bytes, counter.done, len(self._ear.met))

    def _close_log(self, ended: str, failure: str | None) -> Heard:
        verdict = self._counter.verdict()
        heard = Heard(verdict, ended, self._log.chain, self._oversized, failure)
        try:
            self._log.close({"capture": {"verdict": json.dumps(heard.as_json()), "words": verdict.in_words()}})
        except OSError as error:
            return replace(heard, failure=f"{self._log.path}: {error.strerror or error}")
        return heard


def eavesdrop_on_run(
    run: Path,
    stop: Callable[[], bool] = lambda: False,
    endpoints: Endpoints | None = None,
    patience: float | None = None,
) -> Heard:
    """Log what all agents of a dealt run send, at ``endpoints`` or where the agents publish them.

    Where there is a log already, this one is the next (`node.traffic.run_logs`), and its verdict is over all of them.
    """
    manifest = json.loads((run / "manifest.json").read_bytes())
    agents = range(int(manifest["agents"]))
    keys = read_keys(run, None, agents) if (run / PUBLIC_KEYS).exists() else None
    earlier = logs_of(run)
    counter = CaptureCounter(bytes.fromhex(manifest["run"]), agents)
    if earlier:
        for frame in frames_of(run, []):
            counter.hear(frame.parts)
    metadata = {"continues": earlier[-1].name, "heard before": f"{counter.frames} frames"} if earlier else None
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
    ).listen()


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
        return ExitCode.BAD_INPUT
    stop.ignore()  # told to stop while it ends anyway, it has not failed
    print(json.dumps(heard.as_json()), flush=True)
    if not heard.complete:
        print(heard.failure or heard.capture.in_words(), file=sys.stderr)
    return ExitCode.FINISHED if heard.complete else CAPTURE_INCOMPLETE


if __name__ == "__main__":
    sys.exit(main())
