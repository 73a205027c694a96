"""The office: what all acts of operators share."""

from collections.abc import Callable
from typing import TypeVar

from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.permissions import check_role
from aliquot.service.ports import Clock
from aliquot.service.state import State
from aliquot_schema.errors import VersionConflict
from aliquot_schema.ids import RequestId
from aliquot_schema.requests import Caller, Role

T = TypeVar("T")


class Office:
    """Acts are of operators alone, and return after the commit."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock

    async def _act(self, caller: Caller, change: Callable[[Draft], T]) -> T:
        """Commit a change in the caller's name.

        Raises:
            Forbidden: he is no operator.
            Whatever `change` raises.
        """
        check_role(caller, Role.OPERATOR)
        return await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))


def check_version(id_: str, *, expected: int | None, actual: int) -> None:
    """See that a caller knows what he changes.

    Raises:
        VersionConflict: it changed since he read it.
    """
    if expected is not None and expected != actual:
        raise VersionConflict(
            f"{id_} has version {actual} by now, not {expected}; read it again",
            id=id_,
            expected=expected,
            actual=actual,
        )
