"""What the picture of an audit shows: each agent's two figures, the budget, and what they mean."""

from __future__ import annotations

from node.audit.picture import audit_figure
from node.audit.report import AgentAudit, Audit, CaptureReport, LedgerReport, NoiseReport


def an_audit(*agents: AgentAudit) -> Audit:
    return Audit(
        name="run",
        record="one pupil",
        delta=1e-3,
        capture=CaptureReport(True, 2, {}, 0),
        ledger=LedgerReport(True, 2, 2, 0),
        noise=NoiseReport(True, 0.5, 2, (), ()),
        agents=agents,
        findings=(),
        notes=(),
        reconstruction=None,
        membership=None,
        side_channels=(),
        masked_sums=None,
    )


def one(agent: int, accounted: float | None, attacked: float | None) -> AgentAudit:
    return AgentAudit(agent, None if accounted is None else 2.0, accounted, attacked, 100, 0.95)


def test_each_agent_has_its_two_figures_and_the_budget_is_a_line():
    figure = audit_figure(an_audit(one(0, 1.9, 0.4), one(1, 1.5, None), one(2, 2.0, 0.7)))
    assert figure is not None
    [axis] = figure.axes
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("agent", "epsilon")
    assert axis.get_title(loc="left") == "Epsilon of each agent (delta 0.001)"
    assert any("one record: one pupil" in text.get_text() for text in axis.texts)
    assert any(text.get_text() == "budget 2" for text in axis.texts)
    shown = {part.get_label(): part.get_offsets().tolist() for part in axis.collections}
    assert shown["accounted: at most this"] == [[0.0, 1.9], [1.0, 1.5], [2.0, 2.0]]
    points = shown["attacked: at least this (2 of 3 agents were attacked)"]
    assert [points[0], points[2]] == [[0.0, 0.4], [2.0, 0.7]]
    assert [list(line.get_ydata()) for line in axis.lines] == [[2.0, 2.0]]
    assert axis.get_ylim() == (0.0, 2.3)
    assert [text.get_text() for text in axis.get_legend().get_texts()] == [
        "accounted: at most this",
        "attacked: at least this (2 of 3 agents were attacked)",
    ]


def test_where_all_were_attacked_the_picture_does_not_count_them():
    figure = audit_figure(an_audit(one(0, 1.9, 0.4), one(1, 1.5, 0.1)))
    assert figure is not None
    assert figure.axes[0].get_legend().get_texts()[1].get_text() == "attacked: at least this"


def test_without_any_epsilon_there_is_no_picture():
    assert audit_figure(an_audit(one(0, None, None))) is None
