"""An independent fairness ledger, in integer milli-devices x milliseconds, from leases alone."""

from collections import Counter
from dataclasses import dataclass

from aliquot.core.clock_correction import ClockCorrection
from aliquot_schema.events import Record
from aliquot_schema.orchestration import CLOCK_ACTION, Action
from aliquot_schema.quotas import Account
from aliquot_schema.resources.leases import Lease
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.sessions import DEFAULT_PROJECT, SavedWork, Session

WHOLE = "cuda.device"


@dataclass(slots=True)
class _Place:
    at_us: int = 0
    holds_milli: int = 0
    charged: int = 0


class Charges:
    """By project and user. Time before a place's last change is not counted again."""

    def __init__(self) -> None:
        self.project_of: dict[str, str] = {}
        self.accounts: dict[tuple[str, str], Account] = {}
        self._places: dict[tuple[str, str], _Place] = {}
        self._works: dict[str, SavedWork] = {}
        self._to_explain: Counter[tuple[str, str]] = Counter()
        """Decreases of accounts, less the credits of sessions; the account comes first in a commit."""

    def take(self, record: Record) -> None:
        """Count a lease's grant or release, but not renewals; remember each account's charge."""
        if isinstance(record, Account):
            self._to_explain[record.project, record.user] += max(self._charged_before(record) - record.charged, 0)
            self.accounts[record.project, record.user] = record
        elif isinstance(record, Lease) and (record.version == 1 or record.released_us is not None):
            sign, at_us = (1, record.granted_us) if record.released_us is None else (-1, record.released_us)
            project = self.project_of.get(record.session_id or "", DEFAULT_PROJECT)
            place = self._places.setdefault((project, record.owner), _Place())
            until_us = max(at_us, place.at_us)
            place.charged += place.holds_milli * (until_us // 1000 - place.at_us // 1000)
            place.at_us = until_us
            place.holds_milli += sign * _rate(record)
        elif isinstance(record, Session):
            self._credit(record)
        elif isinstance(record, Action) and record.id == CLOCK_ACTION:
            correction = ClockCorrection.of(record)
            for place in self._places.values():
                if correction.is_measured:
                    until_us = max(correction.from_us, place.at_us)
                    place.charged += place.holds_milli * (until_us // 1000 - place.at_us // 1000)
                    place.at_us = correction.to_us
                else:
                    place.at_us = min(place.at_us, correction.to_us)

    def check_all_settled(self) -> None:
        """Nothing is held, and every account matches the usage to the device-millisecond."""
        for key, place in self._places.items():
            assert place.holds_milli == 0, f"{key} holds {place.holds_milli} milli of devices"
            assert self._to_explain[key] <= 0, f"{key} is charged less than before, and no session was credited"
            said = self.accounts[key].charged
            assert said == place.charged, f"{key} was charged {said} device-milliseconds for {place.charged}"

    def _credit(self, session: Session) -> None:
        """Count a session's lost work. Loss and credit only grow, and the credit never exceeds the loss."""
        work, known = session.work, self._works.get(session.id, SavedWork())
        if work is None:
            assert session.id not in self._works, f"{session.id} has no record of its work any more"
            return
        assert known.credited_ms <= work.credited_ms <= work.lost_ms >= known.lost_ms, f"{session.id}: {known}, {work}"
        assert 0 <= work.began_ms <= work.kept_ms, f"{session.id}: {work}"
        self._works[session.id] = work
        place = self._places.setdefault((session.project, session.owner), _Place())
        credit = work.credited_ms - known.credited_ms
        place.charged = max(place.charged - credit, 0)
        self._to_explain[session.project, session.owner] -= credit

    def _charged_before(self, account: Account) -> int:
        before = self.accounts.get((account.project, account.user))
        return 0 if before is None else before.charged


def _rate(lease: Lease) -> int:
    """A whole device costs 1000 milli, a share its amount; other slots are free in these runs."""
    return sum((MILLI if slot == WHOLE else 1) * sum(amounts.values()) for slot, amounts in lease.spec.items())
