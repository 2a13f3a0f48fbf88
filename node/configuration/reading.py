"""A run's configuration: TOML, validated, with errors that name the setting, its value and what would be accepted.

Rules that hold here:
- A setting that is not known is an error that names the nearest known one.
- No seed is ever filled in: ``run.seed`` is what the person wrote, or nothing.
- Whatever would make a privacy claim false is refused here, before any data is read; what only the data can show is
  refused while dealing.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import ipaddress
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from coordinator_free.agent import Activation
from coordinator_free.agents.registry import KNOWN, AlgorithmError, algorithm
from coordinator_free.privacy.mechanisms import NORMS, MechanismError
from coordinator_free.problem.losses import LossError, loss
from node.configuration.conditions import ConditionsSection
from node.configuration.data import DataSection
from node.configuration.events import EventSection, ending, outage
from node.configuration.units import PositiveSeconds, Seconds

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class ConfigurationError(ValueError):
    """One line: the setting, its value, what would be accepted."""


class Section(BaseModel):
    """A section of the file: frozen, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _named(value: str, known: Sequence[str], own: str) -> str:
    if value not in known and ":" not in value:
        nearest = difflib.get_close_matches(value, known, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        raise ValueError(f"should be one of {', '.join(known)}, or {own}{hint}")
    return value


class RunSection(Section):
    name: str = ""
    """Default: the configuration file's name without its suffix."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Seeds splits, graph, clocks and network conditions; never the noise, except in a simulation."""
    simulation: bool = False
    """Draw the noise from ``seed``: repeatable, and whoever holds the seed sees through it."""

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if "/" in name or "\0" in name or name in {".", ".."}:
            raise ValueError("should be a plain name, without a slash")
        return name


TOPOLOGIES = (
    "path",
    "ring",
    "torus",
    "complete",
    "star",
    "random-regular",
    "erdos-renyi",
    "watts-strogatz",
    "barabasi-albert",
    "random-geometric",
    "angle-similarity",
    "nearest-neighbours",
    "file",
)


class TopologySection(Section):
    kind: str
    """A known name, or ``package.module:function`` for one's own."""
    path: str | None = None
    """The graph's file, for ``kind = "file"``; the format follows from its suffix."""
    degree: Count | None = None
    probability: Annotated[float, Field(ge=0, le=1)] | None = None
    radius: Positive | None = None
    rows: Count | None = None
    columns: Count | None = None
    gamma: Positive | None = None
    threshold: NonNegative | None = None
    neighbours: Count | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    """Default: ``run.seed``."""

    @field_validator("kind")
    @classmethod
    def _kind(cls, value: str) -> str:
        return _named(value, TOPOLOGIES, "package.module:function")


class LearningSection(Section):
    algorithm: str = "coordinate-descent"
    """A known name, or ``package.module:Class`` for one's own."""
    loss: str = "logistic"
    """A known name, or ``package.module:NAME`` for one's own."""
    mu: Positive | None = None
    """Weight of the local losses against the graph's smoothness (Bellet et al. 2018, Eq. 2)."""
    regularisation: NonNegative = 1.0
    """lambda_i = regularisation / m_i."""
    smoothness: str | float | None = None
    """Of the mean loss without its regulariser, for which 2 lambda_i is always added: "data" (its eigenvalue; only
    without privacy), "bound" (from the public bound on the rows), "feature-law", or a public number. Default: "data"
    without privacy, else "bound"."""
    finish: bool = False
    """A last minimisation that is never released and not covered by epsilon."""
    finish_mu: Positive | None = None
    """Default: ``mu``."""
    start: Literal["zero", "local"] | None = None
    """Where asynchronous algorithms start; "local" only without privacy."""
    anchor: Literal["local", "gradient", "output-perturbation", "objective-perturbation", "zero"] | None = None
    anchor_scale: Positive | None = None
    anchor_regularisation: Positive | None = None
    local_steps: Count | None = None
    rho: Positive | None = None
    capacity: Positive | None = None
    """The constant C of the ADMM papers."""
    penalty: Positive | None = None
    penalty_growth: Positive | None = None
    penalties: list[float] | None = None
    theta: Positive | None = None
    regulariser: Literal["per-node", "shared"] | None = None
    pvp_form: Literal["own-release", "as_published"] | None = None
    last_round: Literal["same", "dvp"] | None = None
    kappa: NonNegative | None = None
    aggregation: Literal["flood", "push-sum", "masked-sum"] | None = None
    """How averages spread without a server. Default: "flood"."""
    weighting: Literal["size", "equal"] | None = None
    """Of an average: by records (default), or equal."""
    step: Positive | None = None
    """Learning rate h of gradient descent; at most 2/L."""
    local: Literal["gradient-descent", "output-perturbation", "objective-perturbation"] | None = None
    """What an agent does before the average."""
    iterate: Literal["last", "tail"] | None = None
    """Of gradient descent: the last iterate (default), or the mean of the last half."""
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Of gradient descent; computed from what was said, so it costs no privacy."""
    amplification: bool | None = None
    """Account for the last iterate alone; refused where that does not hold."""
    push_rounds: Count | None = None
    """Rounds of a push-sum."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Whatever a plugged-in algorithm wants."""

    @field_validator("smoothness")
    @classmethod
    def _smoothness(cls, value: str | float | None) -> str | float | None:
        if isinstance(value, str) and value not in {"data", "bound", "feature-law"}:
            raise ValueError('should be "data", "bound", "feature-law" or a positive number')
        if isinstance(value, float) and not value > 0:
            raise ValueError('should be "data", "bound", "feature-law" or a positive number')
        return value


class ClockSection(Section):
    rate: Positive = 10.0
    """Wakes per second of each agent, on average."""
    updates: Count = 100
    """T_i: updates (asynchronous algorithms) or rounds."""
    drift: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Each agent's clock is fast or slow by a part of at most this, drawn from the seed."""
    skew: Seconds = 0.0
    """Each agent's own time stamps are off by at most this, drawn from the seed."""


class PrivacySection(Section):
    mechanism: str = "none"
    """A known name, or ``package.module:Class`` for one's own."""
    epsilon: float | None = None
    """Total budget of each agent, over all its releases."""
    delta: float | None = None
    clip: Positive | None = None
    """Bound on each record's gradient, in the norm of the mechanism."""
    allocation: Literal["uniform", "increasing", "as_published"] = "uniform"
    r: Annotated[float, Field(gt=0, le=1)] | None = None
    """Rate of an allocation that is not uniform."""
    budgets: str | None = None
    """File with the columns agent, epsilon and maybe delta: budgets of the agents' own. Epsilon 0: it only listens."""
    levels: list[list[float]] | None = None
    """[share of the agents, epsilon] pairs, dealt at random: another way to budgets of the agents' own."""
    as_published: bool = False
    observer: Literal["releases", "sum", "as_published"] = "releases"
    """Whom epsilon speaks of: who sees each agent's releases, or only their masked sum; or as the paper has it."""
    colluders: Annotated[int, Field(ge=0)] = 0
    """Agents of a masked sum that may pool what they know."""
    dropouts: Annotated[int, Field(ge=0)] = 0
    """Agents that may be absent from a masked sum: so the noise of the others is enough, and masks are repaired."""

    @field_validator("mechanism")
    @classmethod
    def _mechanism(cls, value: str) -> str:
        return _named(value, ("none", *NORMS), "package.module:Class")

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: float | None) -> float | None:
        if value is not None and not value > 0:
            raise ValueError("should be greater than 0")
        return value

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: float | None) -> float | None:
        if value is not None and not 0 < value < 1:
            raise ValueError("should be greater than 0 and less than 1")
        return value


class EavesdropperSection(Section):
    enabled: bool = True


class NetworkSection(ConditionsSection):
    transport: Literal["ipc", "tcp"] = "ipc"
    repeat: PositiveSeconds = 0.5
    """Seconds after which a waiting agent repeats its last releases."""
    deadline: PositiveSeconds = 60.0
    """Seconds in which all must be ready."""
    linger: Seconds = 10.0
    """Seconds that a finished agent waits for its neighbours' ``done``."""
    silent: PositiveSeconds = 60.0
    """Seconds without a word of a neighbour in a synchronous round, after which ``on_silent`` decides."""
    on_silent: Literal["wait", "stop", "carry-on"] = "wait"
    folder: str | None = None
    """Where ipc sockets lie. Default: a fresh temporary folder."""
    host: str = "127.0.0.1"
    encryption: bool | None = None
    """Keys on every tcp socket. Default: true where tcp leaves this machine, and for a run that is dealt in parts."""


class Configuration(Section):
    run: RunSection = RunSection()
    data: DataSection
    topology: TopologySection
    learning: LearningSection = LearningSection()
    clock: ClockSection = ClockSection()
    privacy: PrivacySection = PrivacySection()
    eavesdropper: EavesdropperSection = EavesdropperSection()
    network: NetworkSection = NetworkSection()
    event: list[EventSection] = Field(default_factory=list)

    @property
    def private(self) -> bool:
        """Whether releases are noised."""
        return self.privacy.mechanism != "none"

    @property
    def encrypted(self) -> bool:
        """Whether only those who hold a key of the run can listen or speak."""
        network = self.network
        if network.encryption is not None:
            return network.encryption
        return network.transport == "tcp" and not _on_this_machine(network.host)


def _on_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


# --- reading -----------------------------------------------------------------------------------------------------


def load(path: Path | str, overrides: Sequence[str] = (), scenario: Path | None = None) -> Configuration:
    """The configuration in the TOML file ``path``, with ``section.key=value`` overrides.

    ``scenario`` is a TOML file with the same ``[network]`` and ``[[event]]`` tables, laid over the configuration's.

    Defaults that depend on other settings are filled in; paths of data and graph are made absolute (found from the
    current folder, else from the file's). Raises `ConfigurationError`.
    """
    path = Path(path)
    table = _read_table(path, "configuration")
    if scenario is not None:
        _lay_over(table, _read_table(scenario, "--scenario"), scenario)
    for override in overrides:
        set_value(table, override)
    return from_table(table, name=path.stem, folder=path.parent)


def _read_table(path: Path, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror or error}; give a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{what} {path} is not TOML: {error}") from None


def _lay_over(table: dict[str, Any], scenario: Mapping[str, Any], path: Path) -> None:
    """Put a scenario's network settings in the place of the configuration's, and its events after them."""
    for section in scenario:
        if section not in ("network", "event"):
            raise ConfigurationError(f"--scenario {path}: has a section [{section}]; accepted are network and event")
    table["network"] = {**table.get("network", {}), **scenario.get("network", {})}
    table["event"] = [*table.get("event", []), *scenario.get("event", [])]


def from_table(table: Mapping[str, Any], *, name: str = "run", folder: Path | None = None) -> Configuration:
    """The configuration in a table; ``name`` and ``folder`` stand for the file that it would have come from."""
    try:
        configuration = Configuration.model_validate(table)
    except ValidationError as error:
        raise ConfigurationError(_one_line(error)) from None
    configuration = _resolved(configuration, name, folder)
    for rule in RULES:
        complaint = rule(configuration)
        if complaint:
            raise ConfigurationError(complaint)
    return configuration


def set_value(table: dict[str, Any], override: str) -> None:
    """Set one ``section.key=value`` in place; the value is TOML, or else a bare string."""
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or len(parts) < 2 or not all(parts):
        raise ConfigurationError(f"--set {override}: should be section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigurationError(f"--set {override}: {part} is not a section")
    table[parts[-1]] = value


def _resolved(configuration: Configuration, name: str, folder: Path | None) -> Configuration:
    run, data, topology, learning = (
        configuration.run,
        configuration.data,
        configuration.topology,
        configuration.learning,
    )
    if not run.name:
        run = run.model_copy(update={"name": name})
    if data.path is not None:
        data = data.model_copy(update={"path": _absolute(str(data.path), folder)})
    if topology.path is not None:
        topology = topology.model_copy(update={"path": _absolute(topology.path, folder)})
    privacy = configuration.privacy
    if privacy.budgets is not None:
        privacy = privacy.model_copy(update={"budgets": _absolute(privacy.budgets, folder)})
    if learning.smoothness is None:
        learning = learning.model_copy(update={"smoothness": "bound" if configuration.private else "data"})
    if learning.finish and learning.finish_mu is None and learning.mu is not None:
        learning = learning.model_copy(update={"finish_mu": learning.mu})
    resolved = {"run": run, "data": data, "topology": topology, "learning": learning, "privacy": privacy}
    return configuration.model_copy(update=resolved)


def _absolute(path: str, folder: Path | None) -> str:
    here = Path(path).expanduser()
    if not here.exists() and not here.is_absolute() and folder is not None and (folder / here).exists():
        here = folder / here
    return str(here.absolute())


# --- errors in one line --------------------------------------------------------------------------------------------


def _one_line(error: ValidationError) -> str:
    # An unknown setting comes first: it often explains the others.
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    line = _line(problems[0])
    return line if len(problems) == 1 else f"{line} (and {len(problems) - 1} more)"


def _line(problem: Any) -> str:
    location = [str(part) for part in problem["loc"]]
    setting = ".".join(location)
    if problem["type"] == "extra_forbidden":
        return _unknown(location)
    if problem["type"] == "missing":
        return f"{setting} is missing; {_accepted(location)}"
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if not location:
        return message
    if len(location) == 1 and problem["type"] == "value_error":
        return message if message.startswith(setting) else f"[{setting}] {message}"
    return f"{setting} = {shown(problem['input'])}: {message}"


def _unknown(location: list[str]) -> str:
    setting = ".".join(location)
    if len(location) == 1:
        known = list(Configuration.model_fields)
        prefix, kind = "", "section"
    else:
        known = list(_section_type(*location[:-1]).model_fields)
        prefix, kind = f"{'.'.join(location[:-1])}.", "setting"
    nearest = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.5)
    hint = f"did you mean {prefix}{nearest[0]}?" if nearest else f"known: {', '.join(known)}"
    if not nearest and kind == "setting":
        owners = [name for name in Configuration.model_fields if location[-1] in _fields(name)]
        hint = f"did you mean {owners[0]}.{location[-1]}?" if owners else hint
    return f"{setting} is not a known {kind}; {hint}"


def _section_type(*location: str) -> type[BaseModel]:
    """The section, or the table within one, at a location such as ("network", "burst") or ("event", "0")."""
    here: type[BaseModel] = Configuration
    for name in location:
        if name.isdigit():
            continue
        annotation = here.model_fields[name].annotation if name in here.model_fields else None
        tables = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
        here = next((kind for kind in tables if issubclass(kind, BaseModel)), Section)
    return here


def _fields(name: str) -> set[str]:
    return set(_section_type(name).model_fields)


def _accepted(location: list[str]) -> str:
    if len(location) == 1:
        return f"the section [{location[0]}] must be there"
    if location == ["topology", "kind"]:
        return f"it should be one of {', '.join(TOPOLOGIES)}, or package.module:function"
    fields = _section_type(*location[:-1]).model_fields
    annotation = fields[location[-1]].annotation if location[-1] in fields else None
    values = getattr(annotation, "__args__", ())
    if values and all(isinstance(value, str) for value in values):
        return f"it should be one of {', '.join(values)}"
    return f"it belongs in the section [{'.'.join(location[:-1])}]"


def shown(value: Any) -> str:
    """A value as an error shows it: in TOML where it can be, and never long."""
    try:
        text = _toml_value(value)
    except TypeError:
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# --- what fits together ----------------------------------------------------------------------------------------------


def _simulation_has_a_seed(c: Configuration) -> str | None:
    if c.run.simulation and c.run.seed is None:
        return "run.simulation = true: needs run.seed, from which it draws the noise"
    return None


def _loss_is_known(c: Configuration) -> str | None:
    try:
        loss(c.learning.loss)
    except LossError as error:
        return str(error)
    return None


def _algorithm_is_known(c: Configuration) -> str | None:
    try:
        algorithm(c.learning.algorithm)
    except AlgorithmError as error:
        return str(error)
    return None


def _mechanism_is_known(c: Configuration) -> str | None:
    try:
        NORMS.get(c.privacy.mechanism)
    except MechanismError as error:
        return str(error)
    return None


def _algorithm_has_its_weight(c: Configuration) -> str | None:
    if algorithm(c.learning.algorithm).needs_mu and c.learning.mu is None:
        return f"learning.mu is missing: {c.learning.algorithm} needs a number greater than 0"
    return None


def _finish_has_a_weight(c: Configuration) -> str | None:
    chosen = algorithm(c.learning.algorithm)
    weight = chosen.finish_weight
    if c.learning.finish and weight is not None and not getattr(c.learning, weight):
        needed = "learning.finish_mu or learning.mu" if weight == "finish_mu" else f"learning.{weight}"
        return f"learning.finish = true: {chosen.name} needs {needed}, a number greater than 0"
    return None


def _mechanism_has_a_budget(c: Configuration) -> str | None:
    privacy = c.privacy
    if not c.private:
        for key in ("epsilon", "delta"):
            if getattr(privacy, key) is not None:
                return (
                    f'privacy.mechanism = "none": it would ignore privacy.{key} = {shown(getattr(privacy, key))}; '
                    "name a mechanism (laplace, gaussian, gamma-norm) or remove the budget"
                )
        return None
    if privacy.epsilon is None:
        return f'privacy.epsilon is missing: mechanism "{privacy.mechanism}" needs a number greater than 0'
    if privacy.delta is None and privacy.mechanism == "gaussian":
        return 'privacy.delta is missing: mechanism "gaussian" needs a number between 0 and 1'
    if privacy.clip is None and algorithm(c.learning.algorithm).needs_clip:
        return f'privacy.clip is missing: mechanism "{privacy.mechanism}" needs a bound greater than 0 on each gradient'
    return None


def _own_budgets_come_from_one_place(c: Configuration) -> str | None:
    privacy = c.privacy
    if privacy.budgets is None and privacy.levels is None:
        return None
    if not c.private:
        return 'privacy.mechanism = "none": it would ignore privacy.budgets and privacy.levels; name a mechanism'
    if privacy.budgets is not None and privacy.levels is not None:
        return "privacy.budgets and privacy.levels both say who has which budget: keep one of them"
    if any(len(level) != 2 for level in privacy.levels or []):
        return f"privacy.levels = {shown(privacy.levels)}: each should be [share of the agents, epsilon]"
    return None


def _allocation_has_a_rate(c: Configuration) -> str | None:
    if c.privacy.allocation != "uniform" and c.privacy.r is None:
        return f'privacy.r is missing: allocation "{c.privacy.allocation}" needs a rate in (0, 1]'
    return None


def _smoothness_is_public(c: Configuration) -> str | None:
    if c.private and c.learning.smoothness == "data":
        return (
            'learning.smoothness = "data": in a private run it would leak the features outside of epsilon; '
            'use "bound", "feature-law" or a public number'
        )
    return None


def _start_is_public(c: Configuration) -> str | None:
    for key, value in (("start", c.learning.start), ("anchor", c.learning.anchor)):
        if c.private and value == "local":
            return f'learning.{key} = "local": a private run would release unprotected local models; leave it out'
    return None


def _centring_is_public(c: Configuration) -> str | None:
    if c.private and c.data.centring == "user-mean" and not c.data.as_published:
        return (
            'data.centring = "user-mean": in a private run it puts every record into every other, so epsilon would be '
            'false; use "none", or data.as_published = true to reproduce the figures'
        )
    return None


def _masks_can_be_made(c: Configuration) -> str | None:
    if c.learning.aggregation == "masked-sum" and importlib.util.find_spec("cryptography") is None:
        return (
            'learning.aggregation = "masked-sum": agents agree on masks with the package cryptography, which is not '
            'installed; install sottovoce with the extra "secure", or use "flood" or "push-sum"'
        )
    return None


def _graph_has_its_file(c: Configuration) -> str | None:
    if c.topology.kind == "file" and c.topology.path is None:
        return 'topology.path is missing: kind "file" needs a graph file'
    if c.topology.kind != "file" and c.topology.path is not None:
        return f'topology.path = {shown(c.topology.path)}: only kind = "file" reads a file, not "{c.topology.kind}"'
    return None


def _similarity_settings_are_used(c: Configuration) -> str | None:
    used = {"angle-similarity": {"gamma", "threshold"}, "nearest-neighbours": {"neighbours"}, "file": {"path"}}
    section = c.topology
    if section.kind not in used:
        return None
    for key, value in section.model_dump(exclude={"kind", "seed"}, exclude_none=True).items():
        if key not in used[section.kind]:
            accepted = ", ".join(sorted(used[section.kind]))
            return f'topology.{key} = {shown(value)}: not used by kind "{section.kind}", which takes {accepted}'
    return None


def _events_end(c: Configuration) -> str | None:
    for number, event in enumerate(c.event):
        if event.fault in ("partition", "pause") and ending(c.event, number) is None:
            return f'event.{number}.fault = "{event.fault}": needs lasting, or a later event with fault = "heal"'
        if event.fault == "kill" and event.restart is None and c.network.on_silent == "wait" and _in_rounds(c):
            return (
                f'event.{number}.fault = "kill": without restart everybody waits for ever in rounds; give restart, or '
                'network.on_silent = "stop" or "carry-on"'
            )
    longest = outage(c.event)
    if longest > 0 and c.network.linger <= longest:
        return (
            f"network.linger = {c.network.linger:g}: an event lasts {longest:g} s, and who has finished "
            "must wait longer than that for its neighbours"
        )
    return None


def _members_can_change(c: Configuration) -> str | None:
    last = 0.0
    for number, event in enumerate(c.event):
        if event.fault not in ("join", "leave"):
            continue
        if event.fault not in algorithm(c.learning.algorithm).events:
            able = ", ".join(f'"{name}"' for name in KNOWN if event.fault in algorithm(name).events)
            return (
                f'event.{number}.fault = "{event.fault}": agents of "{c.learning.algorithm}" are all there from the '
                f"start to the end; accepted with learning.algorithm = {able}"
            )
        if event.fault == "join":
            last = max(last, event.at + (event.lasting or 0.0))
    if last > 0 and c.network.linger <= last:
        return (
            f"network.linger = {c.network.linger:g}: an agent joins after {last:g} s, and who has finished must wait "
            "longer than that for its neighbours"
        )
    return None


def _carried_on(c: Configuration) -> str | None:
    kind = algorithm(c.learning.algorithm)
    repaired = c.learning.aggregation == "masked-sum" and c.privacy.dropouts > 0
    if c.network.on_silent == "carry-on" and _in_rounds(c) and not (repaired or kind.carries_on):
        return f'network.on_silent = "carry-on": {kind.name} needs every release of a round; accepted: "wait", "stop"'
    return None


def _only_tcp_is_encrypted(c: Configuration) -> str | None:
    if c.network.encryption and c.network.transport != "tcp":
        return (
            f'network.encryption = true: sockets of network.transport = "{c.network.transport}" never leave this '
            'machine and have no keys; use transport = "tcp", or leave encryption out'
        )
    return None


def _in_rounds(c: Configuration) -> bool:
    return algorithm(c.learning.algorithm).activation is Activation.ROUNDS


RULES: tuple[Callable[[Configuration], str | None], ...] = (
    _simulation_has_a_seed,
    _loss_is_known,
    _algorithm_is_known,
    _mechanism_is_known,
    _algorithm_has_its_weight,
    _finish_has_a_weight,
    _mechanism_has_a_budget,
    _own_budgets_come_from_one_place,
    _allocation_has_a_rate,
    _smoothness_is_public,
    _start_is_public,
    _centring_is_public,
    _masks_can_be_made,
    _graph_has_its_file,
    _similarity_settings_are_used,
    _events_end,
    _members_can_change,
    _carried_on,
    _only_tcp_is_encrypted,
)


# --- writing -----------------------------------------------------------------------------------------------------


def dump(configuration: Configuration) -> str:
    """The configuration as TOML, defaults filled in; settings that are not set are left out."""
    lines: list[str] = []
    for name, section in configuration.model_dump(mode="json", by_alias=True).items():
        if name == "event":
            for event in section:
                lines += ["[[event]]", *_entries(event), ""]
        else:
            lines += [f"[{name}]", *_entries(section), ""]
    return "\n".join(lines)


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in table.items() if value is not None]


def _toml_key(key: str) -> str:
    bare = key != "" and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        # json escapes what TOML's basic strings escape; DEL is the one character that only TOML forbids.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(str(key))} = {_toml_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(pairs) + "}"
    raise TypeError(f"a {type(value).__name__} has no form in TOML")


# --- the public part -------------------------------------------------------------------------------------------------


def public_part(configuration: Configuration) -> dict[str, Any]:
    """What all agents must agree on and anybody may read: no paths, no names, no seeds, nothing of one machine."""
    document = configuration.model_dump(mode="json")
    data = {key: document["data"][key] for key in ("source", "row_scaling", "centring", "as_published")}
    topology = {key: value for key, value in document["topology"].items() if key not in {"path", "seed"}}
    return {
        "data": data,
        "topology": topology,
        "learning": document["learning"],
        "clock": document["clock"],
        "privacy": document["privacy"],
    }


def dump_public(configuration: Configuration) -> str:
    """The public part as TOML: what a traffic log carries."""
    return "\n".join(
        "\n".join([f"[{name}]", *_entries(section), ""]) for name, section in public_part(configuration).items()
    )


def public_digest(configuration: Configuration, topology: str = "") -> bytes:
    """32 bytes that agents compare in their ``hello``: over the public part and the graph's digest."""
    document = {"public": public_part(configuration), "topology": topology}
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).digest()
