"""Operator commands: role check, version check and commit, shared by all commands of operators."""

from collections.abc import Callable
from typing import TypeVar

from aliquot.service.access import check_role
from aliquot.service.ports import Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import VersionConflict
from aliquot_schema.ids import RequestId
from aliquot_schema.requests import Caller, Role

T = TypeVar("T")


class OperatorCommands:
    """Base of command classes. Each command requires the role operator and returns after its commit."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock

    async def _act(self, caller: Caller, change: Callable[[UnitOfWork], T]) -> T:
        """Commit a change with the caller as its actor. Errors of `change` pass through.

        Raises:
            Forbidden: the caller is no operator.
        """
        check_role(caller, Role.OPERATOR)
        return await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))


def check_version(id_: str, *, expected: int | None, actual: int, advice: str = "read it again") -> None:
    """Check that a record has the version that the caller has read; None = not checked.

    Args:
        advice: what to do where it has another one.
    Raises:
        VersionConflict: the record has changed since.
    """
    if expected is not None and expected != actual:
        raise VersionConflict(
            f"{id_} has version {actual} by now, not {expected}; {advice}",
            id=id_,
            expected=expected,
            actual=actual,
        )
