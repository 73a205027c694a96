"""The tree of expected errors."""

import inspect
import re

import pytest

from aliquot_schema import errors
from aliquot_schema.errors import AliquotError


def _tree(parent: type[AliquotError]) -> dict[str, str]:
    """Subclass names, with their parents' names."""
    found: dict[str, str] = {}
    for child in parent.__subclasses__():
        if child.__module__ == errors.__name__:
            found |= {child.__name__: parent.__name__} | _tree(child)
    return found


def _drawn() -> dict[str, str]:
    parents, found = {0: "AliquotError"}, {}
    for indent, name in re.findall(r"^([│ ]*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4 + 1
        parents[depth] = name
        found[name] = parents[depth - 1]
    return found


CLASSES = [getattr(errors, name) for name in ["AliquotError", *_tree(AliquotError)]]


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert _drawn() == _tree(AliquotError)


def test_codes_are_unique_and_plain() -> None:
    codes = [error.code for error in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z][a-z_]*", code) for code in codes)


@pytest.mark.parametrize("error", CLASSES[1:], ids=lambda error: error.__name__)
def test_the_code_is_the_name_in_snake_case(error: type[AliquotError]) -> None:
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()
    assert error.code == words
    assert error.__doc__


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_an_error_keeps_its_message_and_fields(error: type[AliquotError]) -> None:
    names = [name for name in inspect.signature(error).parameters if name != "message"]
    made = error("what to do", **{name: f"a {name}" for name in names})
    assert str(made) == made.message == "what to do"
    assert {name: getattr(made, name) for name in names} == {name: f"a {name}" for name in names}
