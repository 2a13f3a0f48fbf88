"""A configuration as a compose file that people can read: the template ``compose.yml`` and one entry for each agent."""

from __future__ import annotations

from node.places import EAVESDROPPER, agent_name
from node.worlds.container_plan import (
    AGENT_MEMORY,
    IMAGE,
    PORT,
    Plan,
    comment,
    counted,
    filled,
    flow,
    project,
    service,
    text,
)


def compose_file(plan: Plan) -> str:
    """Return the compose file."""
    run = f"/runs/{plan.name}"
    deal = ["deal", plan.configuration.target, "--out", run, "--parts", "/parts"]
    for mount in plan.mounts:
        deal += ["--set", f"{mount.setting}={mount.target}"]
    parts = {service(i): f"/parts/{agent_name(i)}" for i in range(plan.agents)}
    if plan.eavesdropper:
        parts = {EAVESDROPPER: f"/parts/{EAVESDROPPER}"} | parts
    return filled(
        "compose.yml",
        counted=counted(plan),
        source=comment(plan.configuration.source),
        run=comment(run),
        project=project(plan.name),
        image=IMAGE,
        memory=str(AGENT_MEMORY),
        agent=flow(["agent", "--shard", "/own", "--bind", f"0.0.0.0:{PORT}", "--neighbours", f"agent-{{}}:{PORT}"]),
        deal=flow(deal),
        mounts="\n".join(
            f"      - {{type: bind, source: {text(m.source)}, target: {text(m.target)}, read_only: true}}"
            for m in (plan.configuration, *plan.mounts)
        ),
        parts="\n".join(f"      - {volume}:{target}" for volume, target in parts.items()),
        services="".join(_services(plan)),
        collect=flow(["collect", run, "--parts", "/parts", "--wait"]),
        parts_to_read="\n".join(f"      - {volume}:{target}:ro" for volume, target in parts.items()),
        audit=flow(["audit", run]),
        volumes="\n".join(f"  {volume}:" for volume in parts),
    )


def _services(plan: Plan) -> list[str]:
    entries = [
        f"  {service(i)}:\n    <<: *agent\n    volumes: [{text(service(i) + ':/own')}]\n\n" for i in range(plan.agents)
    ]
    if plan.eavesdropper:
        entries.append(
            "  # Receives every frame, sends none, and logs each one. Its volume holds no part of an agent.\n"
            f"  {EAVESDROPPER}:\n    <<: *agent\n"
            f"    command: {flow(['eavesdrop', f'agent-{{}}:{PORT}', '--run', '/own'])}\n"
            f"    volumes: [{text(EAVESDROPPER + ':/own')}]\n\n"
        )
    return entries
