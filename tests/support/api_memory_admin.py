"""The real administration with an in-memory store and no agents, for HTTP API tests."""

from aliquot.clock import RandomIds
from aliquot.service.access import Trust
from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.admin.admin import Administration
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from service_memory_store import MemoryStore
from service_stage import EPOCH, StepClock


class MemoryAdministration:
    """Administration and accounts with their own state."""

    def __init__(self) -> None:
        store, clock = MemoryStore(), StepClock()
        self.store = store
        self.state = State()
        self.journal = Journal(store=store, state=self.state, feed=Feed(store, revision=0), clock=clock, epoch=EPOCH)
        self.administration = Administration(state=self.state, journal=self.journal, clock=clock)
        self.accounts = Accounts(
            state=self.state,
            journal=self.journal,
            clock=clock,
            ids=RandomIds(),
            vault=Secrets(clock=clock, journal=self.journal),
            trust=Trust.SHARED,
        )
