"""``sottovoce audit``: what a run cost by its ledgers, beside what attacks on its traffic achieve."""

from __future__ import annotations

import json
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.folder.manifest import RunFolderError
from node.folder.whole import write_whole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

if TYPE_CHECKING:
    from node.audit.report import Audit, CaptureReport, NoiseReport, ObserverReport

_ROWS = 20
ADVERSARIAL = "adversarial"
TRIALS = 1000
WORST = "worst"


def audit(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)] = None,
    trials: Annotated[int, typer.Option(help="Runs on each dataset that a bound rests on.")] = TRIALS,
    confidence: Annotated[float, typer.Option(help="Confidence of each lower bound.")] = 0.95,
    agent: Annotated[list[int] | None, typer.Option(help="Attack only this agent; repeatable.")] = None,
    record: Annotated[str, typer.Option(help="The record to replace: worst, its number, or adversarial.")] = WORST,
    observer: Annotated[
        str | None, typer.Option("--as", metavar="agent:K", help="Attack as agent K, with its received frames only.")
    ] = None,
    self_test: Annotated[bool, typer.Option("--self-test", help="Test the auditor on runs with known faults.")] = False,
    faults: Annotated[
        bool, typer.Option("--faults", help="With --self-test: also put faults into copies of the programs; minutes.")
    ] = False,
    log: Annotated[
        list[Path] | None, typer.Option(help="Audit from this traffic log, without a shard; repeatable.")
    ] = None,
    coins: Annotated[Path | None, typer.Option(help="With --log: the coins of the run's canaries.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare the accounted with the attacked epsilon of every agent.

    An audit checks the capture, the ledgers and the noise, and attacks each agent's records on the recorded traffic. It
    writes audit.json, audit.html and audit.png into the run's folder. Exit status 1 on any finding. With --as agent:K
    it attacks as agent K does, and writes audit-as-K.json, .html and .png instead. With --log and --coins it judges
    the canaries of a run (audit.canaries) from its traffic log alone, and writes nothing.

    Example: sottovoce audit runs/schools --trials 2000
    """
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    if self_test:
        _self_test(console, faults=faults, as_json=as_json)
        return
    if faults:
        raise ValueError("--faults: belongs to --self-test")
    if log or coins is not None:
        from node.commands.canaries import audit_from_outside, unused

        idle = unused({"RUN": run, "--agent": agent, "--as": observer}, record=record, trials=trials)
        audit_from_outside(console, log or [], coins, confidence, idle, as_json=as_json)
        return
    if run is None:
        raise ValueError("audit needs a run's folder, --log and --coins, or --self-test")
    from node.audit.auditor import audit as examine

    with Console(stderr=True).status(f"auditing {run} ..."):
        found = examine(
            run,
            trials=trials,
            confidence=confidence,
            agents=agent or (),
            record=None if record == ADVERSARIAL else _record(record),
            adversarial=record == ADVERSARIAL,
            observer=_observer(observer),
        )
    _write(run, found)
    if as_json:
        print(json.dumps(found.to_json(), indent=1, allow_nan=False))
    else:
        show(found, run, console)
    if not found.ok:
        raise typer.Exit(1)


def _record(text: str) -> int | None:
    from node.audit.report import AuditError

    if text == WORST:
        return None
    try:
        return int(text)
    except ValueError:
        raise AuditError(f"--record {text}: accepted are worst, {ADVERSARIAL}, or the number of a record") from None


def _observer(text: str | None) -> int | None:
    from node.audit.report import AuditError

    if text is None:
        return None
    kind, _, number = text.partition(":")
    if kind != "agent" or not number.isdecimal():
        raise AuditError(f"--as {text}: accepted is agent:K, K the number of an agent")
    return int(number)


def _write(run: Path, found: Audit) -> None:
    """``audit.json`` holds attacks on local data, so it is for its owner only."""
    from node.audit.page import audit_page
    from node.audit.picture import audit_figure
    from node.drawing import drawable, png
    from node.results.report import report_of

    name = "audit" if found.observer is None else f"audit-as-{found.observer.agent}"
    write_whole(run / f"{name}.json", (json.dumps(found.details(), indent=1, allow_nan=False) + "\n").encode())
    write_whole(run / f"{name}.html", audit_page(found))
    figure = audit_figure(found) if drawable() else None
    if figure is not None:
        write_whole(run / f"{name}.png", png(figure))
    if found.observer is None and (run / "report.html").exists():
        with suppress(RunFolderError):  # the audit stands where the run's results can no longer be read
            write_whole(run / "report.html", report_of(run))


def show(found: Audit, run: Path, console: Console) -> None:
    """The audit as a table and a few lines."""
    from rich.markup import escape
    from rich.table import Table

    seen = (
        "" if found.observer is None else f" as agent {found.observer.agent}, which receives its neighbours' releases"
    )
    console.print(f"[bold]Audit of {escape(found.name)}[/]{seen} (one record: {escape(found.record)})\n")
    parts = Table(box=None, show_header=False, pad_edge=False)
    parts.add_column(style="bold")
    parts.add_column()
    parts.add_row("capture", capture_in_words(found.capture))
    parts.add_row("ledger", _verdict(found.ledger.ok, f"{found.ledger.charged} indices charged"))
    parts.add_row("noise", noise_in_words(found.noise))
    for name, text in _others(found):
        parts.add_row(name, text)
    console.print(parts)
    console.print()
    console.print(_agents(found) if found.observer is None else _agents_seen(found, found.observer))
    for line in _summary(found) + ([] if found.observer is None else _observed(found.observer)):
        console.print(line)
    for note in found.notes:
        console.print(f"[yellow]note[/]: {escape(note)}")
    for finding in found.findings[:_ROWS]:
        console.print(f"[red]finding[/]: {escape(finding)}")
    if len(found.findings) > _ROWS:
        console.print(f"and {len(found.findings) - _ROWS} more findings, in {escape(str(run / 'audit.json'))}")
    if found.ok:
        console.print("[green]no finding[/]")


def _verdict(ok: bool, text: str) -> str:
    return f"[green]ok[/], {text}" if ok else f"[red]failed[/], {text}"


def capture_in_words(capture: CaptureReport) -> str:
    """Whether all was recorded, in one line."""
    told = f"{capture.releases} releases, {capture.repeats} repeats"
    if capture.complete:
        return f"[green]complete[/], {told}"
    gaps = sum(len(ranges) for ranges in capture.missing.values())
    return f"[yellow]incomplete[/], {told}, {gaps} gaps in the releases of {len(capture.missing)} agents"


def noise_in_words(noise: NoiseReport) -> str:
    """What the tests of the noise came to, in one line."""
    if noise.releases == 0:
        return "[yellow]not tested[/], see the notes" if noise.not_tested else "nothing to test"
    scale = next((f"; scale {test.detail}" for test in noise.tests if test.name == "scale of all"), "")
    return _verdict(noise.ok, f"{noise.releases} releases inverted, p = {noise.p_value:.2g} over all tests{scale}")


def _others(found: Audit) -> list[tuple[str, str]]:
    rows = []
    if found.reconstruction is not None:
        rebuilt = found.reconstruction
        told = f"cosine {rebuilt.principal:.3f} on average (chance: 99% below {rebuilt.chance:.3f})"
        rows.append(("reconstruction", told))
    rows += _without_penalties(found)
    if found.membership is not None:
        members = found.membership
        told = (
            f"AUC {members.auc:.3f} (chance 0.5 ± {members.deviation:.3f}), "
            f"{members.true_positives:.1%} of members found at 1% false positives"
        )
        rows.append(("membership", told))
    if found.side_channels:
        most = found.side_channels[0]
        told = (
            "traffic is the same for all agents"
            if most.constant
            else f"most telling: {most.measure} with {most.data}, rank correlation {most.rho:+.2f}, "
            f"p = {most.corrected:.2g} corrected"
        )
        rows.append(("side channels", told))
    return rows


def _without_penalties(found: Audit) -> list[tuple[str, str]]:
    """What an observer finds that does not know the penalties (Zhang, Khalili and Liu 2018, section 6.2)."""
    rebuilt = [] if found.reconstruction is None else [one.without_penalties for _, one in found.reconstruction.agents]
    cosines = [cosine for cosine in rebuilt if cosine is not None]
    blind = [(a.attacked_without_penalties, a.attacked) for a in found.agents]
    shown = [(without, known) for without, known in blind if without is not None and known is not None]
    told = []
    if cosines:
        told.append(f"cosine {sum(cosines) / len(cosines):.6f} with a record on average")
    if shown:
        without, known = (sum(values) / len(shown) for values in zip(*shown, strict=True))
        told.append(
            f"attacked {without:.3f} on average where the penalties are fitted, {known:.3f} where they are known"
        )
    return [("penalties unknown", "; ".join(told))] if told else []


def _agents(found: Audit) -> Table:
    from rich.table import Table

    shown = [a for a in found.agents if a.attacked is not None or a.why != "not chosen"] or found.agents
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "budget", "accounted", "if charged", "attacked", "attained", "possible", "trials"):
        table.add_column(name, justify="right")
    table.add_column("why attacked is lower")
    for a in shown[:_ROWS]:
        table.add_row(
            str(a.agent),
            _number(a.budget),
            _number(a.accounted),
            _number(a.attacked_if_charged),
            _number(a.attacked),
            "-" if a.attained is None else f"{a.attained:.0%}",
            "-" if a.attainable is None else f"{a.attainable:.0%}",
            str(a.trials) if a.trials else "-",
            a.why,
        )
    if len(shown) > _ROWS:
        table.add_row(f"and {len(shown) - _ROWS} more", *[""] * 8)
    return table


def _agents_seen(found: Audit, observer: ObserverReport) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "hops", "accounted for an observer of all", f"towards agent {observer.agent}", "attacked"):
        table.add_column(name, justify="right")
    table.add_column("why")
    for a in found.agents:
        if a.agent != observer.agent and a.why != "not chosen":
            epsilon = observer.epsilons[a.agent] if observer.epsilons else None
            figures = (_number(value) for value in (a.accounted, epsilon, a.attacked))
            table.add_row(str(a.agent), str(observer.hops[a.agent]), *figures, a.why)
    return table


def _observed(observer: ObserverReport) -> list[str]:
    lines = ["not possible as this observer: " + "; ".join(observer.not_possible)]
    if observer.why:
        lines.append(f"no epsilon towards agent {observer.agent}: {observer.why}")
    else:
        lines.append(f"epsilon towards agent {observer.agent}: by {observer.by}; not the promise")
    return lines


def _summary(found: Audit) -> list[str]:
    lines = []
    accounted = [a.accounted for a in found.agents if a.accounted is not None]
    if accounted:
        accountants = sorted({a.accountant for a in found.agents if a.accountant})
        mean, by = sum(accounted) / len(accounted), ", ".join(accountants)
        lines.append(f"accounted: mean {mean:.3f}, max {max(accounted):.3f} at delta {found.delta:.3g} ({by})")
        lines += _groups(found)
    shown = [a.attacked for a in found.agents if a.attacked is not None]
    if shown:
        confidence = found.agents[0].confidence
        ceilings = [a.ceiling for a in found.agents if a.ceiling is not None]
        mean = sum(shown) / len(shown)
        lines.append(
            f"attacked{_of_all(found)}: mean {mean:.3f}, max {max(shown):.3f}, each with {confidence:.0%} confidence; "
            f"no attack can show more than {max(ceilings):.2f} with as many trials"
        )
    sharp = [(a.attacked_if_charged, a.bound) for a in found.agents if a.attacked_if_charged is not None]
    if sharp:
        values = [value for value, _ in sharp]
        shares = [value / by for value, by in sharp if by]
        of = f", {sum(shares) / len(shares):.0%} of accounted" if shares else ""
        lines.append(
            f"attacked if the noise has the law that was charged: mean {sum(values) / len(values):.3f}, "
            f"max {max(values):.3f}{of}"
        )
    return lines


def _groups(found: Audit) -> list[str]:
    """The largest epsilon over agents of each size of a group (Zhang and Zhu 2017, Corollaries 1.2 and 2.2)."""
    largest: dict[int, float] = {}
    for group in (group for agent in found.agents for group in agent.groups):
        epsilon = math.inf if group.epsilon is None else group.epsilon
        largest[group.records] = max(epsilon, largest.get(group.records, 0.0))
    shown = ", ".join(f"{epsilon:.3f} for {records}" for records, epsilon in largest.items())
    return [f"accounted for datasets that differ in several records of an agent: at most {shown}"] if shown else []


def _of_all(found: Audit) -> str:
    chosen = sum(a.why != "not chosen" for a in found.agents)
    return "" if chosen == len(found.agents) else f" ({chosen} of {len(found.agents)} agents; --agent chooses others)"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _self_test(console: Console, *, faults: bool, as_json: bool) -> None:
    from rich.console import Console
    from rich.markup import escape

    from coordinator_free.attacks.self_control import Control, controls
    from node.commands.documents import document_text

    found = controls()
    if faults:
        from node.audit.self_test import cases

        with Console(stderr=True).status("faults in copies of the programs ...") as status:
            for case in cases():
                found.append(Control(f"{case.task}: {case.name}", case.passed, case.finding or "no finding"))
                status.update(f"faults in copies of the programs: {len(found)} controls and faults so far ...")
    ok = all(control.passed for control in found)
    if as_json:
        print(document_text({"ok": ok, "controls": [vars(control) for control in found]}))
    else:
        for control in found:
            mark = "[green]ok[/]    " if control.passed else "[red]FAILED[/]"
            console.print(f"{mark} {escape(control.name)}: {escape(control.measured)}")
    if not ok:
        raise typer.Exit(1)
