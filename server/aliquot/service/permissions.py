"""Permissions: who may submit, change whose sessions, and with which priority."""

from aliquot_schema.errors import Forbidden
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.requests import Caller, Role
from aliquot_schema.sessions import Priority, Session


def check_may_submit(caller: Caller) -> None:
    """Refuse those who may only look."""
    if caller.role < Role.USER:
        raise Forbidden(f"{caller.user} may look, and not submit; ask an operator for the role of a user")


def check_may_change(caller: Caller, session: Session) -> None:
    """Users change their own sessions alone."""
    if caller.role >= Role.OPERATOR or (caller.role >= Role.USER and caller.user == session.owner):
        return
    raise Forbidden(f"{session.id} is of {session.owner}; only {session.owner} or an operator may change it")


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
