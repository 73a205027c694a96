"""Charging: the books of what is held, kept from the leases as they come."""

from collections.abc import Iterable, Iterator, Mapping

from aliquot.core.policy import Policy
from aliquot.service.accounting import Books, Charged
from aliquot.service.fleet import Fleet
from aliquot.service.holdings import Holdings
from aliquot_schema.ids import SessionId
from aliquot_schema.leases import Lease
from aliquot_schema.quotas import Account
from aliquot_schema.sessions import DEFAULT_PROJECT, Session


class Charging:
    """Knows whose project a lease is charged to, and the devices that its price depends on."""

    def __init__(self, *, sessions: Mapping[SessionId, Session], fleet: Fleet, holdings: Holdings) -> None:
        self.books = Books()
        self._sessions = sessions
        self._fleet = fleet
        self._holdings = holdings

    def open(self, accounts: Iterable[Account], *, policy: Policy) -> None:
        """Begin from the records, and what is held."""
        self.books = Books.opened(accounts, held=self._held(), policy=policy)

    def charge(self, lease: Lease, *, policy: Policy) -> None:
        """A lease was granted, renewed or released."""
        if lease.released_us is None:
            self.books.grant(self._charged(lease), policy=policy)
        else:
            self.books.release(self._charged(lease))

    def _held(self) -> Iterator[Charged]:
        """What is held, by whomever."""
        for leases in self._holdings.open_leases.values():
            for lease in leases.values():
                yield self._charged(lease)

    def _charged(self, lease: Lease) -> Charged:
        session = self._sessions.get(lease.session_id) if lease.session_id is not None else None
        return Charged(
            lease=lease,
            project=DEFAULT_PROJECT if session is None else session.project,
            devices=self._fleet.layouts[lease.agent_id].devices,
        )
