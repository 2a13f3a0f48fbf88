"""The ledger on disk: what is left of it after anything."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_free.privacy.ledger import Budget, Charge, LedgerError
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.mechanisms import Laplace
from coordinator_free.privacy.noise import Start
from node.folder import ledger as ledger_file
from node.folder.ledger import LedgerFile

SHARD = "ab" * 32
TENTH = Laplace(1.0, 10.0)
PLAN = [TENTH] * 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "ledger.jsonl"
    LedgerFile.create(place, SHARD, "one pupil", Budget(2.41, 0.0067379), PLAN)
    return place


def admitted(path: Path, run: str = "a") -> LedgerFile:
    ledger = LedgerFile.open(path, SHARD)
    ledger.admit(run, PLAN)
    return ledger


def charged(path: Path, run: str = "a") -> int:
    with LedgerFile.open(path, SHARD) as ledger:
        return ledger.next_index(run)


def test_what_was_reserved_is_there_after_opening_again(path: Path) -> None:
    with admitted(path) as ledger:
        assert ledger.record == "one pupil"
        assert ledger.budget == Budget(2.41, 0.0067379)
        ledger.reserve(0, 4, TENTH, extra={"run": "a", "state": "QUJD"})
        ledger.reserve(5, 5, TENTH, extra={"run": "a"})
        assert ledger.next_index("a") == 6
    with LedgerFile.open(path, SHARD) as ledger:
        assert (ledger.next_index("a"), ledger.next_index("b")) == (6, 0)
        assert [record["first"] for record in ledger.records("a")] == [0, 5]
        assert ledger.records()[0]["state"] == "QUJD"
        assert ledger.records("b") == []
        assert ledger.ledger.spent() == [TENTH] * 6
        with pytest.raises(LedgerError, match="charged already"):
            ledger.reserve(5, 6, TENTH, extra={"run": "a"})


def test_the_line_format(path: Path) -> None:
    with admitted(path) as ledger:
        ledger.reserve(0, 4, TENTH, extra={"run": "a"})
    header, line = (json.loads(text[: text.rindex("}") + 1]) for text in path.read_text().splitlines())
    assert header["ledger"] == 1
    assert header["shard"] == SHARD
    assert header["record"] == "one pupil"
    assert header["budget"] == {"epsilon": 2.41, "delta": 0.0067379}
    assert line == {"first": 0, "last": 4, "run": "a", "mechanism": TENTH.describe()}


def test_it_is_its_owners_alone_and_never_replaced(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="never replaced"):
        LedgerFile.create(path, SHARD, "one pupil", None)
    assert path.read_bytes() == before


def test_a_plan_over_the_budget_makes_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="budget is 2"):
        LedgerFile.create(tmp_path / "ledger.jsonl", SHARD, "one pupil", Budget(2.0, 0.0067379), PLAN)
    assert not (tmp_path / "ledger.jsonl").exists()


def test_no_ledger_no_word(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be opened"):
        LedgerFile.open(tmp_path / "ledger.jsonl", SHARD)


def test_a_ledger_belongs_to_its_shard(path: Path) -> None:
    with pytest.raises(LedgerError, match="other data"):
        LedgerFile.open(path, "cd" * 32)
    LedgerFile.open(path, SHARD).close()


def test_a_spent_ledger_admits_no_second_run(path: Path) -> None:
    with admitted(path) as ledger:
        for first in range(0, 100, 5):
            ledger.reserve(first, first + 4, TENTH, extra={"run": "a"})
    with LedgerFile.open(path, SHARD) as ledger:
        ledger.admit("a", PLAN)
        with pytest.raises(LedgerError, match="spent"):
            ledger.admit("b", PLAN)
        with pytest.raises(LedgerError, match="budget"):
            ledger.reserve(0, 4, TENTH, extra={"run": "b"})


def test_one_process_holds_it_at_a_time(path: Path) -> None:
    def other() -> str:
        opens = (
            "import sys; from pathlib import Path; from node.folder.ledger import LedgerFile;"
            "LedgerFile.open(Path(sys.argv[1]), sys.argv[2]).close(); print('opened')"
        )
        done = subprocess.run([sys.executable, "-c", opens, path, SHARD], capture_output=True, text=True, timeout=600)
        return done.stdout.strip() or done.stderr

    with admitted(path):
        assert "held by another process" in other()
    assert other() == "opened"


def test_a_closed_ledger_charges_nothing(path: Path) -> None:
    ledger = admitted(path)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError):
        ledger.reserve(0, 0, TENTH, extra={"run": "a"})


# --- writing fails ---------------------------------------------------------------------------------------------------

Pwrite = Callable[[int, bytes, int], int]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("after", [0, 1, 20, 60])
def test_a_failed_write_silences_and_counts_as_charged(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    real: Pwrite = os.pwrite

    def failing(descriptor: int, data: bytes, offset: int) -> int:
        if after and failing.left:  # type: ignore[attr-defined]
            failing.left = False  # type: ignore[attr-defined]
            return real(descriptor, data[:after], offset)
        raise OSError(code, os.strerror(code))

    failing.left = True  # type: ignore[attr-defined]
    with admitted(path) as ledger:
        ledger.reserve(0, 4, TENTH, extra={"run": "a"})
        monkeypatch.setattr(ledger_file.os, "pwrite", failing)
        with pytest.raises(LedgerError, match="nothing more is released"):
            ledger.reserve(5, 9, TENTH, extra={"run": "a"})
        monkeypatch.setattr(ledger_file.os, "pwrite", real)
        with pytest.raises(LedgerError, match="nothing more is released"):
            ledger.reserve(5, 9, TENTH, extra={"run": "a"})
    assert charged(path) == (10 if after else 5)
    with admitted(path) as ledger:
        ledger.reserve(10, 14, TENTH, extra={"run": "a"})


def test_a_failed_sync_silences(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with admitted(path) as ledger:
        monkeypatch.setattr(ledger_file.os, "fdatasync", failing)
        with pytest.raises(LedgerError, match="Input/output error"):
            ledger.reserve(0, 4, TENTH, extra={"run": "a"})
        monkeypatch.undo()
        with pytest.raises(LedgerError, match="nothing more is released"):
            ledger.reserve(0, 4, TENTH, extra={"run": "a"})


def test_short_writes_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Pwrite = os.pwrite
    monkeypatch.setattr(ledger_file.os, "pwrite", lambda d, data, offset: real(d, data[:7], offset))
    with admitted(path) as ledger:
        ledger.reserve(0, 4, TENTH, extra={"run": "a"})
    assert charged(path) == 5


def test_it_syncs_before_it_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    real_write: Pwrite = os.pwrite
    real_sync = os.fdatasync
    monkeypatch.setattr(ledger_file.os, "pwrite", lambda *arguments: (order.append("write"), real_write(*arguments))[1])
    monkeypatch.setattr(ledger_file.os, "fdatasync", lambda d: (order.append("sync"), real_sync(d))[1])
    with admitted(path) as ledger:
        ledger.reserve(0, 4, TENTH, extra={"run": "a"})
        order.append("returned")
    assert order == ["write", "sync", "returned"]


def test_of_charges_that_promise_nothing_the_first_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "open.jsonl"
    LedgerFile.create(path, SHARD, "one pupil", None, [None] * 40 + [TENTH] * 40)
    real = os.fdatasync
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        real(descriptor)
        synced.append(path.read_text().splitlines()[-1])

    monkeypatch.setattr(ledger_file.os, "fdatasync", sync)
    with LedgerFile.open(path, SHARD) as ledger:
        ledger.admit("a", [None] * 40 + [TENTH] * 40)
        for first in range(0, 80, 4):
            ledger.reserve(first, first + 3, None if first < 40 else TENTH, extra={"run": "a"})
    assert [json.loads(line[:-9])["first"] for line in synced] == [0, *range(40, 80, 4)]
    with LedgerFile.open(path, SHARD) as ledger:
        assert ledger.next_index("a") == 80


# --- damage ----------------------------------------------------------------------------------------------------------


def lines(path: Path, mechanism: Mechanism = TENTH) -> bytes:
    with admitted(path) as ledger:
        for first in (0, 5, 10):
            ledger.reserve(first, first + 4, mechanism, extra={"run": "a"})
    return path.read_bytes()


def test_cut_at_every_byte_nothing_that_could_be_charged_is_lost(path: Path) -> None:
    whole = lines(path)
    ends = [k + 1 for k, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        if cut < ends[0]:
            with pytest.raises(LedgerError, match=r"first line|empty"):
                LedgerFile.open(path, SHARD)
            continue
        complete = sum(end <= cut for end in ends) - 1
        torn = cut not in ends
        expected = 5 * (complete + torn)
        assert charged(path) == expected, cut
        # Settled once and for all: a whole line stands there now, and the run goes on behind it.
        assert charged(path) == expected
        with admitted(path) as ledger:
            assert len(ledger.ledger.spent()) == expected
            ledger.reserve(expected, expected, TENTH, extra={"run": "a"})
        assert charged(path) == expected + 1


def test_a_flipped_bit_in_the_middle_is_an_error_and_in_the_last_line_counts_as_charged(path: Path) -> None:
    whole = lines(path)
    last = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x11
        path.write_bytes(bytes(damaged))
        if place >= last - 1:  # without its end, the line before is part of the last one
            assert charged(path) >= 15, place
            assert charged(path) <= 100
        else:
            with pytest.raises(LedgerError, match="damaged"):
                LedgerFile.open(path, SHARD)


def test_a_line_taken_out_or_moved_is_an_error(path: Path) -> None:
    header, *charges = lines(path).splitlines(keepends=True)
    for left in ([charges[0], charges[2]], [charges[1], charges[0], charges[2]], [charges[0], charges[0], charges[1]]):
        path.write_bytes(b"".join([header, *left, b"{} 00000000\n"]))
        with pytest.raises(LedgerError, match="damaged"):
            LedgerFile.open(path, SHARD)


def test_a_crash_while_settling_a_torn_line_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lines(path)
    real: Pwrite = os.pwrite
    for written in range(0, 150, 7):
        path.write_bytes(whole[:-30])

        def crash(descriptor: int, data: bytes, offset: int, written: int = written) -> int:
            real(descriptor, data[:written], offset)
            raise OSError(errno.EIO, "crash")

        with monkeypatch.context() as patched:
            patched.setattr(ledger_file.os, "pwrite", crash)
            with LedgerFile.open(path, SHARD) as ledger, pytest.raises(LedgerError):
                ledger.next_index("a")
        assert charged(path) >= 15


@pytest.mark.parametrize("content", [b"", b"\n", b"garbage", b"{}\n", b"\x00" * 500, b'{"ledger":2} 00000000\n'])
def test_garbage_is_no_ledger(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"first line|empty"):
        LedgerFile.open(path, SHARD)


def test_a_torn_charge_of_a_later_run_with_less_noise_is_charged_what_that_run_costs(tmp_path: Path) -> None:
    path, fifth = tmp_path / "ledger.jsonl", Laplace(1.0, 5.0)
    LedgerFile.create(path, SHARD, "one pupil", Budget(20.0, 0.0), [TENTH] * 60)
    with LedgerFile.open(path, SHARD) as ledger:
        ledger.admit("a", [TENTH] * 60)
        ledger.reserve(0, 2, TENTH, extra={"run": "a"})
        ledger.admit("b", [fifth] * 60)
        ledger.reserve(0, 2, fifth, extra={"run": "b"})
        said = len(path.read_bytes())
        ledger.reserve(3, 5, fifth, extra={"run": "b"})
    whole = path.read_bytes()
    first_of_b = whole.rindex(b"\n", 0, said - 1) + 1
    for cut in [*range(first_of_b + 1, said), *range(said + 1, len(whole))]:
        path.write_bytes(whole[:cut])
        lost = 3 if cut > said else 0
        with LedgerFile.read(path, SHARD) as ledger:
            seen = ledger.charges()
        for charges in (seen, _settled(path)):
            covered = [c.mechanism for c in charges if c.run == "b" for k in range(c.count)]
            assert covered == [fifth] * (lost + 3), cut


def _settled(path: Path) -> list[Charge]:
    with LedgerFile.open(path, SHARD) as ledger:
        ledger.next_index("b")
        return list(ledger.ledger.charges)


def test_each_start_is_noted_with_the_first_release_that_it_makes(path: Path) -> None:
    nonces = [bytes([k]) * 32 for k in range(3)]
    with admitted(path) as ledger:
        assert ledger.starts("a") == ()
        assert ledger.start("a", nonces[0]) == (Start(0, nonces[0]),)
        ledger.reserve(0, 4, TENTH, extra={"run": "a"})
    with admitted(path) as ledger:
        ledger.start("a", nonces[1])
    with admitted(path) as ledger:
        assert ledger.start("b", nonces[2]) == (Start(0, nonces[2]),), "another run has its own"
    with LedgerFile.read(path, None) as ledger:
        assert ledger.starts("a") == (Start(0, nonces[0]), Start(5, nonces[1]))
        assert ledger.next_index("a") == 5, "a start charges nothing"


def test_what_a_torn_record_charged_is_made_under_the_next_start(path: Path) -> None:
    with admitted(path) as ledger:
        ledger.start("a", bytes(32))
        ledger.reserve(0, 0, TENTH, extra={"run": "a", "state": "QUJD"})
    path.write_bytes(path.read_bytes() + b'{"first":1,"last":1,"run":"a"')
    with admitted(path) as ledger:
        assert ledger.next_index("a") > 1, "it is charged"
        assert ledger.start("a", b"b" * 32)[-1] == Start(1, b"b" * 32)
        ledger.keep(1, extra={"run": "a", "state": "QUJD"})
        assert ledger.start("a", b"c" * 32)[-1] == Start(2, b"c" * 32)


def test_a_start_that_cannot_be_written_forbids_every_release(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with admitted(path) as ledger:
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.start("a", bytes(32))
        monkeypatch.undo()
        with pytest.raises(LedgerError, match="earlier charge could not be written"):
            ledger.reserve(0, 0, TENTH, extra={"run": "a"})
