"""Trust: what keeps the jobs of several people on one server apart."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from aliquot.errors import ConfigurationError
from aliquot_schema.accounts import User
from aliquot_schema.errors import Forbidden, StateConflict
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role

NOBODY: Final = "nobody"
"""The account that agents take for orders that name none."""


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


def check_apart(trust: Trust, users: Iterable[User]) -> None:
    """Refuse to start where accounts are no longer said to be shared, and still are.

    Raises:
        ConfigurationError: it says who shares which, and what to do.
    """
    if trust is not Trust.SEPARATE:
        return
    owners: dict[str, list[str]] = {}
    for user in users:
        if user.unix_name is not None and not user.disabled:
            owners.setdefault(user.unix_name, []).append(user.id)
    shared = [(name, who) for name, who in owners.items() if len(who) > 1 or name == NOBODY]
    if shared:
        words = "; ".join(f"{name} is that of {' and '.join(sorted(who))}" for name, who in sorted(shared))
        raise ConfigurationError(
            f"jobs of several people would run as one Unix account, and not be kept apart: {words}. Start the server "
            "with --single-trust-domain as before, give each of them an account of his own (aliquot user set NAME "
            "--unix ACCOUNT) or disable him (aliquot user disable NAME), and then start it without"
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
