"""The two locks: exact versions, one version for each package, and everything that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib

from tests.helpers.places import ROOT


def locked(name: str) -> dict[str, str]:
    """Version of each package in a lock, by its normalised name."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+", line) for line in lines), f"{name} pins exact versions"
    return {normalised(package): version for package, version in (line.split("==") for line in lines)}


def normalised(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def asked(requirements: list[str]) -> set[str]:
    names = {normalised(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in requirements}
    return names - {"sottovoce"}


def test_tests_run_with_the_versions_of_the_image() -> None:
    image, development = locked("requirements.lock"), locked("requirements-dev.lock")
    assert image == {package: development.get(package) for package in image}


def test_everything_that_is_asked_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = asked([*project["dependencies"], *(one for extra in extras.values() for one in extra)])
    assert wanted <= locked("requirements-dev.lock").keys()
    drawn_outside = {"matplotlib"}  # the image makes no pictures
    assert asked(project["dependencies"]) - drawn_outside <= locked("requirements.lock").keys()
