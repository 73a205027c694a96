"""Parameters of a GraphQL request, from a JSON body or a query string.

Source: GraphQL over HTTP, request parameters.
"""

import json
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request

from aliquot.api.encoding import json_value
from aliquot.api.malformed import Malformed
from aliquot.api.media_types import is_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What one request asks to have executed."""

    query: str
    operation_name: str | None
    variables: dict[str, Any] | None


async def read_parameters(request: Request) -> Parameters:
    """Read them from a GET's query string or a POST's body.

    Raises:
        Malformed: there is no such request in it.
    """
    if request.method == "GET":
        return _checked(_from_query(request.query_params))
    # A page of another site can send forms and plain text without asking; JSON it cannot.
    if not is_json(request.headers.get("content-type")):
        raise Malformed("The body must have the content type application/json, in UTF-8.", status=415)
    body = _decoded(await request.body(), "The body")
    if isinstance(body, list):
        raise Malformed("Batches are not taken; send one request for each operation.")
    if not isinstance(body, dict):
        raise Malformed("The body must be a JSON object with a `query`.")
    return _checked(body)


def _from_query(query: QueryParams) -> dict[str, Any]:
    values: dict[str, Any] = dict(query)
    for name in ("variables", "extensions"):
        if values.get(name):
            values[name] = _decoded(values[name], f"`{name}`")
        else:
            values.pop(name, None)
    return values


def _decoded(text: str | bytes, what: str) -> Any:
    try:
        return json_value(text)
    except json.JSONDecodeError as error:
        raise Malformed(f"{what} is no JSON: {error.msg} at character {error.pos}.") from None


def _checked(values: dict[str, Any]) -> Parameters:
    query, name, variables = values.get("query"), values.get("operationName"), values.get("variables")
    if not isinstance(query, str) or not query.strip():
        raise Malformed("`query` is missing, or is not a string.")
    if not isinstance(name, str | None):
        raise Malformed("`operationName` must be a string.")
    if not isinstance(variables, dict | None):
        raise Malformed("`variables` must be an object.")
    if not isinstance(values.get("extensions"), dict | None):
        raise Malformed("`extensions` must be an object.")
    return Parameters(query=query, operation_name=name or None, variables=variables)
