"""Hypothesis strategies for records, derived from field types, so that new fields are covered."""

from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields

from aliquot_schema.resources.slots import AMOUNT_MAX, UNLIMITED, SlotAmounts

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NUMBERS = st.integers(0, AMOUNT_MAX) | st.integers(0, 3)
SLOTS = st.sampled_from(["cpu", "mem", "cuda.device", "cuda.shares"])


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a record's field type."""
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    if get_origin(kind) in (UnionType, Union):
        return st.one_of([st.none() if part is NoneType else of_type(part) for part in get_args(kind)])
    if get_origin(kind) is tuple and ... not in get_args(kind):
        return st.tuples(*map(of_type, get_args(kind)))
    if get_origin(kind) is tuple:
        return st.lists(of_type(get_args(kind)[0]), max_size=2).map(tuple)
    if get_origin(kind) is Mapping:
        key, value = get_args(kind)
        return st.dictionaries(of_type(key), of_type(value), max_size=2)
    return _of_class(kind)


def _of_class(kind: type) -> st.SearchStrategy[Any]:
    if issubclass(kind, Struct):
        hints = get_type_hints(kind)
        return st.builds(kind, **{field.name: of_type(hints[field.name]) for field in fields(kind)})
    if issubclass(kind, tuple):  # a named one
        return st.builds(kind, **{name: of_type(hint) for name, hint in get_type_hints(kind).items()})
    if issubclass(kind, SlotAmounts):
        return st.dictionaries(SLOTS, NUMBERS | st.just(UNLIMITED), max_size=3).map(kind)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    return {str: TEXTS, int: NUMBERS, bool: st.booleans()}[kind]
