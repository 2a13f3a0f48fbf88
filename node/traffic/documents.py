"""The JSON documents that the tools of a traffic log give: their keys and types."""

from __future__ import annotations

from typing import TypedDict


class Damaged(TypedDict):
    """A part of a log that cannot be read: its first byte, its size in bytes, and the consequence in words."""

    offset: int
    size: int
    meaning: str


class CaptureFigures(TypedDict):
    """What was received of a run. ``missing`` has ranges [first, last] by agent; an unknown last is None."""

    complete: bool
    releases: int
    missing: dict[str, list[list[int | None]]]
    repeats: int


class CaptureVerdict(CaptureFigures):
    """The same, and in words."""

    in_words: str


class WholeCaptureVerdict(CaptureVerdict):
    """The same, with the agents from which nothing was received."""

    silent: list[int]


class EavesdropperVerdict(TypedDict):
    """What an eavesdropper prints at its end, once its log is closed. ``redrawn`` has (agent, index) pairs."""

    capture: CaptureFigures
    ended: str
    frames: int
    refused: dict[str, int]
    redrawn: list[list[int]]
    backwards: list[int]
    silent: list[int]
    oversized: int
    chain: str
    failure: str | None


class BrokenChain(TypedDict):
    """Frames that are not those that the checkpoint after them was made from."""

    from_frame: int
    to_frame: int
    time_ns: int


class LogCheck(TypedDict):
    """What `node.traffic.check.verify_log` found."""

    log: str
    ok: bool
    damage: list[Damaged]
    chain: str
    checkpoints: int
    frames: int
    chain_broken: list[BrokenChain]
    frames_after_last_checkpoint: int
    redrawn: list[list[int]]
    backwards: list[int]
    other_sizes: dict[str, int]
    refused: dict[str, int]
    capture: CaptureVerdict


class Spread(TypedDict):
    """Least, mean and largest of the agents' counts."""

    min: int
    mean: float
    max: int


class LogInformation(TypedDict):
    """The contents of a log: times in nanoseconds since 1970, spans in seconds, sizes in bytes."""

    log: str
    closed: bool
    damage: list[Damaged]
    first_ns: int | None
    last_ns: int | None
    span_s: float
    agents: int
    frames: int
    kinds: dict[str, int]
    releases: int
    repeats: int
    redrawn: list[list[int]]
    refused: dict[str, int]
    releases_per_s: float | None
    releases_per_agent: Spread
    frame_bytes: int
    file_bytes: int
    body_bytes: dict[str, int]
    capture: WholeCaptureVerdict
    run: str | None
    attachments: dict[str, int]
    configuration: str
    metadata: dict[str, dict[str, str]]


class FilteredLog(TypedDict):
    """A new log with some of another log's frames."""

    log: str
    frames: int
    chosen: str
    damage: list[Damaged]


class SalvagedLog(TypedDict):
    """A new log with the whole chunks of a damaged one, and what is lost."""

    log: str
    frames: int
    chunks: int
    last_ns: int | None
    lost: list[Damaged]
    lost_bytes: int
    capture: CaptureFigures


class MergedPart(TypedDict):
    """One of the logs that were merged. ``offset_ns`` was added to its times; ``chain`` is its own last one."""

    log: str
    offset_ns: int
    frames: int
    chain: str
    damage: list[Damaged]


class MergedLog(TypedDict):
    """A new log made of several. ``out_of_order`` counts releases that come over 0.1 s before one that they used."""

    log: str
    frames: int
    duplicates: int
    out_of_order: int
    chain: str
    logs: list[MergedPart]
    capture: CaptureVerdict


class ReplayPlan(TypedDict):
    """What a replay would do. ``seconds`` is None for one as fast as possible."""

    frames: int
    bytes: int
    agents: int
    span_s: float
    seconds: float | None
    chosen: str


class ReplayFigures(TypedDict, total=False):
    """What a replay did. The last two keys are there with statistics only."""

    frames: int
    bytes: int
    span_s: float
    seconds: float
    frames_per_s: float | None
    worst_lateness_s: float
    lateness_s: dict[str, float]
    frames_per_agent: dict[str, int]


Row = TypedDict(
    "Row",
    {
        "time_ns": int,
        "from": int | None,
        "to": int | None,
        "kind": str,
        "index": int,
        "round": int | None,
        "used": list[list[int]],
        "last": int,
        "skipped": list[int],
        "heard": list[int],
        "digest": str,
        "bytes": int,
        "refused": str,
        "parts": list[str],
        "vector": list[float | str],
    },
    total=False,
)
"""A frame as a row of a table. A row has the keys that its kind of frame has."""
