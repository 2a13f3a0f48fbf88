"""What fits together in a configuration: each rule returns a complaint of one line, or None."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from coordinator_free.agent import Activation
from coordinator_free.agents.averages.arrangement import MASKED
from coordinator_free.agents.registry import KNOWN, algorithm
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.mechanism import MechanismError
from coordinator_free.problem.losses import LOSSES, LossError, loss
from coordinator_free.problem.own_loss import check_own_loss
from node.configuration.events import ending, outage
from node.configuration.refusals import shown
from node.configuration.sections import Configuration
from node.plug_ins import message_of


def _simulation_has_a_seed(c: Configuration) -> str | None:
    if c.run.simulation and c.run.seed is None:
        return "run.simulation = true: needs run.seed, from which it draws the noise"
    return None


def _loss_is_known(c: Configuration) -> str | None:
    try:
        found = loss(c.learning.loss)
        if c.learning.loss not in LOSSES:
            check_own_loss(found)
    except LossError as error:
        return message_of(error)
    return None


def _mechanism_is_known(c: Configuration) -> str | None:
    try:
        NORMS.get(c.privacy.mechanism)
    except MechanismError as error:
        return str(error)
    return None


def _loss_is_convex(c: Configuration) -> str | None:
    chosen, judge = algorithm(c.learning.algorithm), loss(c.learning.loss)
    if chosen.needs_convex_loss and not judge.convex:
        return f'learning.loss = "{c.learning.loss}": {chosen.name} needs exact minimisers, and so a convex loss'
    return None


def _mechanism_is_accepted(c: Configuration) -> str | None:
    name, accepted = c.privacy.mechanism, algorithm(c.learning.algorithm).mechanisms
    if not c.private or accepted is None or name in accepted:
        return None
    others = {known: algorithm(known).mechanisms for known in KNOWN}
    able = ", ".join(known for known, families in others.items() if families is None or name in families)
    listed = ", ".join(f'"{family}"' for family in ("none", *accepted))
    return f'privacy.mechanism = "{name}": {c.learning.algorithm} accepts {listed}; "{name}" is accepted by {able}'


def _finish_has_a_weight(c: Configuration) -> str | None:
    chosen = algorithm(c.learning.algorithm)
    weight = chosen.finish_weight
    given = None if weight is None else c.learning.get(weight)
    if not c.learning.finish or weight is None or given or (given is None and chosen.finishes_by_evidence):
        return None
    more = ", or none: then evidence weighs the finish" if chosen.finishes_by_evidence else ""
    return f"learning.finish = true: {chosen.name} needs learning.{weight}, a number greater than 0{more}"


def _mechanism_has_a_budget(c: Configuration) -> str | None:
    privacy = c.privacy
    if not c.private:
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
    if privacy.budgets is not None and privacy.levels is not None:
        return "privacy.budgets and privacy.levels both give agents their budgets: keep one of them"
    if any(len(level) != 2 for level in privacy.levels or []):
        return f"privacy.levels = {shown(privacy.levels)}: each should be [share of the agents, epsilon]"
    return None


def _allocation_has_a_rate(c: Configuration) -> str | None:
    if c.privacy.allocation != "uniform" and c.privacy.r is None:
        return f'privacy.r is missing: allocation "{c.privacy.allocation}" needs a rate in (0, 1], or "theory"'
    return None


def _rate_has_a_theory(c: Configuration) -> str | None:
    if c.privacy.r != "theory" or algorithm(c.learning.algorithm).rate_is_known:
        return None
    able = ", ".join(name for name in KNOWN if algorithm(name).rate_is_known)
    return f'privacy.r = "theory": no theorem gives {c.learning.algorithm} a rate (used by {able}); give a number'


def _smoothness_is_public(c: Configuration) -> str | None:
    if c.private and c.learning.smoothness == "data":
        return (
            'learning.smoothness = "data": in a private run it would leak the features outside of epsilon; '
            'use "bound", "feature-law" or a public number'
        )
    return None


def _start_is_public(c: Configuration) -> str | None:
    for key, value in ((key, c.learning.get(key)) for key in ("start", "anchor")):
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
    way = c.learning.get("aggregation")
    if way in MASKED and importlib.util.find_spec("cryptography") is None:
        return (
            f'learning.aggregation = "{way}": agents agree on masks with the package cryptography, which is not '
            'installed; install sottovoce with the extra "secure", or use "flood", "tree" or "push-sum"'
        )
    return None


def _graph_has_its_file(c: Configuration) -> str | None:
    if c.topology.kind == "file" and c.topology.path is None:
        return 'topology.path is missing: kind "file" needs a graph file'
    if c.topology.kind != "file" and c.topology.path is not None:
        return f'topology.path = {shown(c.topology.path)}: only kind = "file" reads a file, not "{c.topology.kind}"'
    return None


def _profiles_are_charged(c: Configuration) -> str | None:
    if c.topology.kind != "private-similarity":
        return None
    asked = 'topology.kind = "private-similarity"'
    if not c.private or not algorithm(c.learning.algorithm).needs_clip:
        able = ", ".join(name for name in KNOWN if algorithm(name).needs_clip and algorithm(name).mechanisms != ())
        return f"{asked}: its profiles are clipped and noised; accepted in a private run of {able}"
    if c.privacy.observer != "releases":
        return f'{asked}: an observer sees each profile; accepted with privacy.observer = "releases"'
    if c.topology.share is None:
        return f"topology.share is missing: {asked} needs the part of each agent's budget, a number between 0 and 1"
    return None


def _events_end(c: Configuration) -> str | None:
    for number, event in enumerate(c.event):
        if event.fault in ("partition", "pause") and ending(c.event, number) is None:
            return f'event.{number}.fault = "{event.fault}": needs lasting, or a later event with fault = "heal"'
        if event.fault == "kill" and event.restart is None and c.network.on_silent == "wait" and _in_rounds(c):
            return (
                f'event.{number}.fault = "kill": without restart all agents wait for ever in rounds; give restart, or '
                'network.on_silent = "stop" or "carry-on"'
            )
    longest = outage(c.event)
    if longest > 0 and c.network.linger <= longest:
        return (
            f"network.linger = {c.network.linger:g}: an event lasts {longest:g} s, and an agent that has finished "
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
            f"network.linger = {c.network.linger:g}: an agent joins after {last:g} s, and an agent that has finished "
            "must wait longer than that for its neighbours"
        )
    return None


def _records_can_arrive(c: Configuration) -> str | None:
    if not c.data.records_arrive:
        return None
    share, column = c.data.arriving, c.data.arriving_column
    name, asked = ("arriving_column", repr(column)) if share is None else ("arriving", f"{share:g}")
    asked = f"data.{name} = {asked}"
    if not algorithm(c.learning.algorithm).takes_arrivals:
        able = ", ".join(f'"{name}"' for name in KNOWN if algorithm(name).takes_arrivals)
        return (
            f'{asked}: agents of "{c.learning.algorithm}" use all their records from the start; accepted with '
            f"learning.algorithm = {able}"
        )
    if c.topology.kind == "private-similarity":
        return (
            f'{asked}: topology.kind = "private-similarity" makes profiles of all records before the run; use another'
        )
    if c.audit.canaries:
        return f"{asked}: audit.canaries = {c.audit.canaries} are judged by releases that all use them; use one of both"
    if c.learning.get("start") == "local":
        return f'{asked}: learning.start = "local" is made of all records before they arrive; use "zero"'
    if c.clock.updates < 2:
        return f"clock.updates = {c.clock.updates}: with data.{name} at least 2, so that a record can arrive later"
    return None


def _uses_fit(c: Configuration) -> str | None:
    uses, updates = c.privacy.uses, c.clock.updates
    if uses is None or not c.data.records_arrive or not c.private:
        return None
    if uses > updates:
        return f"privacy.uses = {uses}: an agent makes clock.updates = {updates} releases; accepted are 1 to {updates}"
    if uses < updates and c.privacy.allocation != "uniform":
        return (
            f"privacy.uses = {uses}: the releases that use a record differ from record to record, so all have the same "
            f'noise; use privacy.allocation = "uniform", or uses = {updates}'
        )
    return None


def _carried_on(c: Configuration) -> str | None:
    kind = algorithm(c.learning.algorithm)
    repaired = c.learning.get("aggregation") == "masked-sum" and c.privacy.dropouts > 0
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


def _canaries_can_be_judged(c: Configuration) -> str | None:
    if not c.audit.canaries:
        return None
    given, name = f"audit.canaries = {c.audit.canaries}", c.learning.algorithm
    if name not in KNOWN:
        return f"{given}: nothing is known of what {name} does with them; accepted with {', '.join(KNOWN)}"
    from coordinator_free.attacks.canaries import refusal  # with scipy, which an eavesdropper starts without

    why = refusal(algorithm(name), c.learning.given(), c.privacy.mechanism)
    return None if why is None else f"{given}: {why}"


def _in_rounds(c: Configuration) -> bool:
    return algorithm(c.learning.algorithm).activation is Activation.ROUNDS


RULES: tuple[Callable[[Configuration], str | None], ...] = (
    _simulation_has_a_seed,
    _loss_is_known,
    _mechanism_is_known,
    _loss_is_convex,
    _mechanism_is_accepted,
    _finish_has_a_weight,
    _mechanism_has_a_budget,
    _own_budgets_come_from_one_place,
    _allocation_has_a_rate,
    _rate_has_a_theory,
    _smoothness_is_public,
    _start_is_public,
    _centring_is_public,
    _masks_can_be_made,
    _graph_has_its_file,
    _profiles_are_charged,
    _events_end,
    _members_can_change,
    _records_can_arrive,
    _uses_fit,
    _carried_on,
    _only_tcp_is_encrypted,
    _canaries_can_be_judged,
)
