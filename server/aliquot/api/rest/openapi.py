"""OpenAPI document, generated from the operations and their types.

Source: OpenAPI 3.1.
"""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from aliquot.api.rest.framework import MEDIA_TYPE, USUAL_PROBLEMS, Operation, Problem

VERSION: Final = "3.1.0"
DOWNLOAD_PATH: Final = "/sessions/{job_id}/files/{path}"
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
    paths[DOWNLOAD_PATH] = {"get": _download(refs[Problem])}
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
    with_body = () if operation.method == "GET" else (413, 415)
    for status in sorted({*USUAL_PROBLEMS, *with_body, *operation.problems}):
        yield str(status), _problem(status, refs[Problem])


def _problem(status: int, schema: Any) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}


def _download(problem: Any) -> dict[str, Any]:
    """A file of results, which is streamed and so is no operation of the framework; see `api.session_files`."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in ("job_id", "path")
    ]
    rank = {"name": "rank", "in": "query", "schema": {"type": "integer", "minimum": 0, "default": 0}}
    part = {"name": "Range", "in": "header", "schema": {"type": "string"}, "example": "bytes=0-1023"}
    return {
        "operationId": "session_file",
        "summary": "The content of a file of a session's results. `path` may have slashes; HEAD answers its size.",
        "parameters": [*in_path, rank, part],
        "responses": {
            "200": {"description": "Success.", "content": content},
            "206": {"description": "The part that Range asks for.", "content": content},
            "304": {"description": "The file has the ETag of If-None-Match."},
            "416": {"description": HTTPStatus(416).phrase},
            **{str(status): _problem(status, problem) for status in (401, 403, 404, 409, 422, 429, 503)},
        },
    }


def _parameters(operation: Operation, components: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for name in operation.path_names:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    if operation.takes_key:
        yield {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 256}}
    if operation.query is not None:
        for name, schema in components[operation.query.__name__]["properties"].items():
            yield {"name": name, "in": "query", "schema": schema}
