"""A configuration as a Kubernetes manifest: the template ``kubernetes.yml``, with one pod a node."""

from __future__ import annotations

from node.folder.hosts import shared
from node.worlds.container_plan import AGENT_MEMORY, IMAGE, Plan, comment, counted, filled

POD = "host"
"""Pods are named host-0, host-1, ..., and so are their parts."""
MEMORY_OF_AN_AGENT = 16
"""MiB for each agent of a pod, which has ``4 * AGENT_MEMORY`` besides for the processes that all agents share."""


def kubernetes_manifest(plan: Plan, nodes: int) -> str:
    """Return a headless service, a StatefulSet of ``nodes`` hosts, and the volume in which they exchange endpoints.

    Raises
    ------
    HostsError
        If there are more nodes than agents, or none.
    """
    names = [f"{POD}-{number}" for number in range(nodes)]
    most = max(len(host.agents) for host in shared(names, plan.agents, eavesdropper=plan.eavesdropper))
    source = comment(plan.configuration.source)
    return filled(
        "kubernetes.yml",
        counted=counted(plan),
        command=f"sottovoce compose {source} --kubernetes --nodes {nodes}",
        deal=f"sottovoce deal {source} --parts parts --hosts {','.join(names)}",
        name=POD,
        nodes=str(nodes),
        image=IMAGE,
        memory=str(4 * AGENT_MEMORY + MEMORY_OF_AN_AGENT * most),
    )
