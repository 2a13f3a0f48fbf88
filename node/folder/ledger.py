"""A privacy ledger on disk, written ahead: a charge is there before anything is sent.

A text file. Each line is a JSON object, a space, and the CRC-32 of that object, in eight hexadecimal digits, continued
from the line before, so that a line which is damaged, missing or out of place is found:

    {"ledger": 1, "shard": ..., "record": "one pupil", "budget": {"epsilon": 2.0, "delta": 0.001}, "plan": []} 1a2b3c4d
    {"first": 0, "last": 4, "run": ..., "mechanism": {"name": "gaussian", ...}} 5e6f7a8b
    {"again": 4, "run": ..., "frame": ..., "state": ...} 9c0d1e2f
    {"run": ..., "plan": [[60, {"name": "gaussian", ...}]]} 0d1c2b3a
    {"run": ..., "start": 5, "nonce": "f00d..."} 4b5a6978

A first line may have one charge more, as `earlier`: of what was released before the run that the ledger was made for.
The last three kinds charge nothing. `again` keeps what a torn record would have kept of an index that is charged.
`plan` stands before the first charge of a run that was admitted with another plan than the ledger was made for: a torn
charge of that run is then taken for what it could have cost. Where records arrive during a run, its plan has the
`windows` of the records beside it: `[first, last]` of the releases that use a record. `start` is one start of the
agent's process: releases from this index on draw from its nonce. A ledger without them is of a simulation, or from
before there were starts.

Rules that hold here:
- `LedgerFile.reserve` returns only after its line is on the disk. If writing fails, the ledger refuses everything from
  then on. A further charge without a mechanism is only written: a run's first one tells already that the
  records are exposed, or that nothing of them is in the releases.
- One process holds a ledger at a time.
- A last line that is torn or damaged counts as charged for everything that it could have covered. Any other damage is
  an error.
- Nothing is ever taken off a ledger, and a file that exists is never replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from coordinator_free.privacy.ledger import LARGEST_GROUP, Budget, Charge, Ledger, LedgerError, Plan
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import Start
from coordinator_free.privacy.windows import Windows
from node.folder.ledger_lines import VERSION, Line, charge_as_written, contents, line_of, plan_as_written
from node.folder.whole import sync_folder

_LAST = re.compile(rb'"last":(\d+),')


def is_held(path: Path) -> bool:
    """Whether a process holds the ledger at ``path``. Raises OSError where there is none."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class LedgerFile:
    """The ledger of one agent's data, held by this process until `close`."""

    def __init__(self, path: Path, descriptor: int, shard: str | None) -> None:
        self._path = path
        self._descriptor = descriptor
        self._broken = False
        found = contents(path, b"".join(iter(lambda: os.read(descriptor, 1 << 20), b"")))
        self._plans, self._end, self._crc, self._torn = found.plans, found.end, found.crc, found.torn
        header = found.header
        if shard is not None and header.shard != shard:
            raise LedgerError(f"ledger {path}: belongs to other data (shard {header.shard[:12]}, not {shard[:12]})")
        self.record = header.record
        """The unit of privacy, in words."""
        self.ledger = Ledger(header.budget, header.plan, found.charges, header.earlier, self._plans)

    @classmethod
    def create(
        cls,
        path: Path,
        shard_digest: str,
        record: str,
        budget: Budget | None,
        plan: Iterable[Mechanism | None] = (),
        earlier: Charge | None = None,
        windows: Windows = (),
    ) -> None:
        """Make the ledger of the shard with this digest, mode 0600; returns when it is on the disk.

        ``plan`` holds the mechanism of each release of the run that it is made for; ``earlier`` is charged with the
        ledger's first line, ``windows`` are those of the records. Raises `LedgerError` if both cost more than
        ``budget``, or if ``path`` exists.
        """
        planned = list(plan)
        ledger = Ledger(budget, charges=[] if earlier is None else [earlier])
        if planned or earlier is not None:
            ledger.admit("", planned, _account, windows)
        before = {} if earlier is None else {"earlier": charge_as_written(earlier)}
        header = {
            "ledger": VERSION,
            "shard": shard_digest,
            "record": record,
            "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
            **plan_as_written(Plan.of(planned, windows)),
            **before,
        }
        line, _ = line_of(header, 0)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write(descriptor, line, 0)
            finally:
                os.close(descriptor)
            sync_folder(path.parent)
        except FileExistsError:
            raise LedgerError(f"ledger {path} exists, and ledgers are never replaced") from None
        except OSError as error:
            raise LedgerError(f"ledger {path} cannot be made: {error.strerror}") from error

    @classmethod
    def open(cls, path: Path, shard_digest: str) -> LedgerFile:
        """Hold the ledger at ``path``; raises `LedgerError` without one for this shard, or if it is held or damaged."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise LedgerError(
                f"ledger {path} cannot be opened: {error.strerror}; an agent releases nothing without its ledger"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(path, descriptor, shard_digest)
        except BlockingIOError:
            os.close(descriptor)
            raise LedgerError(f"ledger {path} is held by another process") from None
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def read(cls, path: Path, shard_digest: str | None) -> LedgerFile:
        """The ledger as it stands, for an auditor: not held, so that it may be read while its agent speaks.

        Nothing can be charged to it. Raises `LedgerError` like `open`; where ``shard_digest`` is None, of any shard.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LedgerError(f"ledger {path} cannot be opened: {error.strerror}") from None
        try:
            return cls(path, descriptor, shard_digest)
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def budget(self) -> Budget | None:
        """What all runs on the data may cost together; None where no privacy is promised."""
        return self.ledger.budget

    def admit(self, run: str, plan: Sequence[Mechanism | None], windows: Windows = ()) -> None:
        """Let ``run`` charge ``plan``, one mechanism for each release; raises `LedgerError` if it overspends.

        ``windows`` are those of the records, one for each, where records arrive during the run.
        """
        self._settle(run)
        try:
            self.ledger.admit(run, plan, _account, windows)
        except LedgerError as error:
            raise LedgerError(f"ledger {self._path} is spent: {error}") from None

    def planned(self, run: str) -> Plan:
        """What ``run`` may charge in all, as far as the ledger tells: its own plan, or what the ledger was made for."""
        return self._plans.get(run, self.ledger.plan)

    def next_index(self, run: str) -> int:
        """The lowest index of ``run`` that may still be charged."""
        self._settle(run)
        return self.ledger.next_index(run)

    def start(self, run: str, nonce: bytes) -> tuple[Start, ...]:
        """Note a start of the agent's process in ``run``, and return all of them; returns when that is on the disk.

        Releases from the next one on are made under ``nonce``. That includes one that a torn record charged: it never
        left the process, and an earlier copy of the ledger may be anywhere. Raises `LedgerError`, and then nothing may
        be released.
        """
        self._settle(run)
        self._write_line({"run": run, "start": self._next_to_make(run), "nonce": nonce.hex()})
        return self.starts(run)

    def starts(self, run: str) -> tuple[Start, ...]:
        """The starts of the agent's process in ``run``, in order."""
        lines = [line for line in self.records(run) if "start" in line]
        return tuple(Start(int(line["start"]), bytes.fromhex(line["nonce"])) for line in lines)

    def _next_to_make(self, run: str) -> int:
        whole = [line for line in self.records(run) if not line.get("torn")]
        return 1 + max((int(line.get("again", line.get("last", -1))) for line in whole), default=-1)

    def reserve(self, first: int, last: int, mechanism: Mechanism | None, *, extra: Line | None = None) -> None:
        """Charge indices ``first`` to ``last``, each ``mechanism``; returns when that is on the disk.

        ``extra`` goes into the same line, whole or not at all; its ``run`` names the run. Raises `LedgerError`, and
        then nothing may be released.
        """
        beside: Line = extra or {}
        run = beside.get("run", "")
        if self._broken:
            raise LedgerError(f"ledger {self._path}: an earlier charge could not be written; nothing more is released")
        self._settle(run)
        self.ledger.check(run, first, last, mechanism, _account)
        self._write_plan(run)
        known = any(charge.run == run and charge.mechanism is None for charge in self.ledger.charges)
        wait = mechanism is not None or bool(beside.keys() - {"run"}) or not known
        self._append(Charge(run, first, last, mechanism), beside, wait=wait)

    def keep(self, index: int, *, extra: Line) -> None:
        """Write down ``extra`` for ``index``, which is charged already; returns when that is on the disk.

        Raises `LedgerError`, and then nothing may be released.
        """
        run = extra["run"]
        if self._broken:
            raise LedgerError(f"ledger {self._path}: an earlier charge could not be written; nothing more is released")
        if self.ledger.charged(run, index) is None:
            raise LedgerError(f"ledger {self._path}: index {index} is not charged, so nothing is kept of it")
        self._write_line({"again": index, **extra})

    def charges(self) -> list[Charge]:
        """All charges of every run; a torn last line counts for everything that it could have covered."""
        if self._torn is None:
            return list(self.ledger.charges)
        owners = self._owners() or [""]
        return [*self.ledger.charges, *(charge for owner in owners for charge in self._covered(self._torn, owner))]

    def used(self, run: str | None = None) -> list[Mechanism | None]:
        """What no record was charged more than, by every run, or by ``run``: see `charges` for a torn last line."""
        return self.ledger.used(charge for charge in self.charges() if run is None or charge.run == run)

    def records(self, run: str | None = None) -> list[Line]:
        """All charges with their extra fields, as they were written, in order; of ``run`` if it is given."""
        data = os.pread(self._descriptor, self._end, 0)
        lines: list[Line] = [json.loads(line[:-9]) for line in data.splitlines()[1:]]
        return [line for line in lines if run is None or line["run"] == run]

    def fileno(self) -> int:
        """The descriptor of the file, for locks and tests."""
        return self._descriptor

    def close(self) -> None:
        """Give the ledger free for others."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self._broken = -1, True

    def __enter__(self) -> LedgerFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write_plan(self, run: str) -> None:
        plan = self.ledger.admitted(run)
        if plan is not None and plan != self._plans.get(run, self.ledger.plan):
            self._write_line({"run": run, **plan_as_written(plan)})
            self._plans[run] = plan

    def _append(self, charge: Charge, beside: Line, *, wait: bool = True) -> None:
        self._write_line({**charge_as_written(charge), **beside}, wait=wait)
        self.ledger.add(charge)

    def _write_line(self, content: Line, *, wait: bool = True) -> None:
        line, crc = line_of(content, self._crc)
        try:
            _write(self._descriptor, line, self._end, wait=wait)
        except OSError as error:
            self._broken = True
            raise LedgerError(
                f"ledger {self._path} cannot be written: {error.strerror}; nothing more is released"
            ) from error
        self._end, self._crc = self._end + len(line), crc

    def _settle(self, run: str) -> None:
        """Put whole charges in the place of a torn last line: for everything that it could have covered.

        It may be torn or damaged anywhere, so what it says is believed only where that covers more. Its run is one of
        those that wrote last, or the first that asks now: all are charged.
        """
        if self._torn is None or self._broken:
            return
        torn, self._torn = self._torn, None
        for owner in dict.fromkeys([*self._owners(), run]):
            for charge in self._covered(torn, owner):
                self._append(charge, {"torn": True})
        with contextlib.suppress(OSError):  # what is left of it is torn still, and counts again
            os.ftruncate(self._descriptor, self._end)

    def _owners(self) -> list[str]:
        """The runs that a torn last line may be of, as far as the ledger tells."""
        charged = [charge.run for charge in self.ledger.charges[-1:] if charge != self.ledger.earlier]
        return list(dict.fromkeys([*charged, *list(self._plans)[-1:]]))

    def _covered(self, torn: bytes, run: str) -> list[Charge]:
        plan, start = self._plans.get(run, self.ledger.plan), self.ledger.next_index(run)
        named = max((int(last) for last in _LAST.findall(torn)), default=start)
        if not plan.releases:
            # Made without a plan: all that is known is what was charged before.
            mechanism = self.ledger.charges[-1].mechanism if self.ledger.charges else None
            return [Charge(run, start, min(max(start, named), start + LARGEST_GROUP - 1), mechanism)]
        charges = []
        end = min(start + plan.largest_group - 1, plan.releases - 1)
        while start <= max(end, min(named, plan.releases - 1)):
            last, mechanism = plan.alike(start)
            charges.append(Charge(run, start, last, mechanism))
            start = last + 1
        return charges


def _account(mechanisms: Iterable[Mechanism | None], delta: float) -> float:
    # Imported only where it is needed: an agent that spends what its ledger was made for never loads the accountant.
    from coordinator_free.privacy.accounting import total

    return total(mechanisms, delta).epsilon


def _write(descriptor: int, data: bytes, offset: int, *, wait: bool = True) -> None:
    """All of ``data`` at ``offset``, on the disk unless there is no need to ``wait``; raises OSError."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)
    if wait:
        os.fdatasync(descriptor)
