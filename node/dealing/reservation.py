"""A run's place in the registry of its data: what earlier runs spent, whether there is room, and its reservation.

Rules that hold here:
- The registry is what ``data.registry`` names, or lies beside the data file. Where that folder cannot be written, and
  for published data, it lies beside the run's folder. Synthetic records belong to no person, and have none.
- The registry is held from the first look until the run's folder is in its place, so that of two runs that are started
  at once the second sees the first.
- Nothing was sent when a run is refused, and then nothing of it stays.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.selection import Selection
from coordinator_free.privacy.windows import Window, Windows
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.data.dealt import Dealt
from node.data.records import Digested
from node.dealing.preparation import Preparation
from node.dealing.rows import deal_data
from node.folder.dealing_note import DealingNote, Together, registry_of, write_dealing_note
from node.folder.earlier_runs import Before, before, unregistered
from node.folder.ledger import LedgerFile
from node.folder.manifest import read_manifest
from node.folder.profiles import charged_as
from node.folder.registry import (
    SELECTION,
    SUFFIX,
    Cost,
    Costs,
    Digests,
    Entry,
    Part,
    Registry,
    RegistryError,
    costs_of,
    settle_held,
)
from node.places import agent_folder

OWN_SOURCES = ("csv", "parquet", "npz", "svmlight")
"""Sources of data that only their owner has; the others are published."""
_SLACK = 1.0 + 1e-9

Plan = Sequence[Mechanism | None]
"""The mechanism of each release of one agent."""


@dataclass(frozen=True)
class Place:
    """Where the registry of some data is; ``own``: about these data alone, and not only about runs in one folder."""

    folder: Path
    own: bool


def place_of(configuration: Configuration, run_folder: Path) -> Place | None:
    """Where the registry is of the data that a run in ``run_folder`` uses; None for synthetic data."""
    data = configuration.data
    if data.source == "synthetic":
        return None
    if data.registry is not None:
        return Place(Path(data.registry).expanduser().absolute(), own=True)
    if data.source in OWN_SOURCES:
        file = Path(data.path or "").expanduser().resolve()
        beside = file.with_name(file.name + SUFFIX)
        if os.access(beside if beside.exists() else file.parent, os.W_OK | os.X_OK):
            return Place(beside, own=True)
    return Place(run_folder.absolute().parent / f"data{SUFFIX}", own=False)


def warning_of(configuration: Configuration, place: Place | None) -> tuple[str, ...]:
    """What to say where budgets of runs on the user's own data are not all added up."""
    if place is None or place.own or configuration.data.source not in OWN_SOURCES:
        return ()
    return (
        "the folder of data.path cannot be written, so only runs beside this one's folder are added up; name a folder "
        "for all runs on these data in data.registry",
    )


@contextmanager
def reserved(preparation: Preparation, plans: Sequence[Plan], run: str, folder: Path, building: Path) -> Iterator[None]:
    """Reserve the whole budget of a run, write ``dealt.json``, and hold the registry while the folder is filled.

    Raises
    ------
    ConfigurationError
        If the run would spend more than ``privacy.total_epsilon``, or the registry cannot be used.
    """
    c, dealt = preparation.configuration, preparation.dealt
    place = place_of(c, folder)
    note = DealingNote(data_digest=dealt.digest)
    if place is None or dealt.sources is None:
        write_dealing_note(building, note)
        yield
        return
    try:
        registry = Registry.made(place.folder)
        digested = dealt.sources.digests(registry.key)
        entry = _entry(preparation, plans, run, folder, digested)
        with registry.held():
            settle_held(registry, folder, [e.run for e in registry.entries() if Path(e.folder) == folder])
            found = _before(c, registry, entry, digested if place.own else None, folder, dealt)
            _refuse_overspending(c, found)
            registry.write(entry)
            if c.privacy.total_epsilon is not None:
                registry.state_total(c.privacy.total_epsilon)
            note = replace(note, registry=str(place.folder), together=found.together, earlier_runs=tuple(found.runs))
            write_dealing_note(building, note)
            try:
                yield
            except BaseException:
                registry.remove(run)
                raise
    except (RegistryError, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise ConfigurationError(str(error)) from None


def reserve_again(folder: Path, configuration: Configuration) -> None:
    """Reserve the whole budget of an interrupted run again, before it goes on.

    Raises
    ------
    ConfigurationError
        If other runs have taken the rest of the total meanwhile, or the registry cannot be used.
    """
    noted = registry_of(folder)
    if noted is None:
        return
    run, registry = read_manifest(folder).run.hex(), Registry(noted)
    try:
        with registry.held():
            entry = registry.entry(run)
            if entry is None:
                raise ConfigurationError(
                    f"registry {registry.folder} has no entry of the run in {folder}, so its reservation is lost; "
                    "bring the registry back from a copy"
                )
            covered = configuration.private and not configuration.run.simulation
            whole = Entry(run, entry.name, str(folder), entry.delta, _planned(entry, folder, covered=covered))
            _refuse_overspending(
                configuration, before(whole, registry.entries(), registry.folder, registry.total), resumed=True
            )
            registry.write(whole)
    except (RegistryError, OSError) as error:
        raise ConfigurationError(str(error)) from None


def _planned(entry: Entry, folder: Path, *, covered: bool) -> tuple[Part, ...]:
    """The parts of a run with all that its ledgers let it spend."""
    parts = []
    for agent, part in entry.by_agent():
        with LedgerFile.read(agent_folder(folder, agent) / "ledger.jsonl", None) as ledger:
            profile = [charge.mechanism for charge in ledger.charges() if charge.run == charged_as(entry.run)]
            plan = [*profile, *_in_window(ledger.planned(entry.run).mechanisms(), part.window)]
        parts.append(replace(part, costs=costs_of(plan) if covered else None))
    return tuple(parts)


def spent_before(preparation: Preparation, plans: Sequence[Plan], run_folder: Path) -> Before | None:
    """What `reserved` would find; nothing is written. None where there is no registry yet."""
    place, sources = place_of(preparation.configuration, run_folder), preparation.dealt.sources
    if place is None or sources is None or not (place.folder / "key").exists():
        return None
    registry = Registry(place.folder)
    digested = sources.digests(registry.key)
    entry = _entry(preparation, plans, "", run_folder, digested)
    return _before(
        preparation.configuration, registry, entry, digested if place.own else None, run_folder, preparation.dealt
    )


def note_figures(configuration: Configuration, kind: str) -> None:
    """Note in the registry that ``kind`` (a command) shows figures of the user's own records that no budget covers.

    Published and synthetic records need no note.

    Raises
    ------
    ConfigurationError
        If there is a total that all uses of the data may spend: it could not be kept.
    """
    place = place_of(configuration, Path("runs") / configuration.run.name)
    if configuration.data.source not in OWN_SOURCES or place is None:
        return
    dealt = deal_data(configuration, configuration.run.seed or 0)
    assert dealt.sources is not None
    try:
        registry = Registry.made(place.folder)
        digested = dealt.sources.digests(registry.key)
        with registry.held():
            limit = configuration.privacy.total_epsilon or registry.total
            if limit is not None:
                raise ConfigurationError(
                    f"privacy.total_epsilon = {limit:g}: {kind} shows scores of these records that no budget covers; "
                    f"use public or synthetic data (the total is kept in {registry.folder})"
                )
            parts = tuple(Part(records, Costs()) for records in digested.training)
            registry.write(
                Entry(secrets.token_hex(16), configuration.run.name, str(Path.cwd()), 0.0, parts, kind, settled=True)
            )
    except RegistryError as error:
        raise ConfigurationError(str(error)) from None


def charge_selection(configuration: Configuration, dealt: Dealt, selection: Selection) -> None:
    """Charge a choice by private scores to the training records of ``dealt``, before a score is made.

    Raises
    ------
    ConfigurationError
        If that is more than the total that all uses of the data may spend, or nothing bounds what they spend together.
    """
    name, delta = configuration.run.name, configuration.privacy.delta or 0.0
    folder = Path("runs").absolute() / f"choice for {name}"
    place = place_of(configuration, folder)
    if place is None or dealt.sources is None:
        raise ConfigurationError(f'--private: data.source = "{configuration.data.source}" has no registry to charge')
    try:
        registry = Registry.made(place.folder)
        digested = dealt.sources.digests(registry.key)
        costs = Costs({Cost(SELECTION, 1.0 / selection.epsilon, 0, selection.delta): 1})
        parts = tuple(Part(records, costs) for records in digested.training)
        entry = Entry(secrets.token_hex(16), name, str(folder), delta, parts, SELECTION, settled=True)
        with registry.held():
            found = _before(configuration, registry, entry, digested if place.own else None, folder, dealt)
            _refuse_overspending(configuration, found)
            if found.together.epsilon is None:
                raise ConfigurationError(
                    "--private: nothing bounds what these records would have spent together: runs released from them "
                    f"without noise, or choices have used up privacy.delta = {delta:g} (kept in {registry.folder})"
                )
            registry.write(entry)
            if configuration.privacy.total_epsilon is not None:
                registry.state_total(configuration.privacy.total_epsilon)
    except (RegistryError, OSError) as error:
        raise ConfigurationError(str(error)) from None


def _entry(preparation: Preparation, plans: Sequence[Plan], run: str, folder: Path, digested: Digested) -> Entry:
    c = preparation.configuration
    covered = c.private and not c.run.simulation  # the manifest is enough to compute the noise of a simulation
    budgets = [preparation.budget(agent) or (0.0, 0.0) for agent in range(preparation.agents)]
    return Entry(
        run=run,
        name=c.run.name,
        folder=str(folder),
        delta=max(delta for _, delta in budgets),
        parts=tuple(
            replace(part, costs=costs_of(_in_window(plan, part.window)) if covered else None if plan else Costs())
            for agent, plan in enumerate(plans)
            for part in _parts(agent, digested.training[agent], preparation.windows(agent))
        ),
    )


def _parts(agent: int, records: Digests, windows: Windows) -> list[Part]:
    """An agent's records, those of each window by themselves."""
    if not windows:
        return [Part(records, None, agent)]
    kept = {window: np.array([own == window for own in windows]) for window in dict.fromkeys(windows)}
    return [Part(records[there], None, agent, window) for window, there in kept.items()]


def _in_window(plan: Plan, window: Window | None) -> Plan:
    """The releases of a run that use records of ``window``; None: all of them."""
    return plan if window is None else plan[window[0] : window[1] + 1]


def _before(
    c: Configuration, registry: Registry, entry: Entry, digested: Digested | None, folder: Path, dealt: Dealt
) -> Before:
    limit = c.privacy.total_epsilon or registry.total
    entries = [*registry.entries(), *unregistered(folder, dealt.digest, entry)]
    return before(entry, entries, registry.folder, limit, None if digested is None else digested.everyone)


def _refuse_overspending(c: Configuration, found: Before, *, resumed: bool = False) -> None:
    together = found.together
    epsilon = math.inf if together.epsilon is None else together.epsilon
    if together.limit is None or epsilon <= together.limit * _SLACK:
        return
    accepted = f"a larger total in {together.registry}/total.json" if resumed else _allowed(epsilon)
    raise ConfigurationError(
        f"privacy.total_epsilon = {together.limit:g}: {_with_this_run(together, c)}; {_spent(found)}; accepted: "
        f"a run that fits, or {accepted} (the total is kept in {together.registry})"
    )


def _with_this_run(together: Together, c: Configuration) -> str:
    if not c.private or c.run.simulation:
        return "this run would release from these records without noise, or with noise that a holder of the seed knows"
    if together.epsilon is None:
        return "earlier runs released from these records without noise"
    return (
        f"with this run {together.records} of its {together.of} records would have spent epsilon "
        f"{together.epsilon:.4g} at delta {together.delta:g}"
    )


def _spent(found: Before, most: int = 5) -> str:
    if not found.runs:
        return "no earlier run spent anything"
    told = [
        f"{run.run} {'without noise' if run.epsilon_max is None else f'{run.epsilon_max:.4g}'}"
        f"{' (reserved)' if run.reserved else ''}"
        for run in found.runs[:most]
    ]
    more = len(found.runs) - len(told)
    return f"earlier runs spent: {', '.join(told)}" + (f" and {more} more" if more else "")


def _allowed(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "other records"
    return f"privacy.total_epsilon = {math.ceil(epsilon * 1000) / 1000:.10g} or more"
