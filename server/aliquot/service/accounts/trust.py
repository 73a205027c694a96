"""Trust: the isolation required between the jobs of different users on one server."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aliquot.errors import ConfigurationError
from aliquot_schema.errors import Forbidden, StateConflict
from aliquot_schema.identity.accounts import Role, User
from aliquot_schema.requests import Caller

NOBODY: Final = "nobody"
"""The Unix account that agents use for orders without one."""


class Trust(StrEnum):
    """How far the users of a server trust each other."""

    ALONE = "alone"
    """Single user: jobs may run under the server's own account, so no other user may submit."""
    SEPARATE = "separate"
    """Each user's jobs run under a Unix account of their own."""
    SHARED = "shared"
    """All users trust each other: jobs may share an account, even the server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccounts:
    """The Unix accounts of the server's host, which runs jobs unless it has no local agents."""

    hostname: str
    default: str | None
    """The account of jobs without one of their own; None = no jobs run on this host."""
    exists: Callable[[str], bool]

    def words(self, user: User, *, trust: Trust) -> str | None:
        """Which account the jobs of a user run as; None if the user submits none."""
        if user.role < Role.USER or user.disabled:
            return None
        if trust is Trust.SHARED or user.unix_name is None:
            if trust is Trust.SEPARATE:
                return f"{user.id} has no Unix account and cannot submit; give one with --unix NAME"
            account = "the agents' job user" if self.default is None else f"{self.default} (the job user)"
            ignored = f", and --unix {user.unix_name} is not used" if user.unix_name else ""
            return f"jobs of {user.id} run as {account}{ignored}"
        return f"jobs of {user.id} run as the Unix account {user.unix_name}"

    def warning(self, user: User, *, trust: Trust, hostnames: Iterable[str]) -> str | None:
        """The warning that a user's account is missing here, or has to exist on other hosts too; None without one."""
        if user.unix_name is None or trust is Trust.SHARED or user.disabled:
            return None
        # Mock nodes of this host are named after it.
        others = sorted({name for name in hostnames if not f"{name}-".startswith(f"{self.hostname}-")})
        if self.default is not None and not self.exists(user.unix_name):
            return (
                f"host {self.hostname} has no account {user.unix_name}, so jobs of {user.id} fail there; create it "
                f"(useradd {user.unix_name})" + (f", also on {', '.join(others)}" if others else "")
            )
        if others:
            return f"the account {user.unix_name} has to exist on {', '.join(others)} too; jobs fail where it does not"
        return None


def check_may_join(trust: Trust, user: User) -> None:
    """Refuse users whose jobs could read the server's own files.

    Raises:
        StateConflict: the server must be restarted in another mode first.
    """
    if trust is Trust.ALONE and user.role >= Role.USER:
        raise StateConflict(
            f"jobs of {user.id} would run under the server's own account and could read its database and all users' "
            "files; start the server as root, or with --single-trust-domain if all users trust each other; viewers may "
            "join",
            id=user.id,
            state=trust,
        )


def check_apart(trust: Trust, users: Iterable[User]) -> None:
    """Refuse to start in `SEPARATE` mode while users still share Unix accounts.

    Raises:
        ConfigurationError: the message lists the shared accounts, and says what to do.
    """
    if trust is not Trust.SEPARATE:
        return
    owners: dict[str, list[str]] = {}
    for user in users:
        if user.unix_name is not None and not user.disabled:
            owners.setdefault(user.unix_name, []).append(user.id)
    shared = [
        (name, users_of_account)
        for name, users_of_account in owners.items()
        if len(users_of_account) > 1 or name == NOBODY
    ]
    if shared:
        listed = "; ".join(
            f"{name} is used by {' and '.join(sorted(users_of_account))}" for name, users_of_account in sorted(shared)
        )
        raise ConfigurationError(
            f"users share a Unix account, so their jobs would not be isolated: {listed}. Start the server with "
            "--single-trust-domain as before, give each user an account of their own (aliquot user set NAME --unix "
            "ACCOUNT) or disable them (aliquot user disable NAME), then start the server without the option"
        )


def check_may_run(trust: Trust, caller: Caller, user: User | None) -> None:
    """Refuse submissions that would run under a shared Unix account. The server's own token may always submit.

    Raises:
        Forbidden: the message says what an admin has to do.
    """
    if caller.key_id is None or trust is Trust.SHARED:
        return
    if trust is Trust.ALONE:
        raise Forbidden(
            "on this server only its own token may submit; ask an admin to see the option --single-trust-domain"
        )
    if user is None or user.unix_name is None:
        raise Forbidden(
            f"{caller.user} has no Unix account for jobs; ask an admin to set one "
            f"(aliquot user set {caller.user} --unix NAME)"
        )
