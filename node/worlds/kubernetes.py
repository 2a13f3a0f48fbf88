"""A configuration as a Kubernetes manifest: the template ``kubernetes.yml``, once for each role."""

from __future__ import annotations

from node.places import EAVESDROPPER
from node.worlds.container_plan import AGENT_MEMORY, IMAGE, PORT, Plan, comment, counted, filled, text


def kubernetes_manifest(plan: Plan) -> str:
    """Return a headless service and a StatefulSet of the agents, and the same of the eavesdropper."""
    command = f"sottovoce compose {comment(plan.configuration.source)} --kubernetes"
    head = (
        f"# {counted(plan)} on Kubernetes: what `{command}` prints.\n"
        "# docs/several-hosts.md says how the parts get to their pods. A pod that has finished stays, so that its "
        "part\n# can be fetched; one that failed is started again and goes on from its ledger.\n"
    )
    agents = f"sottovoce agent --shard /own --bind 0.0.0.0:{PORT} --neighbours agent-{{}}.agent:{PORT}"
    roles = _role("agent", plan.agents, agents)
    if plan.eavesdropper:
        roles += _role(EAVESDROPPER, 1, f"sottovoce eavesdrop agent-{{}}.agent:{PORT} --run /own")
    return head + roles


def _role(name: str, replicas: int, script: str) -> str:
    return filled(
        "kubernetes.yml",
        name=name,
        replicas=str(replicas),
        script=text(f"{script} && exec sleep infinity"),
        image=IMAGE,
        port=str(PORT),
        memory=str(AGENT_MEMORY),
    )
