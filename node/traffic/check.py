"""Whether a traffic log is whole and unchanged, decided from the log alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from node.traffic.attachments import counter_for
from node.traffic.documents import BrokenChain, LogCheck
from node.traffic.format import Checkpoint, Frame, chain_next, chain_start, packed
from node.traffic.reader import TrafficLogReader


def verify_log(path: Path | str) -> LogCheck:
    """Check a log against itself: checksums, the chain at every checkpoint, indices, sizes.

    A chain proves nothing against a forger that writes the whole file anew, unless ``chain`` is compared with the one
    that the eavesdropper printed.

    Returns
    -------
    LogCheck
        One JSON document. ``ok`` is true if the file is whole and unchanged since it was written, no index came with
        two bodies, no ledger went backwards, and all releases have one size. ``capture`` tells whether everything that
        was sent is in the log.

    Raises
    ------
    TrafficLogError
        If the file is not a traffic log.
    """
    reader = TrafficLogReader(path)
    counter = counter_for(reader)
    chain = chain_start(reader.attachments)
    frames = checkpoints = since = 0
    broken: list[BrokenChain] = []
    sizes: Counter[int] = Counter()
    for item in reader.items():
        if isinstance(item, Frame):
            chain = chain_next(chain, item.time_ns, packed(item.parts))
            frames += 1
            header = counter.count(item.parts)
            if header is not None and header["kind"] == "release":
                sizes[len(item.body)] += 1
        elif isinstance(item, Checkpoint):
            checkpoints += 1
            if (item.chain, item.frames) != (chain, frames):
                broken.append({"from_frame": since, "to_frame": item.frames, "time_ns": item.time_ns})
                # From here on the log is checked against its own checkpoints, so that each change is reported once.
                chain, frames = item.chain, item.frames
            since = frames
    unsealed = frames - since
    verdict = counter.verdict()
    # The manifest has the model's dimension, and some algorithms release more numbers than a model has.
    expected = max(sizes, key=lambda size: sizes[size], default=None)
    odd = {str(size): count for size, count in sorted(sizes.items()) if size != expected}
    return {
        "log": str(path),
        "ok": not (reader.damage or broken or unsealed or verdict.redrawn or verdict.backwards or odd),
        "damage": reader.damage_as_json(),
        "chain": chain.hex(),
        "checkpoints": checkpoints,
        "frames": frames,
        "chain_broken": broken,
        "frames_after_last_checkpoint": unsealed,
        "redrawn": [list(pair) for pair in verdict.redrawn],
        "backwards": list(verdict.backwards),
        "other_sizes": odd,
        "refused": verdict.refused,
        "capture": {**verdict.as_results(), "in_words": verdict.in_words()},
    }
