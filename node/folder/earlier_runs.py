"""Earlier runs on the same records, and what they and a new run may spend together: budgets of several runs add up.

Rules that hold here:
- Each record has its own total: the releases of all agents, in all runs, that learned from it, composed by the one
  accountant. The worst record's total counts.
- What is not evaluated exactly is bounded from above. No total is too small.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.parameters import zcdp
from node.folder.dealing_note import EarlierRun, Together, data_digest_of, registry_of
from node.folder.registry import COVERED, Costs, Digests, Entry, Part, at_delta, mechanisms_of, settled

MOST_EXACT = 32
"""Totals that are composed exactly; the others are bounded by zero-concentrated privacy."""
_MOST_COMPARED = 300


@dataclass(frozen=True, slots=True)
class Before:
    """The earlier runs on the same records, oldest name first, and the total."""

    runs: tuple[EarlierRun, ...]
    together: Together


def before(
    new: Entry, entries: Iterable[Entry], registry: Path, limit: float | None, everyone: Digests | None = None
) -> Before:
    """What ``entries`` spent on the records of ``new``, and what it is together with all that ``new`` may spend.

    ``everyone`` are all records of the data, held-out ones too, where the registry is about these data alone.
    """
    wanted = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *(part.records for part in new.parts)]))
    known = [entry for entry in entries if entry.run != new.run]
    touching = [(entry, _touching(entry, wanted)) for entry in known]
    runs = [(entry, parts) for entry, parts in touching if parts and entry.kind in COVERED and _charged(parts)]
    delta = max([new.delta, *(entry.delta for entry, _ in runs)])
    sums = _sums([new.parts, *(parts for _, parts in runs)], wanted)
    epsilon, records = _worst(sums, delta)
    earlier = sorted((_earlier(entry, parts) for entry, parts in runs), key=lambda run: run.run)
    everything = np.concatenate([wanted[:0], *(part.records for entry in known for part in entry.parts)])
    return Before(
        tuple(earlier),
        Together(
            epsilon=epsilon if math.isfinite(epsilon) else None,
            delta=delta,
            records=records,
            of=len(wanted),
            runs=len(runs) + 1,
            figures=sum(bool(parts) for entry, parts in touching if entry.kind not in COVERED),
            unknown=0 if everyone is None else int(np.count_nonzero(~np.isin(np.unique(everything), everyone))),
            limit=limit,
            registry=str(registry),
        ),
    )


def unregistered(folder: Path, data_digest: str, new: Entry) -> list[Entry]:
    """Runs beside ``folder`` (and in it) of before there were registries, that dealt the same rows to the same agents.

    They have no digests of records: their agents' records are those of ``new``.
    """
    found = []
    for dealt in sorted(folder.parent.glob("*/dealt.json")) if folder.parent.is_dir() else ():
        same = data_digest_of(dealt.parent) == data_digest and registry_of(dealt.parent) is None
        try:
            run = str(json.loads((dealt.parent / "manifest.json").read_text(encoding="utf-8"))["run"]) if same else ""
            open_ = "epsilon" not in _privacy(dealt.parent) if same else False
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue
        if same:
            empty = Entry(run, dealt.parent.name, str(dealt.parent), new.delta, new.parts)
            parts = tuple(replace(part, costs=None if open_ else part.costs) for part in new.parts)
            found.append(settled(replace(empty, parts=parts), dealt.parent, every_run=True))
    return found


def _privacy(run: Path) -> dict[str, object]:
    privacy: dict[str, object] = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["privacy"]
    return privacy


def _touching(entry: Entry, wanted: Digests) -> list[Part]:
    """The parts of an entry with those of their records that are ``wanted``; without parts that have none."""
    kept = [replace(part, records=part.records[np.isin(part.records, wanted)]) for part in entry.parts]
    return [part for part in kept if part.records.size]


def _charged(parts: Iterable[Part]) -> bool:
    return any(part.costs is None or part.costs for part in parts)


def _earlier(entry: Entry, parts: Sequence[Part]) -> EarlierRun:
    known = {_key(part.costs): part.costs for part in parts}
    costs = {key: _epsilon(made, entry.delta) for key, made in known.items()}
    each = [costs[_key(part.costs)] for part in parts]
    exposed = not all(map(math.isfinite, each))
    return EarlierRun(
        run=Path(entry.folder).name,
        epsilon_max=None if exposed else max(each),
        epsilon_mean=None if exposed else min(max(each), sum(each) / len(each)),
        delta=None if exposed else entry.delta,
        reserved=not entry.settled,
    )


def _epsilon(costs: Costs | None, delta: float) -> float:
    if costs is None:
        return math.inf
    mechanisms, left = at_delta(costs, delta)
    if left <= 0.0 < delta - left:
        return math.inf
    return total(mechanisms, left).epsilon


# --- totals of records -----------------------------------------------------------------------------------------------


def _sums(runs: Sequence[Sequence[Part]], wanted: Digests) -> list[tuple[Costs | None, int]]:
    """The costs of all releases that learned from a record, and how many records have them."""
    table = _Table(len(wanted))
    for parts in runs:
        own = _Table(len(wanted))
        for part in parts:
            # A record that is in two parts of one run is two records with the same content: the larger costs count.
            own.join(np.searchsorted(wanted, part.records), part.costs, _larger)
        for number, costs in enumerate(own.costs):
            table.join(np.flatnonzero(own.of == number), costs, _added)
    counts = np.bincount(table.of, minlength=len(table.costs))
    return [(costs, int(count)) for costs, count in zip(table.costs, counts, strict=True) if count]


class _Table:
    """Which costs each record has: ``costs`` without repetition, and the number of each record's in ``of``."""

    def __init__(self, records: int) -> None:
        self.costs: list[Costs | None] = [Costs()]
        self.of: npt.NDArray[np.intp] = np.zeros(records, dtype=np.intp)
        self._numbers = {_key(self.costs[0]): 0}

    def join(self, records: npt.NDArray[np.intp], costs: Costs | None, how: _Join) -> None:
        """Put ``how(held, costs)`` in the place of what each of ``records`` has."""
        held = self.of[records]
        for number in np.unique(held):
            self.of[records[held == number]] = self._number(how(self.costs[number], costs))

    def _number(self, costs: Costs | None) -> int:
        number = self._numbers.setdefault(_key(costs), len(self.costs))
        if number == len(self.costs):
            self.costs.append(costs)
        return number


class _Join:
    """How two costs become one; releases without noise outdo everything."""

    def __init__(self, *, add: bool) -> None:
        self._add = add

    def __call__(self, one: Costs | None, other: Costs | None) -> Costs | None:
        if one is None or other is None:
            return None
        return one + other if self._add else one | other


_added, _larger = _Join(add=True), _Join(add=False)


def _key(costs: Costs | None) -> frozenset[object] | None:
    return None if costs is None else frozenset(costs.items())


def _worst(sums: Sequence[tuple[Costs | None, int]], delta: float) -> tuple[float, int]:
    """The largest total at ``delta``, or a bound on it, and how many records have it."""
    exposed = sum(count for costs, count in sums if costs is None)
    if exposed:
        return math.inf, exposed
    ranked = sorted(_undominated([(c, n) for c, n in sums if c is not None]), key=lambda known: -_rho(known[0]))
    exact = [(_epsilon(c, delta), n) for c, n in ranked[: None if delta == 0.0 else MOST_EXACT]]
    worst = max((epsilon for epsilon, _ in exact), default=0.0)
    rest = [(c, n) for c, n in ranked[len(exact) :] if (bound := _bound(c, delta)) > worst or math.isinf(bound)]
    if rest:
        # A release of which no concentrated privacy is known is composed exactly all the same.
        exact += [(_bound(c, delta), n) for c, n in rest if math.isfinite(_rho(c))]
        exact += [(_epsilon(c, delta), n) for c, n in rest if math.isinf(_rho(c))]
        worst = max(epsilon for epsilon, _ in exact)
    return worst, sum(n for epsilon, n in exact if epsilon == worst)


def _undominated(sums: list[tuple[Costs, int]]) -> list[tuple[Costs, int]]:
    """Without those that have no more of any release than another one."""
    if len(sums) > _MOST_COMPARED:
        return sums
    return [(c, n) for c, n in sums if not any(c is not o and c <= o for o, _ in sums)]


def _rho(costs: Costs) -> float:
    rho = zcdp(mechanisms_of(costs))
    return math.inf if rho is None else rho


def _bound(costs: Costs, delta: float) -> float:
    """Epsilon of rho-zCDP (Bun and Steinke 2016, Proposition 1.3)."""
    rho, left = _rho(costs), at_delta(costs, delta)[1]
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / left)) if left > 0.0 else math.inf
