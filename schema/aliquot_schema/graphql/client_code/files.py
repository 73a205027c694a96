"""The files of the client's generated package, as text."""

from collections.abc import Iterable, Mapping
from typing import Final

from graphql import GraphQLEnumType, GraphQLSchema, parse, validate

from aliquot_schema.graphql.client_code.annotations import names_in
from aliquot_schema.graphql.client_code.classes import class_text
from aliquot_schema.graphql.client_code.layout import FOLDER, Written, layout, members_first
from aliquot_schema.graphql.client_code.operations import (
    WORDS,
    Operation,
    async_method,
    blocking_method,
    classes_of,
    document,
    operations,
)
from aliquot_schema.graphql.client_code.selections import fragments

MODULES: Final = {"Query": "queries", "Mutation": "mutations", "Subscription": "subscriptions"}
ORIGIN: Final = "Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited."


def files(schema: GraphQLSchema, *, sources: Mapping[str, str]) -> dict[str, str]:
    """The text of each file by its name, not formatted yet.

    Args:
        schema: as it is printed and read again.
        sources: see `layout`.
    """
    home = layout(schema, sources=sources)
    pages = {"__init__": f"{_title('What the server knows and does.')}\n", "fragments": _fragments(schema)}
    for module in sorted(set(home.values())):
        pages[module] = _types(schema, module, home)
    for root, module in MODULES.items():
        found = operations(schema, root)
        pages[module] = _asking(root, found, home)
        pages[f"blocking_{module}"] = _blocking(root, found, home)
    return {f"{name}.py": text for name, text in pages.items()}


def check(schema: GraphQLSchema) -> None:
    """See that every document holds against the schema.

    Raises:
        ValueError: one does not.
    """
    known = fragments(schema)
    spread = "\n".join(f"fragment {name} on {name} {{ {text} }}" for name, text in known.items())
    heads = [document(one) for root in MODULES for one in operations(schema, root)]
    errors = validate(schema, parse("\n".join([*heads, spread])))
    # Fragments of types that are reached through unions alone have no operation that names them.
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


def _asking(root: str, found: list[Operation], home: Mapping[str, str]) -> str:
    needed = {name for one in found for name in classes_of(one)}
    first = ["from typing import Final", "from aliquot.client.asking import Asking"]
    if root == "Subscription":
        first.append("from collections.abc import AsyncGenerator")
    documents = "\n".join(f'{one.name.upper()}: Final = """{_folded(document(one))}"""' for one in found)
    title = _title(f"Every {WORDS[root]}.")
    head = f'class {MODULES[root].capitalize()}(Asking):\n    """Every {WORDS[root]} of the server."""\n\n'
    methods = "\n".join(async_method(one) for one in found)
    first += _sequences(methods)
    return f"{title}\n\n{_imports(needed, home, first)}\n\n{documents}\n\n\n{head}{methods}"


def _blocking(root: str, found: list[Operation], home: Mapping[str, str]) -> str:
    needed = {name for one in found for name in classes_of(one)}
    first = ["from aliquot.client.blocking_calls import BlockingCalls"]
    if root == "Subscription":
        first.append("from collections.abc import Generator")
    title = _title(f"Every {WORDS[root]}, waited for.")
    asking = MODULES[root].capitalize()
    first.append(f"from {FOLDER}.{MODULES[root]} import {asking}")
    doc = f'"""Every {WORDS[root]} of the server, waited for."""'
    head = f"class Blocking{asking}(BlockingCalls):\n    {doc}\n\n    _client: {asking}\n\n"
    methods = "\n".join(blocking_method(one) for one in found)
    first += _sequences(methods)
    return f"{title}\n\n{_imports(needed, home, first)}\n\n\n{head}{methods}"


def _fragments(schema: GraphQLSchema) -> str:
    entries = "\n".join(f'    "{name}": """{_folded(text)}""",' for name, text in sorted(fragments(schema).items()))
    head = f"{_title('What is asked of each type: all of it.')}\n\nfrom typing import Final\n"
    return f'{head}\nFRAGMENTS: Final = {{\n{entries}\n}}\n"""The selection by the type\'s name."""\n'


def _title(text: str) -> str:
    return f'"""{text}\n\n{ORIGIN}\n"""'


def _folded(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 90:
            lines.append("")
        lines[-1] += f"{word} "
    # What stands before a text would make its first line too long.
    return "\n".join([*([""] if len(lines) > 1 else []), *(line.rstrip() for line in lines)])


def _sequences(text: str) -> list[str]:
    return ["from collections.abc import Sequence"] if "Sequence[" in text else []


def _imports(needed: set[str], home: Mapping[str, str], first: list[str]) -> str:
    lines = ["from datetime import datetime"] if "datetime" in needed else []
    lines += [f"from {FOLDER}.{home[name]} import {name}" for name in sorted(needed - {"datetime"})]
    return "\n".join([*first, *lines])
