"""The HTTP face of the real service, over the parts of a stage."""

from typing import Any

from aliquot.api.application import ApiDependencies
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import HeldOpen
from aliquot.clock import RandomIds
from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.accounts.trust import Trust
from aliquot.service.admin.admin import Administration
from aliquot.service.ports import Clock
from service_stage import Stage


def accounts_of(on: Stage, *, clock: Clock | None = None, trust: Trust = Trust.SHARED) -> Accounts:
    """`clock`: the stage's own, unless another one is given. `trust`: of the people among each other."""
    at = clock or on.clock
    vault = Secrets(clock=at, journal=on.journal)
    return Accounts(state=on.state, journal=on.journal, clock=at, ids=RandomIds(), vault=vault, trust=trust)


def face_of(on: Stage, *, accounts: Accounts, auth: TokenAuth, **more: Any) -> ApiDependencies:
    """What an application is made of; what is held open ends with its rights. `more`: further fields."""
    held_open = HeldOpen(auth)
    on.journal.listeners.append(held_open.note)
    return ApiDependencies(
        reader=on.queries,
        writer=on.sessions,
        watcher=on.watching,
        admin=Administration(state=on.state, journal=on.journal, clock=on.clock),
        accounts=accounts,
        auth=auth,
        held_open=held_open,
        external_allocations=on.external_allocations,
        **more,
    )
