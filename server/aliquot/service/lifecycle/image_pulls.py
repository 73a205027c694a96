"""Image pulls: records how far the pull of a session's image is, and what follows from a failed one, or from a
workspace that a node has no space for.

Of a gang, one rank is followed at a time: the first that reports, then the next that still pulls. So the number of
events does not grow with the number of ranks.
"""

from typing import Final

from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.launching import (
    IMAGE_FAILED,
    IMAGE_NO_SPACE,
    IMAGE_NOT_FOUND,
    IMAGE_UNAUTHORIZED,
    REGISTRY_UNREACHABLE,
    WORKSPACE_NO_SPACE,
    WORKSPACE_UNREADABLE,
    KernelReport,
    PullProgress,
)
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.sessions import Failure, ImagePull, Session
from aliquot_schema.states import SessionState

PULL_FINAL: Final = frozenset({IMAGE_NOT_FOUND, IMAGE_UNAUTHORIZED, IMAGE_FAILED})
"""Codes of pulls that would fail again on any agent: the session fails."""
NO_SPACE: Final = frozenset({IMAGE_NO_SPACE, WORKSPACE_NO_SPACE})
"""Codes of what may succeed on another agent."""
PULL_AGAIN: Final = frozenset({REGISTRY_UNREACHABLE, WORKSPACE_UNREADABLE}) | NO_SPACE
"""Codes of what may succeed later, or on another agent."""
UNREADABLE_US: Final = 300 * 1_000_000
"""For how long a session waits whose files the server could not read."""
_STEPS: Final = 10
"""Progress events of one pull at most, besides those of its size and its end; more if layers are found late."""


def note_pull(draft: UnitOfWork, session: Session, kernel: Kernel, pull: PullProgress, *, now_us: int) -> Session:
    """Record the progress of a kernel's pull."""
    known = session.pull if session.pull is not None and session.pull.attempt == session.attempt else None
    is_same = known is not None and known.rank == kernel.rank
    if known is not None and (is_same if known.ended_us is not None else not is_same):
        return session
    if known is not None and not is_same and pull.is_done:
        return session
    began_us = known.began_us if known is not None and is_same else max(kernel.granted_us, now_us - pull.ran_ms * 1000)
    found = ImagePull(
        attempt=session.attempt,
        rank=kernel.rank,
        agent_id=kernel.agent_id,
        began_us=began_us,
        ended_us=max(began_us, min(began_us + pull.ran_ms * 1000, now_us)) if pull.is_done else None,
        bytes_done=pull.bytes_done,
        bytes_total=pull.bytes_total,
        layers_done=pull.layers_done,
        layers=pull.layers,
        size_bytes=pull.size_bytes,
    )
    if pull.is_done:
        return draft.put(replace(session, pull=found), "pulled")
    if known is None or not is_same:
        return draft.put(replace(session, pull=found), "pulling")
    has_size = found.bytes_total > 0 and known.bytes_total == 0
    if has_size or found.bytes_done - known.bytes_done > found.bytes_total // _STEPS:
        return draft.put(replace(session, pull=found), "pull_progressed")
    return session


def note_failed_pull(draft: UnitOfWork, session: Session, kernel: Kernel, report: KernelReport) -> Session:
    """Note why a session's image could not be fetched, or its workspace not be stored; it ends or waits once all its
    kernels have exited."""
    if session.failure is not None or session.state is SessionState.PREEMPTING:
        return session
    excluded = session.excluded_agents
    if report.code in NO_SPACE:
        excluded = tuple(dict.fromkeys((*excluded, kernel.agent_id)))
    text = f"rank {kernel.rank} on {kernel.agent_id}: {report.message or 'the image could not be fetched'}"
    failure = Failure(code=report.code or IMAGE_FAILED, message=text)
    what = "agent_excluded" if report.code == WORKSPACE_NO_SPACE else "pull_failed"
    return draft.put(replace(session, failure=failure, excluded_agents=excluded), what)


def after_failed_pull(draft: UnitOfWork, session: Session, *, now_us: int) -> Session:
    """The session once all kernels of an attempt have exited that a failed pull ended: queued, or failed.

    Without space on a node it starts on another one, and uses no retry. A registry that cannot be reached is tried
    again while retries are left; workspaces that the server cannot read are tried again without using one.
    """
    failure = session.failure
    assert failure is not None, f"{session.id} has no failed pull"
    plain, retries = replace(session, failure=None), draft.policy().retries
    if failure.code in PULL_FINAL:
        return transitions.fail(session, failure, now_us=now_us)
    if failure.code == WORKSPACE_UNREADABLE:
        return transitions.requeue_until(plain, until_us=now_us + UNREADABLE_US)
    if failure.code == REGISTRY_UNREACHABLE:
        return transitions.requeue(plain, now_us=now_us, failure=failure, retries=retries)
    if not draft.is_possible_on_others(session):
        return transitions.fail(session, failure, now_us=now_us)
    return transitions.requeue(plain, now_us=now_us, failure=failure, without=session.excluded_agents[-1])
