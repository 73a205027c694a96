"""Visibility: sessions and agents as one caller may see them, by `aliquot_schema.privacy`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from aliquot.service.ports import Members
from aliquot_schema.errors import Forbidden
from aliquot_schema.ids import ProjectId, SessionId
from aliquot_schema.privacy import HIDDEN, KERNEL_HIDDEN, Sight
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role
from aliquot_schema.sessions import Session
from aliquot_schema.views import AgentView, KernelView, SessionView

NAMES: Final = {sight: tuple(hidden) for sight, hidden in HIDDEN.items()}


def sight_of(caller: Caller, *, owner: str, project: str) -> Sight:
    """How much a caller may see of somebody's session."""
    if caller.role >= Role.ADMIN or caller.user == owner:
        return Sight.OWNER
    if caller.role >= Role.OPERATOR or ProjectId(project) in caller.projects:
        return Sight.MEMBER
    return Sight.EVERYBODY


def members_only(caller: Caller) -> Members | None:
    """The sessions of which a caller sees what members see; None = all."""
    return None if caller.role >= Role.OPERATOR else Members(owner=caller.user, projects=caller.projects)


def session_seen(caller: Caller, view: SessionView) -> SessionView:
    """A session, without what is not the caller's to see."""
    sight = sight_of(caller, owner=view.owner, project=view.project)
    if sight is Sight.OWNER:
        return view
    changes: dict[str, Any] = {**HIDDEN[sight], "kernels": _kernels(view.kernels, sight), "hidden": NAMES[sight]}
    return replace(view, **changes)


def agent_seen(caller: Caller, view: AgentView, sessions: Mapping[SessionId, Session]) -> AgentView:
    """An agent; of the kernels on it, what is the caller's to see."""
    if caller.role >= Role.ADMIN or not view.kernels:
        return view
    kernels: list[KernelView] = []
    for kernel in view.kernels:
        session = sessions.get(SessionId(kernel.session_id))
        sight = Sight.EVERYBODY
        if session is not None:
            sight = sight_of(caller, owner=session.owner, project=session.project)
        kernels.extend(_kernels((kernel,), sight))
    return replace(view, kernels=tuple(kernels))


def kernel_seen(caller: Caller, view: KernelView, session: Session | SessionView) -> KernelView:
    """A kernel of a session, without what is not the caller's to see."""
    [seen] = _kernels((view,), sight_of(caller, owner=session.owner, project=session.project))
    return seen


def check_may_read_output(caller: Caller, session: Session) -> None:
    """What a session prints is its owner's, and admins'.

    Raises:
        Forbidden: it is somebody else's.
    """
    if sight_of(caller, owner=session.owner, project=session.project) is not Sight.OWNER:
        raise Forbidden(f"{session.id} is of {session.owner}; what it prints is shown to nobody else")


def _kernels(kernels: Iterable[KernelView], sight: Sight) -> tuple[KernelView, ...]:
    hidden: dict[str, Any] = KERNEL_HIDDEN[sight]
    return tuple(replace(kernel, **hidden) for kernel in kernels) if hidden else tuple(kernels)
