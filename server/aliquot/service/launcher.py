"""The launcher: takes sessions that were given devices, commits that their orders go out, and sends them."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from aliquot.core import transitions
from aliquot.service.dispatch import Dispatch
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.launch_orders import order_for
from aliquot.service.rendezvous import RendezvousPorts
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.states import KernelState, SessionState

ACTOR: Final = "system:launcher"
SESSIONS_MAX: Final = 50
"""Sent in one go: the event loop is held up by it for that long."""

Orders = dict[AgentId, list[LaunchOrder]]


class Launcher:
    """Sessions wait here for a moment only; what is lost by a crash is found again when the agents join."""

    def __init__(self, *, journal: Journal, dispatch: Dispatch) -> None:
        self._journal = journal
        self._dispatch = dispatch
        self._waiting: asyncio.Queue[tuple[SessionId, ...]] = asyncio.Queue()

    def enqueue(self, sessions: Iterable[SessionId]) -> None:
        """Send these soon."""
        self._waiting.put_nowait(tuple(sessions))

    async def run(self) -> None:
        """Send for ever."""
        while True:
            sessions = [*await self._waiting.get()]
            while not self._waiting.empty():
                sessions.extend(self._waiting.get_nowait())
            for first in range(0, len(sessions), SESSIONS_MAX):
                await self.run_once(sessions[first : first + SESSIONS_MAX])

    async def run_once(self, sessions: Iterable[SessionId]) -> int:
        """Send the orders of these sessions; returns how many kernels that were."""
        orders = await self._journal.persist(lambda draft: self._write(draft, sessions), actor=ACTOR)
        self._dispatch.launch(orders)
        return sum(len(batch) for batch in orders.values())

    def _write(self, draft: Draft, sessions: Iterable[SessionId]) -> Orders:
        orders: Orders = defaultdict(list)
        ports = RendezvousPorts(draft)
        for session_id in sessions:
            session = draft.session(session_id)
            if session is None or session.state is not SessionState.SCHEDULED:
                continue
            for kernel in draft.kernels_in(session):
                started = transitions.move_kernel(kernel, KernelState.STARTING)
                if kernel.rank == 0:
                    started = replace(started, rendezvous_port=ports.give(kernel))
                started = draft.put(started, "starting")
                orders[kernel.agent_id].append(order_for(draft, session, started, epoch=self._journal.epoch))
            draft.put(transitions.send(session), "allocating")
        return orders
