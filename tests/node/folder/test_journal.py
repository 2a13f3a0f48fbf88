"""The journal gives back every whole record of a file cut anywhere."""

from __future__ import annotations

from pathlib import Path

from node.folder.journal import Journal, read_journal

FRAMES = [(7 * k, (bytes([k]) * 8, b"header" * k, bytes(range(k)))) for k in range(1, 6)]


def written(path: Path) -> bytes:
    journal = Journal(path)
    for time_ns, parts in FRAMES:
        journal.write(time_ns, parts)
    journal.close()
    return path.read_bytes()


def test_what_was_written_is_read_and_only_the_owner_may(tmp_path: Path) -> None:
    written(tmp_path / "journal.bin")
    assert list(read_journal(tmp_path / "journal.bin")) == FRAMES
    assert (tmp_path / "journal.bin").stat().st_mode & 0o777 == 0o600


def test_cut_at_every_byte_it_gives_whole_records_and_goes_on_after_them(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    data = written(path)
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        whole = list(read_journal(path))
        assert whole == FRAMES[: len(whole)]
        journal = Journal(path)
        journal.write(99, (b"a", b"b", b"c"))
        journal.close()
        assert list(read_journal(path)) == [*whole, (99, (b"a", b"b", b"c"))]


def test_a_damaged_record_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    data = bytearray(written(path))
    data[-1] ^= 1
    path.write_bytes(data)
    assert list(read_journal(path)) == FRAMES[:-1]


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert list(read_journal(tmp_path / "none")) == []
