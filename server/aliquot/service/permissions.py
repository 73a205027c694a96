"""Permissions: who may submit, change whose sessions, and with which priority.

What somebody may see of a session is in `visibility`.
"""

from typing import Final

from aliquot_schema.errors import Forbidden
from aliquot_schema.ids import ProjectId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.requests import Caller, Role
from aliquot_schema.sessions import DEFAULT_PROJECT, Priority, Session

_WHO: Final = {Role.USER: "users", Role.OPERATOR: "operators", Role.ADMIN: "admins"}


def check_role(caller: Caller, least: Role) -> None:
    """Refuse those whose role is below one.

    Raises:
        Forbidden: the message says whom to ask.
    """
    if caller.role < least:
        raise Forbidden(f"this is for {_WHO[least]}; ask one of them")


def check_may_submit(caller: Caller) -> None:
    """Refuse those who may only look."""
    if caller.role < Role.USER:
        raise Forbidden(f"{caller.user} may look, and not submit; ask an admin for the role of a user")


def check_project(caller: Caller, project: ProjectId) -> None:
    """Users submit to the default project, and to those that they are members of."""
    if caller.role >= Role.OPERATOR or project == DEFAULT_PROJECT or project in caller.projects:
        return
    raise Forbidden(f"project: {caller.user} is no member of {project[:80]}; ask an admin")


def check_may_change(caller: Caller, session: Session) -> None:
    """Users change their own sessions, and those of projects that they are members of."""
    is_theirs = caller.user == session.owner or session.project in caller.projects
    if caller.role >= Role.OPERATOR or (caller.role >= Role.USER and is_theirs):
        return
    raise Forbidden(
        f"{session.id} is of {session.owner}; only {session.owner}, members of its project or an operator may change it"
    )


def check_may_release(caller: Caller, session: Session) -> None:
    """What an operator holds back, its owner cannot release."""
    check_may_change(caller, session)
    if caller.role < Role.OPERATOR and session.held_by != caller.user:
        raise Forbidden(f"{session.id} is held back by {session.held_by}; only an operator may release it")


def check_priority(caller: Caller, level: Priority, policy: PolicyDocument) -> None:
    """Users may ask for the levels that the policy leaves to them."""
    if caller.role < Role.OPERATOR and level > policy.user_priority_max:
        most = policy.user_priority_max.name.lower()
        raise Forbidden(
            f"priority: {level.name.lower()} is for operators to give; the highest that you may ask for is {most}"
        )
