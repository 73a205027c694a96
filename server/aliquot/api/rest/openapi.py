"""OpenAPI document, generated from the operations and their types.

Source: OpenAPI 3.1.
"""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from aliquot.api.rest.framework import MEDIA_TYPE, USUAL_PROBLEMS, Operation, Problem

VERSION: Final = "3.1.0"
_REF: Final = "#/components/schemas/{name}"


def document(operations: Sequence[Operation], *, version: str) -> dict[str, Any]:
    """The whole document."""
    types = [kind for operation in operations for kind in (operation.answer, operation.body) if kind is not None]
    queries = [operation.query for operation in operations if operation.query is not None]
    schemas, components = msgspec.json.schema_components([Problem, *types, *queries], ref_template=_REF)
    refs = dict(zip([Problem, *types, *queries], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, refs, components)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Aliquot",
            "version": version,
            "description": "REST API for scripts. GraphQL covers all of it and more.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, refs: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": dict(_responses(operation, refs)),
    }
    parameters = list(_parameters(operation, components))
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": refs[operation.body]}}
        described["requestBody"] = {"required": operation.is_body_needed, "content": content}
    return described


def _responses(operation: Operation, refs: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
    answer = {operation.media_type: {"schema": refs[operation.answer]}}
    yield str(operation.status), {"description": "Success.", "content": answer}
    if operation.method != "GET":
        yield "413", {"description": HTTPStatus(413).phrase}
    with_body = () if operation.method == "GET" else (415,)
    for status in sorted({*USUAL_PROBLEMS, *with_body, *operation.problems}):
        content = {MEDIA_TYPE: {"schema": refs[Problem]}}
        yield str(status), {"description": HTTPStatus(status).phrase, "content": content}


def _parameters(operation: Operation, components: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for name in operation.path_names:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    if operation.takes_key:
        yield {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 256}}
    if operation.query is not None:
        for name, schema in components[operation.query.__name__]["properties"].items():
            yield {"name": name, "in": "query", "schema": schema}
