"""Submission checks: new sessions against pools, agents, quotas and queue limits, and their secrets and commands."""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.quota import impossible_under, too_many_queued
from aliquot.core.validation.session import (
    PerGpu,
    accelerator_kinds,
    is_short,
    unknown_slot,
    with_full_names,
    with_host_amounts,
)
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.accounts.workspaces import NO_UPLOADS, Workspaces
from aliquot.service.sessions.batches import ErrorWrapper, wrapping_errors
from aliquot.service.sessions.command_checks import CommandChecks
from aliquot.service.state.indexes import tasks_waiting
from aliquot.service.state.projects import is_deleted, known_projects
from aliquot.service.state.state import State
from aliquot_schema.errors import AliquotError, InvalidAmount, InvalidRequest, NotMultipleOfQuantum, QueueFull
from aliquot_schema.identity.secrets import SecretUse
from aliquot_schema.ids import PoolId, ProjectId, SlotName, UserId
from aliquot_schema.policies import Pool
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.requests import NewSession
from aliquot_schema.resources.slots import SLOT_NAME, format_amount, parse_amount
from aliquot_schema.sessions import DEFAULT_PROJECT, Session, SessionSpec
from aliquot_schema.states import AgentState

OTHER_FIELDS: Final = ("labels:", "cluster_size:", "gpu_memory_gb:", "topology:", "preemptible:")
PENDING_MAX: Final = 100_000
"""Default limit of waiting tasks, over all users."""
RETRY_AFTER_S: Final = 60.0
USER_SHARE_PCT: Final = 50
"""Default share of the limit that one user may fill while others have sessions waiting."""
OPERATOR_SHARE: Final = 10
"""A tenth of the limit is room for each operator on top of it, while others fill the queue."""


class QueueLimit(Struct, frozen=True, kw_only=True):
    """Limits of waiting tasks, over all users and of one user."""

    tasks_max: int = PENDING_MAX
    user_share_pct: int = USER_SHARE_PCT

    @property
    def per_user(self) -> int:
        """Waiting tasks of one user while other users have some. A user alone may have `tasks_max`."""
        return max(1, self.tasks_max * self.user_share_pct // 100)

    def check(self, state: State, user: UserId, new_tasks: int, *, is_operator: bool) -> None:
        """Reject new tasks of a user.

        Tasks of another user beyond their share do not count against this user: they came while that user was alone.

        Raises:
            QueueFull: the user's share or the whole queue is full.
        """
        waiting = state.pending_counts.waiting_by_owner()
        own = waiting.pop(user, 0)
        others = sum(min(tasks, self.per_user) for tasks in waiting.values())
        if others and is_operator and own + new_tasks <= max(1, self.tasks_max // OPERATOR_SHARE):
            return
        if others and own + new_tasks > self.per_user:
            raise QueueFull(
                f"{user} has {own} waiting tasks, and this adds {new_tasks}. While other users wait too, one user may "
                f"have {self.per_user} of the queue's {self.tasks_max}; try again when some have started",
                limit=self.per_user,
                queued=own,
                retry_after=RETRY_AFTER_S,
            )
        if others + own + new_tasks > self.tasks_max:
            raise QueueFull(
                f"the queue holds {state.tasks_pending} of at most {self.tasks_max} waiting tasks, this adds "
                f"{new_tasks}; try again when some have started",
                limit=self.tasks_max,
                queued=state.tasks_pending,
                retry_after=RETRY_AFTER_S,
            )


DEFAULT_QUEUE_LIMIT: Final = QueueLimit()


def complete(state: State, request: NewSession, *, pool: PoolId) -> NewSession:
    """The request with full names of slots, and with the CPUs and memory that its pool gives with each GPU. A name
    without a visible character is none.

    A fallback gets only those of them that the request itself was given. An external allocation gets neither.

    Raises:
        UnknownSlot, InvalidAmount, NotMultipleOfQuantum: see `core.validation.session`.
    """
    if request.name and not any(one.isprintable() and not one.isspace() for one in request.name):
        request = replace(request, name=None)
    slots = full_names(state, request.slots, pool=pool, field="slots")
    fallbacks = [
        replace(fallback, slots=full_names(state, fallback.slots, pool=pool, field="fallbacks"))
        for fallback in request.fallbacks
    ]
    if request.external_lease is not None:
        return replace(request, slots=slots, fallbacks=fallbacks)
    gives = per_gpu(state, pool)
    completed = with_host_amounts(slots, gives)
    if completed == request.slots and not fallbacks:
        return request
    added = {slot for slot, _ in completed[len(slots) :]}
    return replace(
        request,
        slots=completed,
        fallbacks=[
            replace(fallback, slots=with_host_amounts(fallback.slots, gives, only=added)) for fallback in fallbacks
        ],
    )


def _check_amount(state: State, slot: str, text: str, *, field: str) -> None:
    """An amount that is none, of a slot that does not exist: the slot is what is wrong (`memory=3g`).

    One that is too fine is refused with the step of the devices, which may be coarser than that of the slot.
    """
    try:
        parse_amount(slot, text)
    except InvalidAmount:
        check_slot(state, slot, field=field)
        raise
    except NotMultipleOfQuantum as error:
        devices = (device for agent in state.agents.values() for device in agent.devices)
        steps = [device.quanta[SlotName(slot)] for device in devices if slot in device.quanta]
        if not steps:
            raise
        step = format_amount(slot, min(steps))
        text = f"{slot}: {error.amount} is not a multiple of {step}"
        raise NotMultipleOfQuantum(text, slot=slot, amount=error.amount, quantum=step) from None


def full_names(
    state: State, pairs: Sequence[tuple[str, str]], *, pool: PoolId, field: str
) -> tuple[tuple[str, str], ...]:
    """The amounts with `gpu` and other short names replaced: by slots of the pool, or of the cluster if it has none.

    Raises:
        UnknownSlot, InvalidAmount, NotMultipleOfQuantum: an amount of a cluster that has agents.
    """
    found = _with_full_names(state, pairs, pool=pool, field=field)
    if state.feasible_requests.has_agents:
        for slot, text in found:
            _check_amount(state, slot, text, field=field)
    return found


def _with_full_names(
    state: State, pairs: Sequence[tuple[str, str]], *, pool: PoolId, field: str
) -> tuple[tuple[str, str], ...]:
    known = state.slots_in_use()
    if not any(is_short(slot, known=known) for slot, _ in pairs):
        return tuple(pairs)
    members = (agent for agent in state.agents.values() if agent.pool == pool and agent.state is not AgentState.LEFT)
    in_pool = {slot for agent in members for slot in agent.slot_types} & set(known)
    return with_full_names(pairs, known=in_pool if accelerator_kinds(in_pool) else known, field=field)


def per_gpu(state: State, pool: PoolId) -> PerGpu:
    """CPUs and memory that a pool gives with each GPU; what is not set is nothing."""
    settings = state.policy.pools.get(pool, Pool())
    return PerGpu(cpus=settings.cpu_per_gpu or 0, mem_bytes=settings.mem_bytes_per_gpu or 0)


def check_session(state: State, session: Session) -> None:
    """Reject a session that could never run.

    Raises:
        InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded: the message says what to change.
    """
    _check_pool(state, session.pool)
    _check_feasible(state, session)
    refusal = impossible_under(session.spec, state.quotas, user=session.owner, project=session.project)
    if refusal is not None:
        raise refusal


def check_project_exists(state: State, project: ProjectId) -> None:
    """Reject a project that does not exist, which is mostly a misspelt name.

    Raises:
        InvalidRequest: the message names a similar project, if there is one.
    """
    is_created = quota_id(QuotaScope.PROJECT, project) in state.quotas and not is_deleted(state, project)
    if project == DEFAULT_PROJECT or is_created:
        return
    known = known_projects(state)
    if project not in known:
        similar = get_close_matches(project, sorted(known), n=1)
        hint = f"; did you mean {similar[0]}?" if similar else "."
        raise InvalidRequest(
            f"project: there is no project {project[:80]}{hint} An operator creates projects with "
            "`aliquot project create NAME`",
            field="project",
        )


def check_queue(state: State, sessions: Sequence[Session], *, limit: QueueLimit, is_operator: bool) -> None:
    """Reject sessions of one user that would exceed the limit of waiting tasks, of the server or of a quota.

    Args:
        is_operator: whether the caller is an operator, who has room on top of the limit.
    Raises:
        QueueFull, QuotaExceeded.
    """
    new_tasks = sum(map(tasks_waiting, sessions))
    if sessions and state.tasks_pending + new_tasks > limit.per_user:
        limit.check(state, sessions[0].owner, new_tasks, is_operator=is_operator)
    if any(quota.max_queued is not None for quota in state.quotas.values()):
        new = Counter[tuple[UserId, ProjectId]]()
        for session in sessions:
            new[session.owner, session.project] += tasks_waiting(session)
        for (user, project), tasks in new.items():
            refusal = too_many_queued(
                tasks, state.quotas, queued=lambda quota: _queued(state, quota), user=user, project=project
            )
            if refusal is not None:
                raise refusal


def check_moved(state: State, session: Session) -> None:
    """Reject a waiting session that came from another project, if too many tasks wait in this one.

    Raises:
        QuotaExceeded.
    """
    name = quota_id(QuotaScope.PROJECT, session.project)
    quotas = {name: state.quotas[name]} if name in state.quotas else {}
    refusal = too_many_queued(
        tasks_waiting(session),
        quotas,
        queued=lambda quota: _queued(state, quota),
        user=session.owner,
        project=session.project,
    )
    if refusal is not None:
        raise refusal


def _queued(state: State, quota: Quota) -> int:
    found = 0
    for session_id in state.pending:
        session = state.sessions[session_id]
        if quota.scope is QuotaScope.CLUSTER or quota.name == (
            session.owner if quota.scope is QuotaScope.USER else session.project
        ):
            found += tasks_waiting(session)
    return found


def _check_pool(state: State, pool: PoolId) -> None:
    if pool not in state.policy.pools:
        known = ", ".join(sorted(state.policy.pools))
        raise InvalidRequest(f"pool: there is no {pool}; the pools are {known}", field="pool")


def _check_feasible(state: State, session: Session) -> None:
    for field, spec in _requests(session.spec):
        if state.feasible_requests.has_agents:
            for slot in spec.slots:
                check_slot(state, slot, field=field)
        refusal = state.feasible_requests.refusal(spec, pool=session.pool, options=state.rules.allocation)
        if refusal is not None:
            raise _with_field(refusal, field)


def _requests(spec: SessionSpec) -> Iterator[tuple[str, SessionSpec]]:
    """The request and its fallbacks, each with the name of its field."""
    yield "slots", spec
    for position, fallback in enumerate(spec.fallbacks, start=1):
        yield (
            f"fallbacks: number {position}",
            replace(
                spec,
                slots=fallback.slots,
                cluster_size=fallback.cluster_size,
                gpu_memory_bytes=fallback.gpu_memory_bytes,
            ),
        )


def _with_field(refusal: AliquotError, field: str) -> AliquotError:
    """The refusal with its field in front; a refusal of the main request may already name another field."""
    if field != "slots" or not refusal.message.startswith(OTHER_FIELDS):
        refusal.message = f"{field}: {refusal.message}"
        refusal.args = (refusal.message,)
    return refusal


def check_slot(state: State, slot: str, *, field: str) -> None:
    """Refuse a slot that no agent ever had; text that is no name of a slot is refused by the validation.

    Raises:
        UnknownSlot: the message names the slot that is probably meant.
    """
    known = state.slots.get(SlotName(slot))
    if (known is None or known.retired) and SLOT_NAME.fullmatch(slot):
        raise unknown_slot(slot, known=state.slots_in_use(), field=field)


class SubmissionPolicyCheck:
    """Checks outside the cluster state: the session's secrets must exist, and the command check must accept it."""

    def __init__(
        self, vault: Secrets, commands: CommandChecks | None = None, *, workspaces: Workspaces | None = None
    ) -> None:
        """
        Args:
            commands: None = every command is accepted.
            workspaces: None = sessions have none.
        """
        self._workspaces = workspaces
        self._vault = vault
        self._commands = commands

    async def check(self, sessions: Sequence[Session], *, wrap: ErrorWrapper) -> None:
        """Reject sessions without their secrets, or with a command that the operator forbids.

        Raises:
            InvalidRequest, Unavailable: see `Secrets.check` and `CommandChecks.check`.
        """
        asked: dict[tuple[UserId, tuple[SecretUse, ...]], Session] = {}
        for session in sessions:
            if session.spec.secrets:
                asked.setdefault((session.owner, session.spec.secrets), session)
        for (owner, uses), session in asked.items():
            with wrapping_errors(wrap, session):
                await self._vault.check(owner, uses)
        uploads = {(one.owner, one.spec.workspace): one for one in sessions if one.spec.workspace is not None}
        for (owner, id), session in uploads.items():
            with wrapping_errors(wrap, session):
                await self._check_workspace(owner, id)
        if self._commands is not None:
            await self._commands.check(*sessions, wrap=wrap)

    async def _check_workspace(self, owner: UserId, id: str) -> None:
        if self._workspaces is None:
            raise InvalidRequest(NO_UPLOADS, field="workspace")
        await self._workspaces.check(owner, id)
