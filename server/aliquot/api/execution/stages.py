"""Stages: what extensions do around the parsing, the validation and the execution of an operation, and around it all.

Strawberry finds out for every operation anew what sort of function each hook is and makes context managers of them,
which is a tenth of what a submission takes. Here that is found out once for a class.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from inspect import isgeneratorfunction
from types import TracebackType
from typing import Any, Final

from strawberry.extensions import SchemaExtension
from strawberry.extensions.context import (
    ExecutingContextManager,
    ExtensionContextManagerBase,
    OperationContextManager,
    ParsingContextManager,
    ValidationContextManager,
)
from strawberry.extensions.runner import SchemaExtensionsRunner

Hook = Callable[[SchemaExtension], Iterator[None]]

_END: Final = object()


class _Stage(ExtensionContextManagerBase):
    """Hooks are generators with one `yield`; what fails within passes them by."""

    __slots__ = ("_entered", "_extensions")

    def __init__(self, extensions: Sequence[SchemaExtension]) -> None:
        self._extensions = extensions
        self._entered: list[Iterator[None]] = []

    async def __aenter__(self) -> None:
        for extension in self._extensions:
            kind = type(extension)
            hook = _hook(kind, self.HOOK_NAME)  # type: ignore[arg-type]  # a class is hashed by its own type
            if hook is not None:
                entered = hook(extension)
                next(entered)
                self._entered.append(entered)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if exc_val is not None:
            return
        for entered in reversed(self._entered):
            assert next(entered, _END) is _END, f"a hook of {self.HOOK_NAME} goes on after its end"


class _Operation(_Stage, OperationContextManager):
    """Around it all."""


class _Parsing(_Stage, ParsingContextManager):
    """Around the parsing."""


class _Validation(_Stage, ValidationContextManager):
    """Around the validation."""


class _Executing(_Stage, ExecutingContextManager):
    """Around the execution."""


class Stages(SchemaExtensionsRunner):
    """Of one operation that is executed asynchronously."""

    def operation(self) -> OperationContextManager:
        """Around it all."""
        return _Operation(self.extensions)

    def validation(self) -> ValidationContextManager:
        """Around the validation."""
        return _Validation(self.extensions)

    def parsing(self) -> ParsingContextManager:
        """Around the parsing."""
        return _Parsing(self.extensions)

    def executing(self) -> ExecutingContextManager:
        """Around the execution."""
        return _Executing(self.extensions)


@lru_cache
def _hook(kind: type[SchemaExtension], name: str) -> Hook | None:
    """None = the extension has nothing to do there."""
    found: Any = getattr(kind, name)
    if found is getattr(SchemaExtension, name):
        return None
    if not isgeneratorfunction(found):
        raise TypeError(f"{name} of {kind.__name__} must be a generator; others are not known here")
    hook: Hook = found
    return hook
