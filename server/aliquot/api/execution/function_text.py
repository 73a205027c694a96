"""The text of functions that are generated, and the objects which that text refers to."""

from collections.abc import Callable, Sequence
from typing import Any

Reader = Callable[[Any], Any]
"""Takes a resolver's value and returns it completed: plain dictionaries, lists and leaves."""


class FunctionText:
    """Functions that call each other, compiled together."""

    def __init__(self) -> None:
        self._scope: dict[str, Any] = {}
        self._lines: list[str] = []
        self._count = 0

    def constant(self, value: object) -> str:
        """Give an object a name."""
        name = self._next("c")
        self._scope[name] = value
        return name

    def table(self, entries: dict[str, str]) -> str:
        """Add a dictionary of texts to functions, and return its name."""
        name = self._next("t")
        self._lines.append(f"{name} = {{{', '.join(f'{key!r}: {entry}' for key, entry in entries.items())}}}")
        return name

    def function(self, parameter: str, body: Sequence[str]) -> str:
        """Add a function of one parameter, and return its name."""
        name = self._next("f")
        self._lines += [f"def {name}({parameter}):", *(f"    {line}" for line in body)]
        return name

    def compile(self, name: str) -> Reader:
        """Make all functions, and return one of them."""
        exec(compile("\n".join(self._lines), "<compiled selection>", "exec"), self._scope)
        reader: Reader = self._scope[name]
        return reader

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"
