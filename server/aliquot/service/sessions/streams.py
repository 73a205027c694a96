"""Streams of sessions: terminals and ports. The owner of a session opens them, operators, and members of its project
where the owner shares it; viewers never. Each is in the audit log."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from aliquot.service.access import check_may_submit, check_role, check_runs, may_enter
from aliquot.service.lifecycle.launch_orders import AppTokens
from aliquot.service.ports import ByteStream, Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.streams import StreamTarget, target_fault
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound, StateConflict
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import AgentId, KernelId, RequestId, SessionId, kernel_id
from aliquot_schema.orchestration import Action
from aliquot_schema.requests import Caller
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.sessions import Session, app_port
from aliquot_schema.states import ENDED, KernelState
from aliquot_schema.views.session_parts import session_label

RECORD_AGAIN_S: Final = 600.0
"""A program opens many connections to one port, and reads one file in many ranges; the audit log has one entry for
those of this period."""
RECENT_MAX: Final = 10_000


class AccessLog:
    """Entries of the audit log about the streams, or the results, that callers open."""

    def __init__(self, kind: str, *, journal: Journal, clock: Clock) -> None:
        """
        Args:
            kind: `stream` or `result`.
        """
        self._kind = kind
        self._journal = journal
        self._clock = clock
        self._recent: OrderedDict[tuple[str, ...], float] = OrderedDict()
        """When what a caller opened was recorded, monotonic seconds."""

    async def record(self, caller: Caller, what: str, facts: dict[str, str], *, once: bool = False) -> None:
        """Write an entry; with `once`, not if the caller has opened the same within `RECORD_AGAIN_S`."""
        key, now = (caller.user, str(caller.key_id), *facts.values()), self._clock.monotonic()
        if once and now - self._recent.get(key, -RECORD_AGAIN_S) < RECORD_AGAIN_S:
            return

        def change(draft: UnitOfWork) -> None:
            draft.put(Action(id=f"{self._kind}/{caller.user}", facts=facts), what)

        await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))
        if once:
            self._recent[key] = now
            self._recent.move_to_end(key)
            if len(self._recent) > RECENT_MAX:
                self._recent.popitem(last=False)


class StreamSource(Protocol):
    """The part of `Executor` that is needed here."""

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        """See `Executor.open_stream`."""


class SessionStreams:
    """Opens streams for callers."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        source: StreamSource,
        records_terminals: bool,
        app_tokens: AppTokens,
    ) -> None:
        """
        Args:
            records_terminals: whether the output of terminals is recorded on their nodes.
        """
        self._state = state
        self._log = AccessLog("stream", journal=journal, clock=clock)
        self._source = source
        self._records_terminals = records_terminals
        self._app_tokens = app_tokens

    async def open(self, caller: Caller, session_id: str, *, rank: int, target: StreamTarget) -> ByteStream:
        """Open a terminal or a port of a running session, after that is in the audit log.

        Raises:
            Forbidden: the caller is a viewer, or neither the owner, an operator, nor a member that it is shared with.
            NotFound: no such session or rank, or the session does not listen on the port.
            StateConflict: the session is not running.
            InvalidRequest: the target is invalid.
            Unavailable: the agent is unreachable or too old, or the audit log cannot be written.
        """
        check_role(caller, Role.USER)
        fault = target_fault(target)
        if fault is not None:
            raise InvalidRequest(fault, field="target")
        session = self._session(caller, session_id)
        kernel = self._kernel(session, rank)
        if target.terminal is not None:
            target = StreamTarget(terminal=replace(target.terminal, record=self._records_terminals))
        await self._record(caller, session, kernel, target)
        return await self._source.open_stream(kernel.agent_id, kernel.id, target)

    def check(self, caller: Caller, session_id: str, *, rank: int) -> None:
        """Check that a caller may open terminals and ports of a running session now. Raises as `open`."""
        check_role(caller, Role.USER)
        self._kernel(self._session(caller, session_id), rank)

    def check_app(self, caller: Caller, session_id: str, name: str, *, owner_only: bool = False) -> None:
        """Check that a caller may open an app of a running session. Raises as `open`.

        Args:
            owner_only: refuse all others: the app shares a host name with other apps.
        """
        session, _, _ = self._app(caller, session_id, name)
        if owner_only and caller.user != session.owner:
            text = f"{session_label(session)} belongs to {session.owner}; apps of other users are opened only"
            raise Forbidden(f"{text} at host names of their own; ask an admin for the setting apps-domain")

    async def record_app(self, caller: Caller, session_id: str, name: str) -> None:
        """Write into the audit log that an app is opened. Raises as `open`."""
        session, kernel, port = self._app(caller, session_id, name)
        facts = {"session": session.id, "kernel": kernel.id, "app": name, "port": str(port)}
        await self._log.record(caller, "app_opened", facts)

    def has_ended(self, session_id: str) -> bool:
        """Whether a session has ended, or is no longer known."""
        session = self._state.sessions.get(SessionId(session_id))
        return session is None or session.state in ENDED

    async def open_app(self, caller: Caller, session_id: str, name: str) -> tuple[ByteStream, str]:
        """Open a connection to an app; returns it and the app's token. Raises as `open`."""
        _, kernel, port = self._app(caller, session_id, name)
        stream = await self._source.open_stream(kernel.agent_id, kernel.id, StreamTarget(port=port))
        return stream, self._app_tokens.of(kernel.id)

    def _app(self, caller: Caller, session_id: str, name: str) -> tuple[Session, Kernel, int]:
        check_role(caller, Role.USER)
        session = self._session(caller, session_id)
        port = session.spec.apps.get(name)
        if port is None:
            raise NotFound(f"{session.id} has no app {name[:80]}", kind="app", id=name[:80])
        kernel = self._kernel(session, 0)
        return session, kernel, app_port(kernel.id, name, port)

    def _session(self, caller: Caller, session_id: str) -> Session:
        session = self._state.sessions.get(SessionId(session_id))
        if session is None:
            raise NotFound(f"there is no session {session_id[:80]}", kind="session", id=session_id[:80])
        if caller.user == session.owner:
            check_may_submit(caller)
        if not may_enter(caller, session.owner, session.project, is_shared=session.spec.shares_access):
            hint = caller.scope_hint(Role.OPERATOR)
            text = f"{session_label(session)} belongs to {session.owner}; only its owner and operators may open its"
            raise Forbidden(
                f"{text} terminals and ports, and members of its project if it was submitted with --shared{hint}"
            )
        return session

    def _kernel(self, session: Session, rank: int) -> Kernel:
        check_runs(session)
        if not 0 <= rank < session.spec.cluster_size:
            last = session.spec.cluster_size - 1
            raise NotFound(f"{session.id} has no rank {rank}; its ranks are 0 to {last}", kind="rank", id=str(rank))
        found = self._state.kernels.get(kernel_id(session.id, attempt=session.attempt, rank=rank))
        if found is None or found.state is not KernelState.RUNNING:
            check_has_begun_with(session, rank, self._state.kernels_in(session))
            raise StateConflict(f"{session.id} is not running", id=session.id, state=str(session.state))
        return found

    async def _record(self, caller: Caller, session: Session, kernel: Kernel, target: StreamTarget) -> None:
        facts = {"session": session.id, "kernel": kernel.id}
        if target.terminal is not None:
            facts |= {"terminal": target.terminal.name, "recorded": str(target.terminal.record).lower()}
            await self._log.record(caller, "terminal_opened", facts)
        else:
            await self._log.record(caller, "port_opened", facts | {"port": str(target.port)}, once=True)


def check_has_begun_with(session: Session, rank: int, kernels: Sequence[Kernel]) -> None:
    """An elastic session may begin with fewer kernels than it asked for.

    Args:
        kernels: those of its newest attempt.
    Raises:
        NotFound: the attempt began without this rank.
    """
    if kernels and all(kernel.rank != rank for kernel in kernels):
        began = f"{session.id} began with {len(kernels)} of its {session.spec.cluster_size} kernels"
        raise NotFound(f"{began}, without rank {rank}", kind="rank", id=str(rank))
