"""The page of an audit: one HTML file that needs nothing else, in light and dark, on screens of any width.

Rules that hold here:
- It holds figures of attacks on local data, so it is for its owner only, as ``audit.json`` is.
- It says what was shown, and what no audit shows.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Final

from coordinator_free.attacks.trade_off import Curve, TradeOff
from node.audit.report import AgentAudit, Audit

STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2933;--muted:#52606d;--line:#cbd2d9;--page:#fff;--least:#1f77b4;
--attack:#b8324a;--good:#2f6f4f}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--muted:#9aa5b1;--line:#3e4c59;--page:#12171d;--least:#6cb2e6;
--attack:#f0788c;--good:#7cc79b}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:74rem;margin:2rem auto;
padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.note,dd{color:var(--muted)}
p,dl{max-width:62rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem}dd{margin:0}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .9rem .25rem 0;text-align:right;vertical-align:top;white-space:nowrap}
th:first-child,td:first-child{position:sticky;left:0;background:var(--page)}
td:last-child,th:last-child{text-align:left;white-space:normal;min-width:21rem}th{border-bottom:1px solid var(--line)}
.bad{color:var(--attack)}.good{color:var(--good)}
figure{margin:1rem 0;display:flex;flex-wrap:wrap;gap:1rem 2rem;align-items:center}
svg{width:100%;max-width:30rem;height:auto}figcaption{color:var(--muted);flex:1 1 16rem;max-width:26rem}
text{fill:var(--ink);font-size:11px}.grid{stroke:var(--line)}
.least{stroke:var(--least)}.attack{stroke:var(--attack)}.never{fill:var(--least);opacity:.15}
polyline{fill:none;stroke-width:2.5}.key{display:inline-block;width:1.2rem;margin-bottom:.25rem;border-top:3px solid}
@media(max-width:40rem){th,td{padding-right:.6rem;font-size:.85rem}dl{font-size:.85rem}}
"""

_SIDE: Final = 300
"""Of the square in which a trade-off is drawn."""
_COLUMNS: Final[Mapping[str, str]] = {
    "agent": "its number",
    "accounted": "its epsilon is at most this, by the charges of its ledger",
    "if charged": "its epsilon is at least this, if the noise has the law that was charged",
    "attacked": "its epsilon is at least this, whatever the noise is",
    "attained": "the part of the charged sensitivity that the replaced record uses",
    "possible": "the largest part that a record of any value uses in one release; asked of a few agents",
    "trials": "runs on each of the two datasets that the figures rest on",
    "budget": "the epsilon that the configuration allows",
    "power": "what so many trials show whatever the noise is, and why they show no more",
}


def audit_page(audit: Audit) -> bytes:
    """The page."""
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>Audit of {html.escape(audit.name)}</title><style>{STYLE}</style>",
        f"<h1>Audit of {html.escape(audit.name)}</h1>",
        f"<p>One record: {html.escape(audit.record)}. Delta {audit.delta:.3g}.</p>",
        _verdict(audit),
        "<h2>What was shown, and what was not</h2>",
        *(f"<p>{html.escape(line)}</p>" for line in sentences(audit)),
    ]
    curves = [agent.trade_off for agent in audit.agents if agent.trade_off is not None]
    parts += ["<h2>Errors of the attack</h2>", *map(_figure, curves)] if curves else []
    parts += ["<h2>Each agent</h2>", _legend(), _table(audit.agents)]
    if audit.notes:
        parts += ["<h2>Notes</h2>", *(f'<p class="note">{html.escape(note)}</p>' for note in audit.notes)]
    return "\n".join([*parts, "</html>"]).encode()


def sentences(audit: Audit) -> list[str]:
    """What the audit showed, and what it did not."""
    told = []
    tried = [agent for agent in audit.agents if agent.attacked is not None]
    if tried:
        sharp = [agent.attacked_if_charged for agent in tried if agent.attacked_if_charged is not None]
        better = f", and of at least {max(sharp):.2f} if the noise has the law that was charged" if sharp else ""
        told.append(
            f"Shown: {len(tried)} of {len(audit.agents)} agents were attacked. The best attack shows an epsilon of at "
            f"least {max(agent.attacked or 0.0 for agent in tried):.2f} whatever the noise is{better}; each figure "
            f"holds with {tried[0].confidence:.0%} confidence for its agent."
        )
    accounted = [agent.accounted for agent in audit.agents if agent.accounted is not None]
    if accounted:
        told.append(
            f"Claimed: an epsilon of at most {max(accounted):.2f}, by the charges of the ledgers. An attack can refute "
            "that, and never confirm it."
        )
    scale = next((test.detail for test in audit.noise.tests if test.name == "scale of all"), "")
    if scale:
        told.append(f"Tested: the noise of {audit.noise.releases} releases. Its scale: {scale}.")
    told.append(
        "Not shown: that no better attack exists, and that smaller deviations are absent. Nothing here is about the "
        "times of releases, or about models that were never released."
    )
    return told


def _verdict(audit: Audit) -> str:
    if audit.ok:
        return '<p class="good"><b>No finding.</b></p>'
    lines = "".join(f"<li>{html.escape(finding)}</li>" for finding in audit.findings)
    return f'<p class="bad"><b>Findings: {len(audit.findings)}</b></p><ul class="bad">{lines}</ul>'


def _legend() -> str:
    told = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in _COLUMNS.items() if name != "agent")
    return f"<dl>{told}</dl>"


def _table(agents: Sequence[AgentAudit]) -> str:
    heads = "".join(f"<th>{head}</th>" for head in _COLUMNS)
    rows = []
    for agent in agents:
        cells = [str(agent.agent), *map(_number, (agent.accounted, agent.attacked_if_charged, agent.attacked))]
        cells += ["-" if share is None else f"{share:.0%}" for share in (agent.attained, agent.attainable)]
        cells += [str(agent.trials) if agent.trials else "-", _number(agent.budget), html.escape(agent.why)]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<div class="wide"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _figure(curve: TradeOff) -> str:
    """A trade-off as a picture: type I error to the right, type II error upwards."""
    grid = "".join(_grid(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    least, attack, middle = _points(curve.accountant), _points(curve.attack), _SIDE / 2
    what = f"Errors of the attack on {html.escape(curve.mechanism)} noise"
    drawn = (
        f'<svg viewBox="-48 -10 {_SIDE + 66} {_SIDE + 50}" role="img" aria-label="{what}">{grid}'
        f'<polygon class="never" points="0,{_SIDE} {least} {_SIDE},{_SIDE}"/>'
        f'<polyline class="least" points="{least}"/><polyline class="attack" points="{attack}"/>'
        f'<text x="{middle}" y="{_SIDE + 34}" text-anchor="middle">type I error: the record is taken for its '
        'replacement</text><text transform="'
        f'translate(-38 {middle}) rotate(-90)" text-anchor="middle">type II error: the replacement '
        "is taken for the record</text></svg>"
    )
    told = (
        f"Noise: {html.escape(curve.mechanism)}; {curve.agents} agents together.<br>{_key('attack')} errors of the "
        f"attacks in their trials.<br>{_key('least')} the smallest errors that the accountant allows: if the claim is "
        "true, no attack reaches into the shaded part, but by the chance of its trials."
    )
    return f"<figure>{drawn}<figcaption>{told}</figcaption></figure>"


def _grid(share: float) -> str:
    at, up = round(share * _SIDE), round((1.0 - share) * _SIDE)
    return (
        f'<path class="grid" d="M{at} 0V{_SIDE}M0 {up}H{_SIDE}"/>'
        f'<text x="{at}" y="{_SIDE + 16}" text-anchor="middle">{share:g}</text>'
        f'<text x="-8" y="{up + 4}" text-anchor="end">{share:g}</text>'
    )


def _key(line: str) -> str:
    return f'<span class="key" style="border-color:var(--{line})"></span>'


def _points(curve: Curve) -> str:
    return " ".join(f"{x * _SIDE:.1f},{(1.0 - y) * _SIDE:.1f}" for x, y in curve)
