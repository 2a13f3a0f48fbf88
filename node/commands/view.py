"""``sottovoce view``: a run, a traffic log or some endpoints as a page in the browser, live or over."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

NEEDED = ("starlette", "uvicorn", "websockets")


def view(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|LOG|ENDPOINT...",
            help="A run's folder, a traffic log, or where agents send.",
            show_default=False,
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1. 0: any that is free.")] = 0,
    uncovered: Annotated[
        bool,
        typer.Option(
            "--uncovered",
            help="Also show figures that epsilon does not cover: errors, convergence, the audit's attacks.",
        ),
    ] = False,
) -> None:
    """Show a run in the browser: the network, every release, ledgers, faults and the capture.

    The page is live while a run runs or a log grows, and shows a finished run with a time line. It is read-only,
    answers on this machine alone, and its address holds a secret. Ctrl-C ends it.

    Example: sottovoce view runs/schools
    """
    check_installed()
    import asyncio

    from node.view.serving import bound, serve

    if any("://" in target for target in targets):
        _view_endpoints(targets, port, uncovered=uncovered)
        return
    if len(targets) > 1:
        raise ValueError(f"view {' '.join(targets)}: accepted is one run's folder, one log, or several endpoints")
    from node.view.subject import subject_of

    subject = subject_of(Path(targets[0]), uncovered=uncovered)
    asyncio.run(serve(subject, bound(port), lambda address: print(address, flush=True)))


def check_installed() -> None:
    """Raise ValueError where the packages of the page are not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"view needs {', '.join(missing)}, not installed here: pip install 'sottovoce[view]'")


@contextlib.contextmanager
def page_of(folder: Path, tell: Callable[[str], None]) -> Iterator[Callable[[Console], None]]:
    """Show a run's folder from a process of its own, while the body runs; ``tell`` is given the address.

    What is yielded waits until the reader ends the page with Ctrl-C.
    """
    command = [sys.executable, "-m", "node.cli", "view", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as page:
        assert page.stdout is not None
        tell(page.stdout.readline().strip())

        def stay(console: Console) -> None:
            console.print("the page stays until Ctrl-C", highlight=False)
            with contextlib.suppress(KeyboardInterrupt):
                page.wait()

        try:
            yield stay
        finally:
            page.terminate()


def _view_endpoints(targets: list[str], port: int, *, uncovered: bool) -> None:
    """Log what is sent at endpoints into a file that goes away, and show that."""
    import asyncio
    import tempfile
    import threading

    from node.commands.eavesdrop import GivenEndpoints
    from node.processes import allow_many_files
    from node.traffic.completeness import CaptureCounter
    from node.traffic.eavesdropper import Eavesdropper
    from node.traffic.writer import TrafficLogWriter
    from node.view.serving import bound, serve
    from node.view.subject import subject_of

    if uncovered:
        raise ValueError("--uncovered with endpoints: agents send no such figures; give a run's folder")
    endpoints = GivenEndpoints(targets)
    listening = bound(port)
    allow_many_files()
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="sottovoce-view-") as folder:
        log = Path(folder) / "overheard.mcap"
        ear = Eavesdropper(TrafficLogWriter(log), endpoints, endpoints.agents, CaptureCounter(), stop=stop.is_set)
        thread = threading.Thread(target=ear.listen, name="eavesdropper")
        thread.start()
        try:
            asyncio.run(
                serve(subject_of(log, recorded_here=True), listening, lambda address: print(address, flush=True))
            )
        finally:
            stop.set()
            thread.join()
