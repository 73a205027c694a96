"""Access control: what a caller may submit, change and see, by role, ownership and project membership.

Hidden fields are listed in `aliquot_schema.identity.access`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from aliquot.service.ports import Members
from aliquot_schema.errors import Forbidden
from aliquot_schema.identity.access import HIDDEN, KERNEL_HIDDEN, Visibility
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import ProjectId, SessionId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.requests import Caller
from aliquot_schema.sessions import DEFAULT_PROJECT, Priority, Session
from aliquot_schema.views.sessions import AgentView, KernelView, SessionView

_ROLE_NAMES: Final = {Role.USER: "users", Role.OPERATOR: "operators", Role.ADMIN: "admins"}


def check_role(caller: Caller, least: Role) -> None:
    """Require at least a role.

    Raises:
        Forbidden: the caller's role is lower.
    """
    if caller.role < least:
        raise Forbidden(f"this requires the role {least.name.lower()}; ask one of the {_ROLE_NAMES[least]}")


def check_may_submit(caller: Caller) -> None:
    """Refuse viewers."""
    if caller.role < Role.USER:
        raise Forbidden(f"{caller.user} has the role viewer and may not submit; ask an admin for the role user")


def check_project(caller: Caller, project: ProjectId) -> None:
    """Users may submit to the default project, and to projects that they are members of."""
    if caller.role >= Role.OPERATOR or project == DEFAULT_PROJECT or project in caller.projects:
        return
    own = f"your projects are {', '.join(caller.projects)}" if caller.projects else "you have no project of your own"
    raise Forbidden(f"project: {caller.user} is not a member of {project[:80]}; {own}. Ask an admin to be added")


def check_may_change(caller: Caller, session: Session) -> None:
    """Users may change their own sessions, and those of projects that they are members of."""
    is_own_or_member = caller.user == session.owner or session.project in caller.projects
    if caller.role >= Role.OPERATOR or (caller.role >= Role.USER and is_own_or_member):
        return
    raise Forbidden(
        f"{session.id} belongs to {session.owner}; only its owner, members of its project and operators may change it"
    )


def check_may_release(caller: Caller, session: Session) -> None:
    """An owner may not release a session that an operator holds."""
    check_may_change(caller, session)
    if caller.role < Role.OPERATOR and session.held_by != caller.user:
        raise Forbidden(f"{session.id} is held by {session.held_by}; only an operator may release it")


def check_priority(caller: Caller, level: Priority, policy: PolicyDocument) -> None:
    """Users may request priorities up to the policy's `user_priority_max`."""
    if caller.role < Role.OPERATOR and level > policy.user_priority_max:
        highest = policy.user_priority_max.name.lower()
        raise Forbidden(f"priority: only operators may set {level.name.lower()}; your highest priority is {highest}")


HIDDEN_NAMES: Final = {visibility: tuple(hidden) for visibility, hidden in HIDDEN.items()}


def sight_of(caller: Caller, *, owner: str, project: str) -> Visibility:
    """How much of a session a caller may see."""
    if caller.role >= Role.ADMIN or caller.user == owner:
        return Visibility.OWNER
    if caller.role >= Role.OPERATOR or ProjectId(project) in caller.projects:
        return Visibility.MEMBER
    return Visibility.EVERYBODY


def members_only(caller: Caller) -> Members | None:
    """Sessions that the caller sees as a member or owner; None = all."""
    return None if caller.role >= Role.OPERATOR else Members(owner=caller.user, projects=caller.projects)


def session_seen(caller: Caller, view: SessionView) -> SessionView:
    """A session without the fields hidden from the caller."""
    visibility = sight_of(caller, owner=view.owner, project=view.project)
    if visibility is Visibility.OWNER:
        return view
    changes: dict[str, Any] = {
        **HIDDEN[visibility],
        "kernels": _kernels(view.kernels, visibility),
        "hidden": HIDDEN_NAMES[visibility],
    }
    return replace(view, **changes)


def agent_seen(caller: Caller, view: AgentView, sessions: Mapping[SessionId, Session]) -> AgentView:
    """An agent, with its kernels without the fields hidden from the caller."""
    if caller.role >= Role.ADMIN or not view.kernels:
        return view
    kernels: list[KernelView] = []
    for kernel in view.kernels:
        session = sessions.get(SessionId(kernel.session_id))
        visibility = Visibility.EVERYBODY
        if session is not None:
            visibility = sight_of(caller, owner=session.owner, project=session.project)
        kernels.extend(_kernels((kernel,), visibility))
    return replace(view, kernels=tuple(kernels))


def kernel_seen(caller: Caller, view: KernelView, session: Session | SessionView) -> KernelView:
    """A kernel of a session, without the fields hidden from the caller."""
    [seen] = _kernels((view,), sight_of(caller, owner=session.owner, project=session.project))
    return seen


def check_may_read_output(caller: Caller, session: Session) -> None:
    """Only the owner and admins may read a session's output.

    Raises:
        Forbidden.
    """
    if sight_of(caller, owner=session.owner, project=session.project) is not Visibility.OWNER:
        raise Forbidden(f"{session.id} belongs to {session.owner}; only its owner and admins may read its output")


def _kernels(kernels: Iterable[KernelView], visibility: Visibility) -> tuple[KernelView, ...]:
    hidden: dict[str, Any] = KERNEL_HIDDEN[visibility]
    return tuple(replace(kernel, **hidden) for kernel in kernels) if hidden else tuple(kernels)
