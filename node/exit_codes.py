"""The exit codes of the command line and of the processes of a run: one table. `docs/exit-codes.md` prints it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Why a process ended: its name, its number, and its ``meaning`` in one sentence.

    The parent of a process that was ended by a signal sees the signal's number, negative, instead.
    """

    meaning: str

    FINISHED = 0, "Success: the agent finished, the run or the check went through."
    FAILED = 1, "A run or a check failed: an agent did not finish, a capture has gaps, an audit has findings."
    BAD_INPUT = 2, "Bad input: a setting, a file or an argument was refused. The message names it and its value."
    NOT_READY = (
        3,
        (
            "The agent was not ready in time: a neighbour or the eavesdropper was missing after `network.deadline`, "
            "or a neighbour runs another configuration."
        ),
    )
    LEDGER = 4, "The agent stopped: its ledger has no room for the next charge, or its folder cannot be written."
    SILENT = (
        5,
        "The agent stopped: a neighbour ended or was silent for `network.silent`, or its algorithm failed.",
    )
    INTERRUPTED = 130, "The command was interrupted from the keyboard (Ctrl-C)."
    STOPPED = 143, "The agent or the command was told to stop by a signal (SIGTERM, for an agent also SIGINT)."

    def __new__(cls, number: int, meaning: str) -> ExitCode:
        """Make the member ``number``; its meaning does not take part in comparisons."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member
