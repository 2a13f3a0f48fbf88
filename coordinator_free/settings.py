"""Settings of an algorithm as typed, checked values: each has its type, its bounds and its default in one place.

Rules that hold here:
- A field's annotation says what is accepted. A configuration is validated by the same annotations.
- A field without a default must be given. A default of None means that the value follows from other settings, as the
  field's description says.
- A document of an older run may lack a key: it then gets the default, so a default never changes what old runs did.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

Positive: TypeAlias = Annotated[float, Gt(0)]
NonNegative: TypeAlias = Annotated[float, Ge(0)]
Count: TypeAlias = Annotated[int, Ge(1)]

PARAMETER: Final[Mapping[str, str]] = {"table": "parameters"}
"""Metadata of a field that stands in ``[learning.parameters]`` rather than in ``[learning]``."""


class SettingError(ValueError):
    """A setting with which an agent cannot be made."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that an agent reads: a subclass has one field for each."""

    @classmethod
    def of(cls, learning: Mapping[str, Any]) -> Self:
        """Read the settings of this type.

        Parameters
        ----------
        learning
            Public numbers by name, as in `coordinator_free.agent.Setting`; those of other types are left alone.

        Raises
        ------
        SettingError
            One is missing, or has a value that is not accepted.
        """
        found, kind = {}, cast("Any", cls)
        for name, hint, default in _fields(kind):
            value = learning.get(name)
            if value is not None:
                found[name] = _checked(name, hint, value)
            elif default is MISSING:
                raise SettingError(f"learning.{name} is missing: accepted: {_accepted(hint)}")
        return cls(**found)

    def idle(self) -> Mapping[str, str]:
        """The settings that have no effect beside the others, each with the reason."""
        return {}


@dataclass(frozen=True, kw_only=True)
class AgentNumbers(Settings):
    """Public numbers that dealing gives every agent, beside the settings of its algorithm."""

    agents: int = 0
    """How many the run has."""
    seed: int = 0
    """Of what is public and random."""
    finish: bool = False
    """Whether the agent ends with a free finish."""
    absent: Sequence[int] = ()
    """Neighbours that join later."""


@dataclass(frozen=True, kw_only=True)
class StepNumbers(AgentNumbers):
    """The same, of an algorithm whose steps rest on the smoothness of the local loss."""

    smoothness: NonNegative
    """L, of the agent's mean loss; public in a private run."""


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Name, annotation and default of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((field.name, _given(hints[field.name]), field.default) for field in fields(kind))


def _given(hint: Any) -> Any:
    """The annotation of a value that is not None."""
    if get_origin(hint) in (Union, UnionType):
        return next(part for part in get_args(hint) if part is not type(None))
    return hint


def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The plain type of an annotation, and its bounds."""
    return (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())


def _checked(name: str, hint: Any, value: Any) -> Any:
    """The value in its field's type; raises `SettingError` for one that the annotation does not accept."""
    kind, bounds = _parts(hint)
    if get_origin(kind) is Literal:
        fits = value in get_args(kind)
    elif kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = not isinstance(kind, type) or isinstance(value, kind)
    if not fits or not all(_fits(value, bound) for bound in bounds):
        raise SettingError(f"learning.{name} = {value!r}: accepted: {_accepted(hint)}")
    return float(value) if kind is float else value


def _fits(value: Any, bound: Any) -> bool:
    name, _, demands = _BOUNDS[type(bound)]
    return demands(value, getattr(bound, name))


def _accepted(hint: Any) -> str:
    """What a field accepts, in words."""
    kind, bounds = _parts(hint)
    if get_origin(kind) is Literal:
        return ", ".join(f'"{choice}"' for choice in get_args(kind))
    words = {float: "a finite number", int: "a whole number", bool: "true, false", str: "a text"}
    limits = (f"{sign} {getattr(bound, name):g}" for bound in bounds for name, sign, _ in (_BOUNDS[type(bound)],))
    return ", ".join([words.get(kind, str(kind)), *limits])


_BOUNDS: Final[Mapping[type, tuple[str, str, Callable[[Any, Any], bool]]]] = {
    Gt: ("gt", ">", operator.gt),
    Ge: ("ge", ">=", operator.ge),
    Lt: ("lt", "<", operator.lt),
    Le: ("le", "<=", operator.le),
}
"""Of each kind of bound: its attribute, its sign, and what it demands."""
