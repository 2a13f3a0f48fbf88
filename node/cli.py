"""The command line: wires the commands together and turns every error into one line and an exit status.

Exit status 0 only on success, 2 for bad input, 1 for a failed run, 130 when interrupted. No traceback without
``--debug``.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from node.plug_ins import find_here, message_of
from node.processes import keep_private, undone_when_told

COMMANDS = (
    "new",
    "run",
    "resume",
    "topology",
    "budget",
    "log",
    "replay",
    "view",
    "report",
    "eavesdrop",
    "verify",
    "audit",
    "deal",
    "agent",
    "host",
    "card",
    "assemble",
    "collect",
    "compose",
    "slurm",
    "keys",
    "wiretap",
    "status",
    "stop",
    "predict",
    "compare",
    "tune",
    "reproduce",
    "theory",
)
"""Each is a module in `node.commands`, with a Typer ``app`` or a function of its own name."""


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with the commands ``names``; only their modules are imported."""
    app = typer.Typer(
        name="sottovoce",
        help="Agents learn together by sending noisy models to their neighbours, and an eavesdropper logs them.",
        no_args_is_help=True,
        add_completion=len(names) > 1,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # help as plain text: the renderers of Markdown and of code take longer to import
    )
    app.callback()(_common)
    for name in names:
        module = importlib.import_module(f"node.commands.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            command = getattr(module, name)
            app.command(name, help=_paragraphs(command))(command)
    return app


def _paragraphs(command: Callable[..., None]) -> str:
    """A command's help: its docstring, each paragraph on one line, for the terminal to wrap."""
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(command) or "").split("\n\n"))


def _show_version(asked: bool) -> None:
    if asked:
        import importlib.metadata

        print(f"sottovoce {importlib.metadata.version('sottovoce')}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Anywhere: show the traceback of an error.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Anywhere: tell on standard error what the launcher does.")
    ] = False,
) -> None:
    """Agents learn together by sending noisy models to their neighbours, and an eavesdropper logs them."""


def _needed(given: Sequence[str]) -> Sequence[str]:
    """The commands whose modules the arguments need: importing all takes longer than most of them run."""
    if given == ["--version"]:
        return []
    if not given or given[0].startswith("-"):
        return COMMANDS
    if given[0] not in COMMANDS:
        near = difflib.get_close_matches(given[0], COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`sottovoce --help` lists them"
        print(f"sottovoce: {given[0]!r} is no command; {hint}", file=sys.stderr)
        raise SystemExit(2)
    return [given[0]]


def main(arguments: Sequence[str] | None = None) -> None:
    """The ``sottovoce`` command. ``--debug`` anywhere shows tracebacks, ``--verbose`` what the launcher does."""
    keep_private()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    if "--verbose" in given:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s")
    given = [argument for argument in given if argument not in ("--debug", "--verbose")]
    names = _needed(given)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # before numpy: sums must come out in one order everywhere
    find_here()
    try:
        with undone_when_told():
            application(names)(args=given, prog_name="sottovoce")
    except KeyboardInterrupt:
        print("sottovoce: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(1) from None
    except ValueError as error:
        if debug:
            raise
        print(f"sottovoce: {message_of(error)}", file=sys.stderr)
        raise SystemExit(2) from None
    except Exception as error:
        if debug:
            raise
        print(f"sottovoce: {message_of(error)} (--debug shows where)", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
