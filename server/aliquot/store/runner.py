"""What those need who read and write the database beside commits."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class Runner(Protocol):
    """Runs functions of a connection, and says `StoreUnavailable` when the database fails."""

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run what makes its own transactions."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run what only reads."""
