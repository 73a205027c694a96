"""The real administration over a store in memory, with no agents, for tests of the HTTP face."""

from aliquot.service.administration import Administration
from aliquot.service.feed import Feed
from aliquot.service.journal import Journal
from aliquot.service.state import State
from service_memory_store import MemoryStore
from service_stage import EPOCH, StepClock


def administration() -> Administration:
    """With a state of its own."""
    state, store, clock = State(), MemoryStore(), StepClock()
    journal = Journal(store=store, state=state, feed=Feed(store, revision=0), clock=clock, epoch=EPOCH)
    return Administration(state=state, journal=journal, clock=clock)
