"""Trust: what keeps the jobs of several people on one server apart."""

from enum import StrEnum

from aliquot_schema.accounts import User
from aliquot_schema.errors import Forbidden, StateConflict
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role


class Trust(StrEnum):
    """How far the people of a server trust each other."""

    ALONE = "alone"
    """One person has it, and jobs may be run as the server itself: nobody else may submit."""
    SEPARATE = "separate"
    """Each user's jobs run as a Unix account of his own."""
    SHARED = "shared"
    """It was said that everybody trusts everybody: jobs may share an account, even that of the server."""


def check_may_join(trust: Trust, user: User) -> None:
    """Refuse users whose jobs nothing would keep from the server's own files.

    Raises:
        StateConflict: the server has to be started in another way first.
    """
    if trust is Trust.ALONE and user.role >= Role.USER:
        raise StateConflict(
            f"jobs of {user.id} would run as the server does, and could read its database and everybody's files; start "
            "the server as root, or say with --single-trust-domain that everybody is trusted alike; viewers may join",
            id=user.id,
            state=trust,
        )


def check_may_run(trust: Trust, caller: Caller, user: User | None) -> None:
    """Refuse submissions that would run as an account that others have, too. The server's own token is its admin's.

    Raises:
        Forbidden: an admin has to give the user an account.
    """
    if caller.key_id is None or trust is Trust.SHARED:
        return
    if trust is Trust.ALONE:
        raise Forbidden("only the holder of the server's own token submits here; see --single-trust-domain")
    if user is None or user.unix_name is None:
        raise Forbidden(
            f"{caller.user} has no Unix account that jobs could run as; ask an admin to name one "
            f"(aliquot user set {caller.user} --unix NAME)"
        )
