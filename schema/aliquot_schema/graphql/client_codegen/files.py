"""Files of the client's generated package: assembles types and operations into modules."""

from collections.abc import Iterable, Mapping
from typing import Final

from graphql import GraphQLEnumType, GraphQLSchema, parse, validate

from aliquot_schema.graphql.client_codegen.methods import (
    Operation,
    async_method,
    blocking_method,
    classes_of,
    document,
    fragments,
    operations,
)
from aliquot_schema.graphql.client_codegen.types import FOLDER, Written, class_text, layout, members_first, names_in

MODULES: Final = {"Query": "queries", "Mutation": "mutations", "Subscription": "subscriptions"}
ORIGIN: Final = "Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit."


def files(schema: GraphQLSchema, *, sources: Mapping[str, str]) -> dict[str, str]:
    """Unformatted text by file name.

    Args:
        schema: built from the printed schema definition.
        sources: see `layout`.
    """
    home = layout(schema, sources=sources)
    pages = {"__init__": f"{_title('Types and operations of the GraphQL API.')}\n", "fragments": _fragments(schema)}
    for module in sorted(set(home.values())):
        pages[module] = _types(schema, module, home)
    for root, module in MODULES.items():
        found = operations(schema, root)
        pages[module] = _async_operations(root, found, home)
        pages[f"blocking_{module}"] = _blocking_operations(root, found, home)
    return {f"{name}.py": text for name, text in pages.items()}


def check(schema: GraphQLSchema) -> None:
    """Validate every generated document against the schema.

    Raises:
        ValueError: a document is invalid.
    """
    known = fragments(schema)
    spread = "\n".join(f"fragment {name} on {name} {{ {text} }}" for name, text in known.items())
    heads = [document(one) for root in MODULES for one in operations(schema, root)]
    errors = validate(schema, parse("\n".join([*heads, spread])))
    # Fragments of types that are only reached through unions are not named by any operation.
    bad = [error.message for error in errors if "is never used" not in error.message]
    if bad:
        raise ValueError("; ".join(bad))


def _types(schema: GraphQLSchema, module: str, home: Mapping[str, str]) -> str:
    written = members_first(schema, {name for name, place in home.items() if place == module})
    needed = {name for of in written for name in _names(of)} - {of.name for of in written}
    enums = any(isinstance(of, GraphQLEnumType) for of in written)
    first = ["from enum import StrEnum"] if enums else ["from msgspec import Struct"]
    title = _title(f"{module.replace('_', ' ').capitalize()}.")
    classes = [class_text(of) for of in written]
    first += _sequences("".join(classes))
    return "\n\n\n".join([f"{title}\n\n{_imports(needed, home, first)}", *classes])


def _names(of: Written) -> Iterable[str]:
    if not isinstance(of, GraphQLEnumType):
        for field in of.fields.values():
            yield from names_in(field.type)


def _async_operations(root: str, found: list[Operation], home: Mapping[str, str]) -> str:
    needed = {name for one in found for name in classes_of(one)}
    first = ["from typing import Final", "from aliquot.client.requests import Requests"]
    if root == "Subscription":
        first.append("from collections.abc import AsyncGenerator")
    documents = "\n".join(f'{one.name.upper()}: Final = """{_folded(document(one))}"""' for one in found)
    title = _title(f"All {MODULES[root]}.")
    head = f'class {MODULES[root].capitalize()}(Requests):\n    """All {MODULES[root]} of the server."""\n\n'
    methods = "\n".join(async_method(one) for one in found)
    first += [*_sequences(methods), *_refusals(found)]
    return f"{title}\n\n{_imports(needed, home, first)}\n\n{documents}\n\n\n{head}{methods}"


def _blocking_operations(root: str, found: list[Operation], home: Mapping[str, str]) -> str:
    needed = {name for one in found for name in classes_of(one)}
    first = ["from aliquot.client.blocking_calls import BlockingCalls"]
    if root == "Subscription":
        first += ["from collections.abc import Generator", "from abc import abstractmethod"]
    title = _title(f"All {MODULES[root]}, blocking.")
    asking = MODULES[root].capitalize()
    first.append(f"from {FOLDER}.{MODULES[root]} import {asking}")
    doc = f'"""All {MODULES[root]} of the server, blocking."""'
    calls = (
        f"    @property\n    @abstractmethod\n    def _client(self) -> {asking}: ..."
        if root == "Subscription"
        else f"    _plain: {asking}"
    )
    head = f"class Blocking{asking}(BlockingCalls):\n    {doc}\n\n{calls}\n\n"
    methods = "\n".join(blocking_method(one) for one in found)
    first += [*_sequences(methods), *_refusals(found)]
    return f"{title}\n\n{_imports(needed, home, first)}\n\n\n{head}{methods}"


def _fragments(schema: GraphQLSchema) -> str:
    entries = "\n".join(f'    "{name}": """{_folded(text)}""",' for name, text in sorted(fragments(schema).items()))
    head = f"{_title('Selections of all fields of each type.')}\n\nfrom typing import Final\n"
    return f'{head}\nFRAGMENTS: Final = {{\n{entries}\n}}\n"""Selection by type name."""\n'


def _title(text: str) -> str:
    return f'"""{text}\n\n{ORIGIN}\n"""'


def _folded(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 90:
            lines.append("")
        lines[-1] += f"{word} "
    # On the assignment's line the first line would be too long.
    return "\n".join([*([""] if len(lines) > 1 else []), *(line.rstrip() for line in lines)])


def _sequences(text: str) -> list[str]:
    return ["from collections.abc import Sequence"] if "Sequence[" in text else []


def _refusals(found: list[Operation]) -> list[str]:
    return ["from aliquot.client.errors import Refused"] if any(one.is_list for one in found) else []


def _imports(needed: set[str], home: Mapping[str, str], first: list[str]) -> str:
    lines = ["from datetime import datetime"] if "datetime" in needed else []
    lines += [f"from {FOLDER}.{home[name]} import {name}" for name in sorted(needed - {"datetime"})]
    return "\n".join([*first, *lines])
