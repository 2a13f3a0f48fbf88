"""Run a configuration from Python: waiting for it, or beside other tasks of an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from node.worlds import launcher, limits, steps
from node.worlds.progress import Progress
from sottovoce.configurations import Source, as_configuration
from sottovoce.runs import Run, open_run

World = Literal["processes", "twin"]


class Interrupted(Exception):
    """The run was broken off, and all its processes were ended."""


def run(
    source: Source,
    out: Path | str | None = None,
    *,
    world: World = "processes",
    force: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Run:
    """Deal the data, run the agents to their end, score, and open the run's folder.

    Parameters
    ----------
    source
        A configuration, its sections as a mapping, or the path of a TOML file.
    out
        The run's folder. Default: ``runs/NAME``.
    world
        "processes": one process for each agent, over ZeroMQ, with an eavesdropper; "twin": the same agents in one
        process on a virtual clock.
    force
        Go on in an existing run's folder, with the same ledgers.
    progress
        Is given the counts of each moment while processes run. If it raises, all processes are ended.

    Returns
    -------
    Run
        Its ``failures`` name the processes that did not finish.

    Raises
    ------
    ConfigurationError
        For a configuration that is refused; nothing is left of the run then.
    RunFailure
        If a step of the run failed.
    """
    configuration = as_configuration(source)
    folder = Path(out if out is not None else Path("runs") / configuration.run.name).absolute()
    if world not in ("processes", "twin"):
        raise ValueError(f"world = {world!r}: accepted are processes and twin")
    if world == "processes":
        limits.check_socket_paths(configuration)
    manifest = steps.deal(configuration, folder, force=force)
    if world == "twin":
        watched = steps.run_in_twin(folder)
    else:
        watched = launcher.run_in_processes(folder, configuration, manifest.agents, progress)
    steps.score(folder, watched)
    return open_run(folder)


async def run_async(
    source: Source,
    out: Path | str | None = None,
    *,
    world: World = "processes",
    force: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Run:
    """Do what `run` does without blocking the event loop; ``progress`` is called in the loop's thread.

    If the task is cancelled, all processes of the run are ended before the cancellation goes on.
    """
    loop = asyncio.get_running_loop()
    broken_off = threading.Event()

    def show(moment: Progress) -> None:
        if broken_off.is_set():
            raise Interrupted
        loop.call_soon_threadsafe(progress, moment)

    going_on = asyncio.ensure_future(asyncio.to_thread(run, source, out, world=world, force=force, progress=show))
    try:
        return await asyncio.shield(going_on)
    except asyncio.CancelledError:
        broken_off.set()
        with suppress(Interrupted):
            await going_on
        raise


async def watch(
    source: Source, out: Path | str | None = None, *, world: World = "processes", force: bool = False
) -> AsyncIterator[Progress | Run]:
    """Run, and give the progress of each moment; the last item is the `Run`.

    Closing the iteration early ends all processes of the run.

    Examples
    --------
    ``async for moment in watch(configuration): ...``
    """
    moments: asyncio.Queue[Progress] = asyncio.Queue()
    task = asyncio.ensure_future(run_async(source, out, world=world, force=force, progress=moments.put_nowait))
    try:
        while not task.done():
            following = asyncio.ensure_future(moments.get())
            await asyncio.wait({task, following}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                yield following.result()
            else:
                following.cancel()
        while not moments.empty():
            yield moments.get_nowait()
        yield task.result()
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
