"""The ``[data]`` section of a configuration.

Every field has a default that is right for its source, so that a section is short. A field that its source does not
use is an error when it is set, because a setting that changes nothing misleads.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator

Source = Literal[
    "schools",
    "breast-cancer",
    "adult",
    "bank",
    "kddcup99",
    "credit-card",
    "movielens-100k",
    "synthetic",
    "csv",
    "parquet",
    "npz",
    "svmlight",
]
Split = Literal["even", "sizes", "random", "ratio", "dirichlet", "column"]

_ANY = {"source", "seed", "arriving"}
_SPLIT = {"registry", "agents", "split", "sizes", "ratio", "alpha", "column", "floor", "held_out"}
_TABLE = _SPLIT | {"path", "drop", "intercept", "row_scaling"}
_LABELS = {"label", "positive", "negative", "centring"}
_OWN_TABLE = _TABLE | _LABELS | {"bounds", "levels", "outside", "row_bound", "record", "arriving_column"}
_OWN_MATRIX = _OWN_TABLE - {"drop", "levels", "label"}

_USED: dict[str, set[str]] = {
    "schools": _SPLIT | {"path"},
    "breast-cancer": _TABLE,
    "adult": _TABLE | {"test", "as_published", "by_frequency"},
    "bank": _TABLE,
    "kddcup99": _TABLE,
    "credit-card": _TABLE,
    "movielens-100k": {
        "registry",
        "path",
        "agents",
        "held_out",
        "dimension",
        "als_regularisation",
        "centring",
        "as_published",
    },
    "synthetic": {"agents", "dimension", "records", "flips", "test_points", "test_labels", "feature_scale"},
    "csv": _OWN_TABLE | {"delimiter"},
    "parquet": _OWN_TABLE,
    "npz": _OWN_MATRIX,
    "svmlight": (_OWN_MATRIX - {"column", "arriving_column"}) | {"dimension"},
}
_NEEDED_BY_SPLIT = {"sizes": "sizes", "ratio": "ratio", "dirichlet": "alpha"}


LARGEST = 1e100
"""Of public bounds: squares of numbers within, and of their inverses, are finite."""


def _ordered(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"[{low}, {high}] is not a public bound: two finite numbers, the lower one first")
    if max(-low, high) > LARGEST or high - low < 1 / LARGEST:
        raise ValueError(
            f"should lie within {LARGEST:g} and at least {1 / LARGEST:g} apart: their squares must be finite"
        )
    return bounds


def _separates(delimiter: str) -> str:
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in "\"'.+-_\r\n\0\\#":
        raise ValueError('should be one character that no cell holds, such as ",", ";", "|" or "\\t"')
    return delimiter


def _listed(words: object) -> object:
    return [words] if isinstance(words, str) else words


# A list in TOML is a tuple here; what is in it is as strict as everything else.
Bounds = Annotated[tuple[float, float], Strict(False), AfterValidator(_ordered)]
Words = Annotated[tuple[str, ...], Strict(False)]
Count = Annotated[int, Field(ge=0)]


class DataSection(BaseModel):
    """What the agents learn from, and how it is dealt among them. Rows are records; docs/data.md has every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    source: Source
    path: str | None = None
    """File or folder. ``schools`` and ``breast-cancer`` are found in examples/data without it."""
    seed: int | None = Field(default=None, ge=0)
    """Seed of the dealing alone; by default the run's."""

    registry: str | None = None
    """Folder in which runs on these data note what they spend. Default: beside the file of data of one's own."""

    agents: int | None = Field(default=None, ge=1)
    split: Split | None = None
    """Default: by ``column`` where there is one, else even."""
    sizes: Annotated[tuple[Count, ...], Strict(False)] | None = None
    """Rows of each agent, training and test together (split = "sizes")."""
    ratio: float | None = Field(default=None, ge=1)
    """The larger half of the agents has this many times the rows of the smaller half (split = "ratio")."""
    alpha: float | None = Field(default=None, gt=0)
    """Concentration of the label skew: small is skewed (split = "dirichlet")."""
    column: str | None = None
    """One agent for each value of this column, which is then no feature (split = "column")."""
    floor: int = Field(default=1, ge=0)
    """Rows that every agent has at least (split = "random" and "dirichlet")."""
    held_out: float | None = Field(default=None, ge=0, lt=1)
    """Share of each agent's rows kept for testing. Default 0.3; 0.2 for movielens-100k."""
    arriving: float | None = Field(default=None, gt=0, lt=1)
    """Share of each agent's training records that arrive during the run, one by one, evenly over the updates."""
    arriving_column: str | None = None
    """Column that says when each record arrives: the first update that may use it, a whole number (csv, parquet, npz).
    It is public, and no feature."""
    test: Literal["held-out", "published"] = "held-out"
    """``published``: the test file that comes with the data, dealt evenly; nothing is held out (adult)."""

    delimiter: Annotated[str, AfterValidator(_separates)] = ","
    """What separates the cells of a line (csv)."""
    label: str | None = None
    """Column of the label (csv, parquet)."""
    positive: str | None = None
    """The label that becomes 1."""
    negative: Annotated[Words, BeforeValidator(_listed)] | None = None
    """The labels that become -1, one or several. Default: the only other label in the data."""
    drop: Words = ()
    """Columns that are no features."""
    bounds: dict[str, Bounds] = Field(default_factory=dict)
    """Public bounds of a column ("*": every other column), scaled to [-1, 1]; of the label column: checked only."""
    levels: dict[str, Words] = Field(default_factory=dict)
    """Public list of the values of a column of words, which becomes one column for each (one-hot); of ``column``: the
    agents in their order."""
    outside: Literal["error", "clip"] = "error"
    """What happens to a value outside its public bounds."""
    row_scaling: Literal["public", "record", "none"] | None = None
    """``public``: divided by the largest L2 norm that the bounds allow; ``record``: by its own norm where that is
    above 1, in the norm of the mechanism; ``none``. Default: record for adult, bank, kddcup99 and credit-card, else
    public."""
    row_bound: float | None = Field(default=None, ge=1 / LARGEST, le=LARGEST)
    """A public promise: no row is longer, after scaling, in the norm of the mechanism (L2 without one)."""
    intercept: bool | None = None
    """A feature that is always 1. Default: yes, except for adult, bank and kddcup99, whose one-hot columns hold it."""
    record: str = "one row"
    """The unit of privacy in words."""

    dimension: int | None = Field(default=None, ge=1)
    """synthetic: features (100); movielens-100k: features of a film (20); svmlight: columns (needed in private)."""
    records: Annotated[tuple[Count, Count], Strict(False)] = (10, 100)
    """Training points of an agent are uniform between these two, both included (synthetic)."""
    flips: float = Field(default=0.05, ge=0, le=0.5)
    """Probability that a label is flipped (synthetic)."""
    test_points: int = Field(default=100, ge=0)
    test_labels: Literal["clean", "flipped"] = "clean"
    feature_scale: float = Field(default=1.0, ge=1 / LARGEST, le=LARGEST)
    """Features are uniform in [-feature_scale, feature_scale] (synthetic)."""

    als_regularisation: float = Field(default=0.05, gt=0)
    centring: Literal["none", "bounds", "user-mean"] = "none"
    """Of data of one's own: ``bounds``, labels minus the middle of their public bounds. movielens-100k: ``none``,
    ratings minus the public constant 3.5; ``user-mean``, minus the user's own mean (not private)."""
    as_published: bool = False
    """Accept what the paper did although it breaks the privacy claim; it is named under public_assumptions."""
    by_frequency: Words = ()
    """Columns of words whose values are replaced by their frequency among all records (adult, with as_published)."""

    @model_validator(mode="after")
    def _fits_together(self) -> DataSection:
        fields = type(self).model_fields
        used = _USED[self.source] | _ANY
        for name in sorted(self.model_fields_set - used):
            if getattr(self, name) != fields[name].get_default(call_default_factory=True):
                raise ValueError(
                    f"data.{name} is not used by data.source = {self.source!r}; it uses {', '.join(sorted(used))}"
                )
        if self.path is None and self.source not in ("schools", "breast-cancer", "synthetic"):
            raise ValueError(f"data.path is needed by data.source = {self.source!r}: a file or folder")
        if self.source in ("csv", "parquet") and self.label is None:
            raise ValueError(f"data.label is needed by data.source = {self.source!r}: the column of the label")
        if self.records[0] > self.records[1]:
            raise ValueError(f"data.records is {list(self.records)}: the smaller number comes first")
        if self.test == "published" and self.held_out:
            raise ValueError('data.held_out has no effect with data.test = "published": leave it out')
        if self.by_frequency and not self.as_published:
            raise ValueError(
                f"data.by_frequency is {list(self.by_frequency)}: a frequency puts every record into every other, and "
                "epsilon would be false; leave it out, or set data.as_published = true to reproduce the figures"
            )
        self._check_words()
        self._check_centring()
        self._check_split()
        self._check_arrivals()
        return self

    @property
    def records_arrive(self) -> bool:
        """Whether records arrive during the run."""
        return self.arriving is not None or self.arriving_column is not None

    def _check_arrivals(self) -> None:
        """Raise ValueError for two rules of arrival, and for a column of arrivals that is something else too."""
        name = self.arriving_column
        if name is None:
            return
        if self.arriving is not None:
            raise ValueError(
                f"data.arriving is {self.arriving:g} and data.arriving_column {name!r}: one of them says which records "
                "arrive during the run; leave the other one out"
            )
        uses = {"label": (self.label or "y",), "column": (self.column,), "drop": self.drop, "bounds": self.bounds}
        for key, names in {**uses, "levels": self.levels}.items():
            if name in names:
                raise ValueError(
                    f"data.arriving_column is {name!r}, which is in data.{key} too: the column says when records "
                    "arrive, and is nothing else"
                )

    @property
    def middle(self) -> float:
        """What is taken from every label: with ``centring = "bounds"`` the middle of their public bounds."""
        return sum(self.bounds[self.label or "y"]) / 2.0 if self.centring == "bounds" else 0.0

    def _check_centring(self) -> None:
        """Raise ValueError for a centring that the source does not have, or without what it needs."""
        own = self.source != "movielens-100k"
        if self.centring == ("user-mean" if own else "bounds"):
            accepted = '"none" and "bounds"' if own else '"none" and "user-mean"'
            raise ValueError(f"data.centring is {self.centring!r}: data.source = {self.source!r} accepts {accepted}")
        if self.centring == "bounds" and (self.positive is not None or (self.label or "y") not in self.bounds):
            raise ValueError(
                f"data.centring is 'bounds': it takes the middle of data.bounds.{self.label or 'y'}, the public bounds "
                "of a label that is a number; state them, and leave out data.positive"
            )

    def _check_words(self) -> None:
        """Raise ValueError for labels and levels that say nothing, or one thing twice."""
        if self.negative is not None:
            if self.positive is None:
                raise ValueError("data.negative has no effect without data.positive, the label that becomes 1")
            if not self.negative or self.positive in self.negative:
                raise ValueError(
                    f"data.negative is {list(self.negative)}: it lists the labels that become -1, without "
                    f"data.positive = {self.positive!r}"
                )
        for name, words in self.levels.items():
            if not words or len(set(words)) < len(words):
                raise ValueError(f"data.levels.{name} is {list(words)}: it lists each value once, and at least one")

    def _check_split(self) -> None:
        if self.source in ("synthetic", "movielens-100k"):
            return
        split = self.split_in_force
        needed = _NEEDED_BY_SPLIT.get(split)
        if needed is not None and getattr(self, needed) is None:
            raise ValueError(f"data.{needed} is needed by data.split = {split!r}")
        for kind, name in _NEEDED_BY_SPLIT.items():
            if kind != split and getattr(self, name) is not None:
                raise ValueError(f"data.{name} has no effect with data.split = {split!r}; it belongs to {kind!r}")
        self._check_agents(split)

    def _check_agents(self, split: Split) -> None:
        """Raise ValueError unless the split says how many agents there are, in one way."""
        if split == "column":
            if self.column is None and self.source != "schools":
                raise ValueError("data.column is needed by data.split = 'column'")
        elif self.column is not None:
            raise ValueError(f"data.column has no effect with data.split = {split!r}")
        elif split == "sizes":
            if self.sizes is not None and self.agents not in (None, len(self.sizes)):
                raise ValueError(f"data.agents is {self.agents}, but data.sizes has {len(self.sizes)} entries")
        elif self.agents is None:
            raise ValueError(f"data.agents is needed by data.split = {split!r}: how many agents share the rows")

    @property
    def split_in_force(self) -> Split:
        """``split``, or what it is by default."""
        if self.split is not None:
            return self.split
        if self.column is not None or (self.source == "schools" and self.sizes is None):
            return "column"
        return "even" if self.sizes is None else "sizes"

    @property
    def held_out_in_force(self) -> float:
        """``held_out``, or what it is by default."""
        if self.test == "published":
            return 0.0
        if self.held_out is not None:
            return self.held_out
        return 0.2 if self.source == "movielens-100k" else 0.3


def unused_by_source(section: DataSection) -> dict[str, str]:
    """Each setting, given or not, that changes nothing with this source and this split, with the reason."""
    used = _USED[section.source] | _ANY
    why = f"data.source = {section.source!r} takes {', '.join(sorted(used - {'source'}))}"
    found = {name: why for name in type(section).model_fields if name not in used}
    if section.source not in ("synthetic", "movielens-100k"):
        split = section.split_in_force
        if split not in ("random", "dirichlet"):
            found["floor"] = f"data.split = {split!r} has no floor"
        if split == "column":
            found["agents"] = "data.split = 'column' makes one agent for each value of the column"
    return found
