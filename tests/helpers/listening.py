"""An eavesdropper that a test starts and ends."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from node.sockets.agent_sockets import FixedEndpoints
from node.traffic.completeness import CaptureCounter
from node.traffic.eavesdropper import Eavesdropper, Outcome
from node.traffic.writer import TrafficLogWriter


class Listening:
    """An eavesdropper in a thread."""

    def __init__(
        self,
        log: TrafficLogWriter,
        endpoints: FixedEndpoints,
        doors: Sequence[int],
        *,
        run: bytes | None = None,
        agents: Iterable[int] | None = None,
        **more: Any,
    ) -> None:
        counter = CaptureCounter(run, agents)
        self.stop = threading.Event()
        self.heard: Outcome | None = None
        self.error: BaseException | None = None

        def listen() -> None:
            try:
                self.heard = Eavesdropper(log, endpoints, doors, counter, stop=self.stop.is_set, **more).listen()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=listen)
        self.thread.start()

    def end(self) -> Outcome:
        self.thread.join(600)
        assert not self.thread.is_alive()
        assert self.error is None
        assert self.heard is not None
        return self.heard
