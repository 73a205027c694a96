"""Resting: receivers, and people behind them, are left alone for a while after they did not take a letter."""

from dataclasses import dataclass
from typing import Final

from aliquot.service.notices import backoff
from aliquot.service.notices.letters import is_urgent
from aliquot.service.notices.ports import NotDelivered
from aliquot_schema.ids import UserId
from aliquot_schema.notices import Delivery

Party = tuple[str, UserId | None, bool]
"""A receiver, or with True one person behind it: an address that a mail server does not like is no other's fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    failures: int
    since_us: int
    until_us: int


class Resting:
    """In memory: after a take-over everybody is tried anew."""

    def __init__(self) -> None:
        self._rests: Final = dict[Party, _Rest]()

    def note(self, notices: tuple[Delivery, ...], error: NotDelivered | None, *, now_us: int) -> None:
        """What came of a letter."""
        receiver, person = _parties(notices[0])
        if error is None:
            self._rests.pop(receiver, None)
            self._rests.pop(person, None)
        elif not error.is_final:
            failed = person if error.is_of_letter else receiver
            failures = self._rests[failed].failures + 1 if failed in self._rests else 1
            until_us = now_us + backoff.wait_us(failures)
            self._rests[failed] = _Rest(failures=failures, since_us=now_us, until_us=until_us)

    def keeps(self, notices: tuple[Delivery, ...], *, now_us: int) -> bool:
        """Whether a letter has to wait. One that is urgent, and was made after the last failure, does not."""
        rests = [rest for party in _parties(notices[0]) if (rest := self._rests.get(party)) and now_us < rest.until_us]
        made_us = max(one.made_us for one in notices)
        return bool(rests) and not (is_urgent(notices) and all(rest.since_us < made_us for rest in rests))


def _parties(one: Delivery) -> tuple[Party, Party]:
    return (one.receiver, None, False), (one.receiver, one.user, True)
