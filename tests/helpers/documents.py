"""Documents that commands write or print, held against their published JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator


@cache
def _validator(name: str) -> Draft202012Validator:
    text = (resources.files("node") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def conforms(document: Mapping[str, Any], name: str) -> None:
    """Assert that a document is strict JSON and follows the schema ``name``."""
    written = json.loads(json.dumps(document, allow_nan=False))
    problems = [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(written)]
    assert not problems, problems
