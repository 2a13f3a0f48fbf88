"""An eavesdropper that a test starts and ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from node.sockets.agent_sockets import FixedEndpoints
from node.traffic.eavesdropper import Heard, run_eavesdropper
from node.traffic.reader import TrafficLogWriter


class Listening:
    """An eavesdropper in a thread."""

    def __init__(self, log: TrafficLogWriter, endpoints: FixedEndpoints, doors: Sequence[int], **more: object) -> None:
        self.stop = threading.Event()
        self.heard: Heard | None = None
        self.error: BaseException | None = None

        def run() -> None:
            try:
                self.heard = run_eavesdropper(log, endpoints, doors, stop=self.stop.is_set, **more)  # type: ignore[arg-type]
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def end(self) -> Heard:
        self.thread.join(60)
        assert not self.thread.is_alive()
        assert self.error is None
        assert self.heard is not None
        return self.heard
