"""Queries that are expensive for a server."""

import json
from collections.abc import Callable, Mapping
from typing import Final


def fragments(levels: int, *, field: str = "__typename") -> str:
    """Each level spreads the one below twice."""
    spreads = [f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(levels)]
    return "\n".join(["{ ...f0 }", *spreads, f"fragment f{levels} on Query {{ {field} }}"])


def fan_out(times: int) -> str:
    """A query of nested lists with this number of lists, items and fields."""
    fields = " ".join(f"a{number}: id" for number in range(times))
    spread = f"fragment f on Agent {{ {fields} }}"
    lists = " ".join(f"b{number}: agents(first: {times}) {{ edges {{ node {{ ...f }} }} }}" for number in range(times))
    return f"{{ {lists} }} {spread}"


TEXTS: Final = {
    "2,000 aliases": "{ " + " ".join(f"a{number}: __typename" for number in range(2000)) + " }",
    "aliases, as many as there are tokens for": "{ " + " ".join(f"a{n}: __typename" for n in range(660)) + " }",
    "20,000 duplicate fields": "{ " + "__typename " * 20_000 + "}",
    "duplicate fields, as many as there are tokens for": "{ " + "__typename " * 1_990 + "}",
    "duplicate selections": "{ " + "agents { revision } " * 490 + "}",
    "deep duplicate selections": "{ " + "agents { edges { node { id } } } " * 190 + "}",
    "duplicates in fragments": "{ "
    + " ".join(f"...f{number}" for number in range(150))
    + " } "
    + " ".join(f"fragment f{number} on Query {{ agents {{ revision }} }}" for number in range(150)),
    "60 levels of fragments": fragments(60),
    "fragments in a circle": "{ ...a ...b } fragment a on Query { ...b ...a } fragment b on Query { ...a ...b }",
    "fragments in a circle through fields": "{ agents { edges { node { ...a } } } } "
    "fragment a on Agent { devices { ...b } x: devices { ...b } } fragment b on Device { holders { ...a } }",
    "50 x 50 x 50": fan_out(50),
    "deep lists": "{a(b:" + "[" * 900 + "]" * 900 + ")}",
    "deep selections": "{a" * 900 + "}" * 900,
    "deep inputs": "{a(b:" + "{c:" * 500 + "1" + "}" * 500 + ")}",
    "unknown fields": "{ " + " ".join(f"x{number}" for number in range(1_900)) + " }",
    "unused variables": "query(" + " ".join(f"$v{n}: Int" for n in range(390)) + ") { agents { revision } }",
    "one directive many times": "{ agents " + "@include(if: true) " * 270 + "{ revision } }",
    "one argument many times": "{ agents(" + "first: 1 " * 600 + ") { revision } }",
    "a number of 200,000 digits": "{ agents(first: " + "9" * 200_000 + ") { revision } }",
    "a text of 250,000 characters": '{ agent(agent_id: "' + "x" * 250_000 + '" nothing: 1) { id } }',
    "90 histories of 1,000 points": "{ "
    + " ".join(f"h{number}: queue_history(points: 1000) {{ started_at }}" for number in range(90))
    + " }",
    "a number that nobody reads": "{ agents(first: " + "9" * 5_000 + ") { revision } }",
    "introspection in circles": "{ __schema { types { " + "fields { type { " * 5 + "name" + " } }" * 5 + " } } }",
}


def _batch(sessions: int) -> bytes:
    one = b'{"command": {"argv": ["true"]}, "slots": [{"slot": "cpu", "amount": "1"}]},'
    query = b'{"query": "mutation($i: CreateSessionsInput!) { create_sessions(input: $i) { __typename } }"'
    return query + b', "variables": {"i": {"sessions": [' + one * sessions + b"0]}}}"


def _values(value: bytes, times: int) -> bytes:
    return b'{"query": "{ __typename }", "variables": {"a": [' + (value + b",") * times + b"1]}}"


def _text(text: str) -> Callable[[], bytes]:
    return lambda: json.dumps({"query": text}).encode()


BODIES: Final[Mapping[str, Callable[[], bytes]]] = {
    **{name: _text(text) for name, text in TEXTS.items()},
    "two operations of which none is named": _text("query A { __typename } query B { __typename }"),
    "deep lists": lambda: b"[" * 200_000 + b"]" * 200_000,
    "deep objects": lambda: b'{"query": "{ __typename }", "variables": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    "a batch of 190,000 sessions": lambda: _batch(190_000),
    "7,000,000 numbers": lambda: _values(b"1", 7_000_000),
    "5,000,000 objects": lambda: _values(b"{}", 5_000_000),
    "5,000,000 texts": lambda: _values(b'""', 5_000_000),
    "a number of a million digits": lambda: _values(b"9" * 1_000_000, 1),
}
"""Bodies for /graphql, all of which are refused. Made when they are sent: some have 15 MB."""
