"""Read models in which some values have the wrong type."""

import math
from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import Any

from graphql import Undefined
from msgspec import Struct
from msgspec.structs import replace

from aliquot_schema.states import SessionState


class Text(str):
    """Text that is not exactly `str`."""


class Unreadable:
    """Fails on any attribute access."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} cannot be read")


def odd_values() -> list[Any]:
    """One of each."""
    return [
        None,
        Undefined,
        ValueError("an error where a value should be"),
        Text("text"),
        SessionState.RUNNING,
        2**40,
        2**31,
        True,
        math.nan,
        math.inf,
        1.0,
        1.5,
        7,
        b"bytes",
        datetime(2026, 3, 1),  # noqa: DTZ001 # naive on purpose: the scalar refuses it
        {"id": "a mapping"},
        ("a", None, 5),
        ["a", ["b"]],
        (),
        iter(["one", "two"]),
        {"a set"},
        Unreadable(),
        object,
    ]


def spoiled(view: Any, random: Random, *, share: float) -> Any:
    """A copy of a read model with this share of its fields, nested ones included, made odd."""
    if isinstance(view, tuple | list):
        return type(view)(spoiled(item, random, share=share) for item in view)
    if not isinstance(view, Struct):
        return view
    return replace(view, **dict(_changes(view, random, share)))


def _changes(view: Any, random: Random, share: float) -> Iterator[tuple[str, Any]]:
    for name in view.__struct_fields__:
        value = getattr(view, name)
        is_odd = random.random() < share
        yield name, random.choice(odd_values()) if is_odd else spoiled(value, random, share=share)
