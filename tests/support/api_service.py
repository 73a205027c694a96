"""The HTTP API of the real service, over a test stage."""

from typing import Any

from aliquot.api.application import ApiDependencies
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.clock import RandomIds
from aliquot.service.access import Trust
from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.admin.admin import Administration
from aliquot.service.history.history import History
from aliquot.service.ports import Clock
from aliquot.service.sessions.files import SessionFiles
from aliquot.service.sessions.templates import Templates
from aliquot_schema.graphql.context import Services
from api_streams import FakeStreams
from service_stage import Stage


def accounts_of(on: Stage, *, clock: Clock | None = None, trust: Trust = Trust.SHARED, **more: Any) -> Accounts:
    """`clock`: by default the stage's. `trust`: among the users. `more`: further arguments."""
    at = clock or on.clock
    vault = Secrets(clock=at, journal=on.journal)
    return Accounts(state=on.state, journal=on.journal, clock=at, ids=RandomIds(), vault=vault, trust=trust, **more)


def face_of(
    on: Stage, *, accounts: Accounts, auth: TokenAuth, history: History | None = None, **more: Any
) -> ApiDependencies:
    """Dependencies of an application; open connections end with their key. `more`: further fields."""
    open_connections = OpenConnections(auth)
    on.journal.subscribe(open_connections.note)
    return ApiDependencies(
        services=Services(
            queries=on.queries,
            sessions=on.sessions,
            subscriptions=on.watching,
            administration=Administration(state=on.state, journal=on.journal, clock=on.clock),
            accounts=accounts,
            external_allocations=on.external_allocations,
            bookings=on.bookings,
            booking_effect=on.booking_effects.effect,
            booking_import=on.booking_imports.run,
            history=history,
            files=SessionFiles(
                state=on.state, store=on.store, journal=on.journal, clock=on.clock, source=FakeStreams(), copies=None
            ),
            templates=Templates(state=on.state, journal=on.journal, clock=on.clock),
        ),
        auth=auth,
        open_connections=open_connections,
        **more,
    )
