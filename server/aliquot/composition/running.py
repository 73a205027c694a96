"""What runs behind the HTTP face, whether the server is alone or one of several."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from aliquot.api.agent_socket import AgentDoor
from aliquot.composition.agent_side import AgentSide
from aliquot.service.leadership.standing import Standing
from aliquot.service.measuring.store_counts import StoreMeasures
from aliquot.service.use_cases import UseCases
from aliquot.service.watching import Outputs
from aliquot.store.store import DatabaseStore

log: Final = logging.getLogger("aliquot.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server without its listener."""

    cases: UseCases
    agents: AgentDoor
    outputs: Outputs | None
    """Of its own agents, for the other servers; None where there are none."""
    side: Callable[[], AgentSide | None]
    """None while another server leads."""
    standing: Callable[[], Standing]
    missing: Callable[[], str | None]
    """Why it cannot serve now, in words; None when it can."""
    failed: asyncio.Event
    """Set when a loop ended that must not: the process has to be started again."""
    database: "WatchedDatabase"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedDatabase:
    """What there is to know of the database."""

    measures: StoreMeasures
    ask: Callable[[], Awaitable[object]]
    """Reads next to nothing."""

    @classmethod
    def of(cls, store: DatabaseStore) -> "WatchedDatabase":
        """As its store sees it."""
        return cls(measures=store.measures, ask=store.present_term)


@dataclass(slots=True)
class Watched:
    """A task that must not end by itself."""

    task: asyncio.Task[None]
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.task.add_done_callback(self._note_end)

    @property
    def fault(self) -> str | None:
        """What is wrong with it, in words."""
        return "a loop of the server has failed" if self.failed.is_set() else None

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        log.critical("a loop of the server failed; it has to be started again", exc_info=task.exception())
        self.failed.set()
