"""REST reference, from the OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aliquot.api.rest.openapi import document
from aliquot.api.rest.routes import API_VERSION, OPERATIONS
from aliquot_docs.markdown import code, table, text
from aliquot_docs.pages.graphql_text import access_rule
from aliquot_schema.identity.access import OWNER_ONLY, REST

REF: Final = "#/components/schemas/"


def rest_page() -> str:
    """Every operation, then every request and response type."""
    made = document(OPERATIONS, version=API_VERSION)
    parts = ["## Operations\n"]
    for path, methods in made["paths"].items():
        parts += [_operation(method, path, shown) for method, shown in methods.items()]
    parts.append("## Types\n")
    parts += [_type(name, shown) for name, shown in sorted(made["components"]["schemas"].items())]
    return "\n".join(parts)


def _operation(method: str, path: str, shown: Mapping[str, Any]) -> str:
    rule = REST.get(shown["operationId"], OWNER_ONLY)  # the content of a file is no operation of the framework
    lines = [f"### {method.upper()} {path}\n", f"{text(shown['summary'])} {access_rule(rule)}\n"]
    parameters = [
        f"- {code(one['name'])} ({one['in']}): {_shape(one['schema'])}" for one in shown.get("parameters", ())
    ]
    if "requestBody" in shown:
        parameters.append(f"- body: {_shape(shown['requestBody']['content']['application/json']['schema'])}")
    statuses = ", ".join(f"{code(status)} {_answer(answer)}" for status, answer in shown["responses"].items())
    return "\n".join([*lines, *parameters, "", f"Responses: {statuses}.\n"])


def _answer(answer: Mapping[str, Any]) -> str:
    content = answer.get("content", {}).get("application/json")
    return _shape(content["schema"]) if content else text(answer["description"])


def _type(name: str, shown: Mapping[str, Any]) -> str:
    head = f"(rest-{name.lower()})=\n### {name}\n\n{text(shown.get('description', ''))}\n"
    if "properties" not in shown:
        return f"{head}\n{_shape(shown)}\n"
    required = set(shown.get("required", ()))
    rows = (
        (code(field), _shape(kind), "yes" if field in required else "", text(kind.get("description", "")))
        for field, kind in shown["properties"].items()
    )
    return f"{head}\n{table(('field', 'type', 'required', 'meaning'), rows)}"


def _shape(schema: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_shapes(schema)))


def _shapes(schema: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        yield f"[{name}](#rest-{name.lower()})"
    elif "anyOf" in schema:
        for one in schema["anyOf"]:
            yield from _shapes(one)
    elif "enum" in schema:
        yield ", ".join(code(value) for value in schema["enum"])
    elif schema.get("type") == "array":
        yield f"list of {_shape(schema.get('items', {})) or 'anything'}"
    elif schema.get("type") == "object" and "additionalProperties" in schema:
        more = schema["additionalProperties"]
        yield f"object of {_shape(more)}" if isinstance(more, dict) and more else "object"
    else:
        yield str(schema.get("type", "anything"))
