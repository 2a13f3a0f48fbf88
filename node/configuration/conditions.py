"""The part of ``[network]`` that makes a network misbehave: conditions of all links, and of single ones.

Rules that hold here:
- Quantities are written with their units; the resolved configuration holds seconds, bytes and bytes per second.
- A setting that is not given does nothing: without these settings every frame passes at once.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from node.configuration.units import Bytes, BytesPerSecond, PositiveSeconds, Seconds

Probability = Annotated[float, Field(ge=0, lt=1)]
"""Less than 1: a link that loses everything for ever would let a run wait for ever."""

_LAWS = {
    "constant": {"mean"},
    "uniform": {"low", "high"},
    "normal": {"mean", "deviation"},
    "exponential": {"mean"},
}


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True)


class DelaySection(_Strict):
    """A delay: "20 ms" for a constant one, or a table with its law."""

    law: Literal["constant", "uniform", "normal", "exponential"] = "constant"
    mean: Seconds | None = None
    deviation: Seconds | None = None
    low: Seconds | None = None
    high: Seconds | None = None
    jitter: Seconds | None = None

    @model_validator(mode="after")
    def _law_has_its_numbers(self) -> DelaySection:
        given = {key for key in ("mean", "deviation", "low", "high") if getattr(self, key) is not None}
        if given != _LAWS[self.law]:
            raise ValueError(f'law "{self.law}" takes {" and ".join(sorted(_LAWS[self.law]))}, and jitter')
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low = {self.low:g} s should not be more than high = {self.high:g} s")
        return self


class BurstSection(_Strict):
    """Losses that come together: a two-state chain."""

    every: PositiveSeconds
    """How long the link is good, on average."""
    lasting: PositiveSeconds
    """How long it is bad, on average."""
    loss: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Probability of a loss while it is bad."""


def _constant(value: object) -> object:
    return {"law": "constant", "mean": value} if isinstance(value, str | int | float) else value


class LinkSection(_Strict):
    """What one link has instead of the defaults: frames of ``from`` on their way to ``to``."""

    sender: Annotated[int, Field(ge=0, alias="from")]
    receiver: Annotated[int, Field(ge=0, alias="to")]
    loss: Probability | None = None
    duplication: Probability | None = None
    reordering: Probability | None = None
    reordering_delay: Seconds | None = None
    delay: DelaySection | None = None
    burst: BurstSection | None = None
    bandwidth: BytesPerSecond | None = None
    bucket: Bytes | None = None
    queue: PositiveSeconds | None = None

    @field_validator("delay", mode="before")
    @classmethod
    def _delay(cls, value: object) -> object:
        return _constant(value)


class ConditionsSection(_Strict):
    """The conditions of all links that are not named in ``link``."""

    loss: Probability = 0.0
    """Of each copy, independently."""
    duplication: Probability = 0.0
    reordering: Probability = 0.0
    reordering_delay: Seconds = 0.05
    """How much longer a reordered copy is held, at most."""
    delay: DelaySection | None = None
    burst: BurstSection | None = None
    bandwidth: BytesPerSecond | None = None
    bucket: Bytes = 16384.0
    """What may pass at once before ``bandwidth`` holds."""
    queue: PositiveSeconds = 1.0
    """A copy that would have to queue longer is lost."""
    link: list[LinkSection] = Field(default_factory=list)

    @field_validator("delay", mode="before")
    @classmethod
    def _delay(cls, value: object) -> object:
        return _constant(value)
