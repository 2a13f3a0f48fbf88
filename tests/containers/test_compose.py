"""The compose file and the Kubernetes manifest, without an engine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from node.configuration.public import dump
from node.configuration.reading import from_table
from node.worlds.compose import compose_file
from node.worlds.container_plan import Mount, Plan, plan
from node.worlds.kubernetes import kubernetes_manifest
from tests.helpers.command import answered
from tests.helpers.projects import ROOT
from tests.helpers.tables import private, public


def plan_of(agents: int, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "name": "run",
        "agents": agents,
        "eavesdropper": True,
        "configuration": Mount("./run.toml", "/configuration/run.toml"),
        "mounts": (),
    }
    return Plan(**(fields | changes))


def printed(*arguments: str) -> str:
    done = answered("compose", *arguments, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_committed_file_is_what_the_command_prints() -> None:
    assert (ROOT / "docker-compose.yml").read_text() == printed("examples/compose.toml")


def test_a_further_agent_takes_fewer_than_fifteen_lines() -> None:
    lines = [len(compose_file(plan_of(agents)).splitlines()) for agents in (5, 6, 200)]
    assert lines[1] - lines[0] < 15
    assert lines[2] - lines[1] == 194 * (lines[1] - lines[0])


def test_every_container_but_three_sees_one_volume() -> None:
    document = yaml.safe_load(compose_file(plan_of(12)))
    services = document["services"]
    assert set(services) == {*(f"agent-{i}" for i in range(12)), "deal", "eavesdropper", "collect", "audit"}
    for i in range(12):
        assert services[f"agent-{i}"]["volumes"] == [f"agent-{i}:/own"]
        assert services[f"agent-{i}"]["mem_limit"] == "128m"
    assert services["eavesdropper"]["volumes"] == ["eavesdropper:/own"]
    assert services["audit"]["volumes"] == ["run:/runs"]
    parts = [volume for volume in services["collect"]["volumes"] if volume != "run:/runs"]
    assert parts == [
        "eavesdropper:/parts/eavesdropper:ro",
        *(f"agent-{i}:/parts/agent-{i:04d}:ro" for i in range(12)),
    ]
    assert set(document["volumes"]) == {"run", "eavesdropper", *(f"agent-{i}" for i in range(12))}


def test_no_service_is_published_privileged_or_writable() -> None:
    document = yaml.safe_load(compose_file(plan_of(3)))
    assert document["networks"]["air"]["internal"] is True
    for name, service in document["services"].items():
        assert not {"ports", "privileged", "user"} & service.keys(), name
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert ("networks" in service) != ("network_mode" in service)
        assert service.get("network_mode", "none") == "none"
    assert document["services"]["audit"]["profiles"] == ["audit"]


def test_without_an_eavesdropper_nobody_waits_for_one() -> None:
    plan = plan_of(2, eavesdropper=False)
    assert "eavesdropper" not in yaml.safe_load(compose_file(plan))["services"]


@pytest.mark.parametrize(
    ("name", "project"), [("Été 2 $HOME", "sottovoce--t--2--home"), ("a.b", "sottovoce-a-b"), ("no", "sottovoce-no")]
)
def test_odd_names_stay_what_they_are(name: str, project: str) -> None:
    mount = Mount("./my data: 1 #x", "/data", "data.path")
    document = yaml.safe_load(compose_file(plan_of(2, name=name, mounts=(mount,))))
    assert document["name"] == project
    deal = document["services"]["deal"]
    assert [word.replace("$$", "$") for word in deal["command"]][3] == f"/runs/{name}"
    assert deal["command"][-2:] == ["--set", "data.path=/data"]
    assert deal["volumes"][1]["source"] == "./my data: 1 #x"


@pytest.mark.parametrize("name", ["a, b.csv", "{a}.csv", "$HOME ${x}.csv", "a: b # c.csv", "a\nb\x85.csv", "'q\".csv"])
def test_odd_file_names_reach_deal_as_they_are(name: str) -> None:
    files = {setting: f"/{setting}/{name}" for setting in ("data.path", "topology.path", "privacy.budgets")}
    mounts = tuple(Mount(f"./{name}", target, setting) for setting, target in files.items())
    own = Mount(f"./{name}", f"/configuration/{name}")
    written = compose_file(plan_of(2, configuration=own, mounts=mounts))
    deal = yaml.safe_load(written)["services"]["deal"]
    given = [word.replace("$$", "$") for word in deal["command"]]
    assert given[1] == own.target
    assert [word for word in given if "=" in word] == [f"{setting}={target}" for setting, target in files.items()]
    targets = [volume["target"].replace("$$", "$") for volume in deal["volumes"] if isinstance(volume, dict)]
    assert targets == [own.target, *files.values()]
    interpolated = re.sub(r"(?m)^ *#.*|\$\$|\$\{WHEELS:-\}", "", written)
    assert "$" not in interpolated


def test_every_file_that_dealing_reads_is_mounted(tmp_path: Path) -> None:
    files = {"data.path": "rows.csv", "topology.path": "edges.csv", "privacy.budgets": "budgets.csv"}
    changes = {section: {key: str(tmp_path / name)} for s, name in files.items() for section, key in [s.split(".")]}
    changes["data"] |= {"source": "csv", "label": "y", "agents": 3}
    changes["topology"] |= {"kind": "file", "degree": None}
    made = plan(from_table(private(**changes)), tmp_path / "run.toml", 3, tmp_path)
    assert [(mount.setting, mount.source) for mount in made.mounts] == [(s, f"./{name}") for s, name in files.items()]


@pytest.mark.parametrize(("agents", "nodes"), [(2, 1), (5, 3), (200, 7)])
def test_the_manifest_fits_the_published_schema(agents: int, nodes: int) -> None:
    documents = list(yaml.safe_load_all(kubernetes_manifest(plan_of(agents), nodes)))
    assert [document["kind"] for document in documents] == ["Service", "PersistentVolumeClaim", "StatefulSet"]
    for document in documents:
        kubernetes_validate.validate(document, "1.31", strict=True)
    service, claim, pods = documents
    spec = pods["spec"]["template"]["spec"]
    assert pods["spec"]["replicas"] == nodes
    assert pods["spec"]["serviceName"] == service["metadata"]["name"]
    assert pods["spec"]["template"]["metadata"]["labels"] == service["spec"]["selector"]
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (container,) = spec["containers"]
    volumes = {volume["name"] for volume in spec["volumes"]} | {"own"}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_pods_have_the_names_of_the_parts_that_are_dealt_for_them(tmp_path: Path) -> None:
    written = printed("examples/compose.toml", "--kubernetes", "--nodes", "2")
    (deal,) = re.findall("`sottovoce (deal [^`]+)`", written)
    dealt = answered(*deal.replace("--parts parts", f"--parts {tmp_path}/parts --out {tmp_path}/run").split(), cwd=ROOT)
    assert dealt.returncode == 0, dealt.stderr
    assert {path.name for path in (tmp_path / "parts").iterdir()} == {"host-0", "host-1"}


@pytest.mark.parametrize(("address", "given"), [("10.1.2.3", "10.1.2.3"), ("fd00::7", "[fd00::7]")])
def test_a_pod_tells_its_address_as_the_command_wants_it(tmp_path: Path, address: str, given: str) -> None:
    pods = list(yaml.safe_load_all(kubernetes_manifest(plan_of(2), 1)))[2]
    command = pods["spec"]["template"]["spec"]["containers"][0]["command"]
    for name in ("sottovoce", "sleep"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$@"\n')
        (tmp_path / name).chmod(0o755)
    shell = {"PATH": f"{tmp_path}:/usr/bin:/bin", "POD_IP": address}
    done = subprocess.run(command, capture_output=True, text=True, env=shell, check=True)
    assert done.stdout == f"host /own --address {given} --endpoints /endpoints\ninfinity\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kubernetes"], "--nodes N is missing beside --kubernetes"),
        (["--nodes", "3"], "--nodes 3 has no effect without --kubernetes"),
        (["--kubernetes", "--nodes", "6"], "6 hosts for 5 agents"),
        (["--kubernetes", "--nodes", "0"], "0 hosts for 5 agents"),
    ],
)
def test_nodes_that_cannot_be_are_one_line(options: list[str], words: str) -> None:
    done = answered("compose", "examples/compose.toml", *options, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_schema_would_find_a_mistake() -> None:
    document = next(yaml.safe_load_all(kubernetes_manifest(plan_of(2), 1)))
    document["spec"]["clusterIp"] = document["spec"].pop("clusterIP")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.31", strict=True)


def test_a_configuration_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = answered("compose", tmp_path / "none.toml")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "none.toml" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_configuration_of_one_agent_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(dump(from_table(public(data={"agents": 1}, topology={"kind": "complete"}))))
    done = answered("compose", tmp_path / "one.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no neighbour to learn with; accepted are 2 or more" in done.stderr
