"""A configuration as containers: a compose file, or a Kubernetes manifest, written to be read.

Rules that hold here:
- Every role is the same image; what differs is the command and the volumes.
- An agent's container holds its own part of the run and nothing else; only whoever deals and whoever collects, when
  all is over, sees all parts.
- Nothing is published on the host: agents are heard at their service's name, at one port.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node.configuration.reading import Configuration
from node.places import EAVESDROPPER, agent_name

PORT = 7700
IMAGE = "sottovoce"
AGENT_MEMORY = 128
"""MiB that an agent's container may use."""


@dataclass(frozen=True)
class Mount:
    """A file or folder that only `deal` reads: where it is here, where in its container, and the setting for it."""

    source: str
    target: str
    setting: str | None = None


@dataclass(frozen=True)
class Plan:
    """What a file is written for."""

    name: str
    agents: int
    eavesdropper: bool
    configuration: Mount
    mounts: tuple[Mount, ...]


def plan(configuration: Configuration, path: Path, agents: int, here: Path) -> Plan:
    """The plan for the configuration in the file ``path``; paths are written relative to ``here`` where they can be."""
    mounts = []
    data = data_path(configuration)
    if data is not None:
        target = "/data" if data.is_dir() else f"/data/{data.name}"
        mounts.append(Mount(_seen_from(data, here), target, "data.path"))
    if configuration.topology.path is not None:
        graph = Path(configuration.topology.path)
        mounts.append(Mount(_seen_from(graph, here), f"/graph/{graph.name}", "topology.path"))
    return Plan(
        name=configuration.run.name,
        agents=agents,
        eavesdropper=configuration.eavesdropper.enabled,
        configuration=Mount(_seen_from(path, here), f"/configuration/{path.name}"),
        mounts=tuple(mounts),
    )


def data_path(configuration: Configuration) -> Path | None:
    """The file or folder that dealing reads, None where the data are made."""
    from node.data.paths import bundled

    section = configuration.data
    if section.path is not None:
        return Path(section.path).absolute()
    return bundled(section.source, None) if section.source in {"schools", "breast-cancer"} else None


def compose_file(plan: Plan) -> str:
    """The compose file."""
    return "\n".join(_compose_lines(plan)) + "\n"


def _compose_lines(plan: Plan) -> list[str]:
    run = f"/runs/{plan.name}"
    deal = ["deal", plan.configuration.target, "--out", run, "--parts", "/parts"]
    for mount in plan.mounts:
        deal += ["--set", f"{mount.setting}={mount.target}"]
    agent = ["agent", "--shard", "/own", "--bind", f"0.0.0.0:{PORT}", "--neighbours", f"agent-{{}}:{PORT}"]
    listener = ["eavesdrop", f"agent-{{}}:{PORT}", "--run", "/own"]
    parts = [(service(i), f"/parts/{agent_name(i)}") for i in range(plan.agents)]
    if plan.eavesdropper:
        parts.insert(0, (EAVESDROPPER, f"/parts/{EAVESDROPPER}"))
    lines = [
        f"# {_counted(plan)} in containers: what `sottovoce compose {plan.configuration.source}` prints.",
        "#",
        "#   docker compose build                        once",
        "#   docker compose up                           deal, learn, collect; ends by itself",
        "#   docker compose run --rm --no-deps audit     what an eavesdropper could have learned",
        f"#   docker compose run --rm --no-deps audit verify {run}     every release executed again",
        "#   docker compose cp collect:/runs .           the run's folder, as a local run leaves it",
        "#",
        "# Ledgers live in the agents' volumes: `docker compose down` keeps them, `down --volumes` throws them away.",
        f"name: {project(plan.name)}",
        "",
        "# What all roles share: one image, no root, no privileges, nothing writable but their own volumes.",
        "x-role: &role",
        f"  image: {IMAGE}",
        "  read_only: true",
        "  tmpfs: [/tmp]",
        "  cap_drop: [ALL]",
        '  security_opt: ["no-new-privileges:true"]',
        "  environment: {OMP_NUM_THREADS: 1, OPENBLAS_NUM_THREADS: 1, PYTHONUNBUFFERED: 1}",
        "",
        "# An agent needs its own part (/own: shard, ledger, secret) and its neighbours' names.",
        "x-agent: &agent",
        "  <<: *role",
        f"  command: {_flow(agent)}",
        "  depends_on: {deal: {condition: service_completed_successfully}}",
        "  networks: [air]",
        '  dns_opt: ["timeout:1", "attempts:1"] # a name that is not there yet is soon asked for again',
        f"  mem_limit: {AGENT_MEMORY}m",
        "  stop_grace_period: 5s",
        "",
        "services:",
        "  # Makes graph, shards, secrets and ledgers, and puts each where only its agent can read it. Ends at once.",
        "  deal:",
        "    <<: *role",
        '    build: {context: ., args: {WHEELS: "${WHEELS:-}"}} # WHEELS=folder: install from there, without a network',
        f"    command: {_flow(deal)}",
        "    network_mode: none",
        "    healthcheck: {disable: true}",
        "    mem_limit: 1g",
        "    volumes:",
        *(
            f"      - {{type: bind, source: {_text(m.source)}, target: {m.target}, read_only: true}}"
            for m in (plan.configuration, *plan.mounts)
        ),
        "      - run:/runs",
        *(f"      - {volume}:{target}" for volume, target in parts),
        "",
    ]
    for i in range(plan.agents):
        lines += [f"  {service(i)}:", "    <<: *agent", f"    volumes: [{_text(service(i) + ':/own')}]", ""]
    if plan.eavesdropper:
        lines += [
            "  # Hears every agent, says nothing, and writes all of it down. Has no part of any agent.",
            f"  {EAVESDROPPER}:",
            "    <<: *agent",
            f"    command: {_flow(listener)}",
            f"    volumes: [{_text(EAVESDROPPER + ':/own')}]",
            "",
        ]
    lines += [
        "  # Waits for the end, brings the parts together in the run's folder, and computes what it bought the agents.",
        "  # Its exit status is the run's: docker compose up --abort-on-container-failure --exit-code-from collect",
        "  collect:",
        "    <<: *role",
        f"    command: {_flow(['collect', run, '--parts', '/parts', '--wait'])}",
        "    depends_on: {deal: {condition: service_completed_successfully}}",
        "    network_mode: none",
        "    healthcheck: {disable: true}",
        "    mem_limit: 1g",
        "    stop_grace_period: 2m",
        "    volumes:",
        "      - run:/runs",
        *(f"      - {volume}:{target}:ro" for volume, target in parts),
        "",
        "  # Attacks what the eavesdropper wrote down. Only when asked for.",
        "  audit:",
        "    <<: *role",
        "    profiles: [audit]",
        f"    command: {_flow(['audit', run])}",
        "    depends_on: {collect: {condition: service_completed_successfully}}",
        "    network_mode: none",
        "    healthcheck: {disable: true}",
        "    mem_limit: 1g",
        '    volumes: ["run:/runs"]',
        "",
        "networks:",
        "  air: {internal: true} # no way out, and nothing published on the host",
        "",
        "volumes:",
        "  run: # public files from the start; after the run everything, for scoring, verify and audit",
        *(f"  {volume}:" for volume, _ in parts),
    ]
    return lines


def kubernetes_manifest(plan: Plan) -> str:
    """A headless service, a StatefulSet of the agents, and one of the eavesdropper."""
    documents = [_service("agent"), _stateful("agent", plan.agents, _agent_script(), AGENT_MEMORY)]
    if plan.eavesdropper:
        script = f"sottovoce eavesdrop agent-{{}}.agent:{PORT} --run /own"
        documents += [_service(EAVESDROPPER), _stateful(EAVESDROPPER, 1, script, AGENT_MEMORY)]
    head = [
        f"# {_counted(plan)} on Kubernetes: what `sottovoce compose {plan.configuration.source} --kubernetes` prints.",
        "# docs/several-hosts.md says how the parts get to their pods. A pod that has finished stays, so that its part",
        "# can be fetched; one that failed is started again and goes on from its ledger.",
    ]
    return "\n".join([*head, *(line for document in documents for line in ["---", *document])]) + "\n"


def _agent_script() -> str:
    return f"sottovoce agent --shard /own --bind 0.0.0.0:{PORT} --neighbours agent-{{}}.agent:{PORT}"


def _service(name: str) -> list[str]:
    return [
        "apiVersion: v1",
        "kind: Service",
        f"metadata: {{name: {name}}}",
        "spec:",
        "  clusterIP: None # headless: each pod has a name of its own",
        "  publishNotReadyAddresses: true # agents find each other before they are ready",
        f"  selector: {{app: sottovoce, role: {name}}}",
        "  ports:",
        f"    - {{name: zmtp, port: {PORT}}}",
    ]


def _stateful(name: str, replicas: int, script: str, memory: int) -> list[str]:
    return [
        "apiVersion: apps/v1",
        "kind: StatefulSet",
        f"metadata: {{name: {name}}}",
        "spec:",
        f"  serviceName: {name}",
        f"  replicas: {replicas}",
        "  podManagementPolicy: Parallel # nobody is ready before all are there",
        f"  selector: {{matchLabels: {{app: sottovoce, role: {name}}}}}",
        "  template:",
        f"    metadata: {{labels: {{app: sottovoce, role: {name}}}}}",
        "    spec:",
        "      automountServiceAccountToken: false",
        "      enableServiceLinks: false",
        "      securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001}",
        "      initContainers:",
        "        - name: part # waits until the pod's part was copied into its volume, and /own/here says so",
        f"          image: {IMAGE}",
        '          command: [sh, -c, "until [ -e /own/here ]; do sleep 1; done"]',
        *_container_tail(memory),
        "      containers:",
        f"        - name: {name}",
        f"          image: {IMAGE}",
        f"          command: [sh, -c, {_text(script + ' && exec sleep infinity')}]",
        f"          ports: [{{containerPort: {PORT}}}]",
        "          env:",
        '            - {name: OMP_NUM_THREADS, value: "1"}',
        '            - {name: OPENBLAS_NUM_THREADS, value: "1"}',
        '            - {name: PYTHONUNBUFFERED, value: "1"}',
        "          readinessProbe:",
        "            exec: {command: [python, -m, node.worlds.health, /own]}",
        "            periodSeconds: 10",
        *_container_tail(memory),
        "  volumeClaimTemplates:",
        "    - metadata: {name: own}",
        "      spec:",
        "        accessModes: [ReadWriteOnce]",
        "        resources: {requests: {storage: 1Gi}}",
    ]


def _container_tail(memory: int) -> list[str]:
    return [
        "          resources: {limits: {memory: " + f"{memory}Mi" + "}, requests: {cpu: 50m, memory: 64Mi}}",
        "          securityContext:",
        "            allowPrivilegeEscalation: false",
        "            readOnlyRootFilesystem: true",
        "            capabilities: {drop: [ALL]}",
        "          volumeMounts: [{name: own, mountPath: /own}]",
    ]


def service(agent: int) -> str:
    """The name of an agent's service, by which the others reach it."""
    return f"agent-{agent}"


def project(name: str) -> str:
    """The project's name: what compose accepts of the run's name."""
    return "sottovoce-" + re.sub(r"[^a-z0-9_-]", "-", name.lower())


def _counted(plan: Plan) -> str:
    agents = "1 agent" if plan.agents == 1 else f"{plan.agents} agents"
    return f"{agents} and an eavesdropper" if plan.eavesdropper else agents


def _seen_from(path: Path, here: Path) -> str:
    path = path.resolve()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)


def _flow(words: Sequence[str]) -> str:
    return f"[{', '.join(word if word.startswith('--') else _text(word) for word in words)}]"


def _text(word: str) -> str:
    """A double-quoted scalar where it has to be one; a dollar is doubled, because compose would read a variable."""
    if re.fullmatch(r"[A-Za-z./][A-Za-z0-9/._-]*", word):
        return word
    return json.dumps(word, ensure_ascii=False).replace("$", "$$")
