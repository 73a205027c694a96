"""Access control: what a caller may submit, change and see, by role, ownership and project membership; and trust, the
isolation required between the jobs of different users on one server. `aliquot_schema.identity.access` lists the hidden
fields.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.errors import ConfigurationError
from aliquot.service.ports import MembershipFilter
from aliquot_schema.errors import Forbidden, NotFound, StateConflict
from aliquot_schema.identity.access import HIDDEN, KERNEL_HIDDEN, Visibility
from aliquot_schema.identity.accounts import ApiKey, KeyScope, Role, User
from aliquot_schema.ids import AgentId, KeyId, ProjectId, SessionId, UserId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.requests import Caller
from aliquot_schema.sessions import DEFAULT_PROJECT, Priority, Session
from aliquot_schema.views.agents import AgentView
from aliquot_schema.views.session_parts import session_label
from aliquot_schema.views.sessions import KernelView, SessionView

_ASK: Final = {Role.USER: "an admin for it", Role.OPERATOR: "one of the operators", Role.ADMIN: "one of the admins"}
_SCOPES: Final = {Role.USER: "submit", Role.OPERATOR: "operate", Role.ADMIN: "admin"}


def check_role(caller: Caller, least: Role) -> None:
    """Require at least a role.

    Raises:
        Forbidden: the caller's role is lower.
    """
    if caller.role < least:
        raise Forbidden(_needed(least) + (caller.scope_hint(least) or f"; ask {_ASK[least]}"))


def check_may_submit(caller: Caller) -> None:
    """Refuse viewers, and keys that only read."""
    if caller.role < Role.USER:
        hint = caller.scope_hint(Role.USER)
        who = f"this key of {caller.user}" if hint else caller.user
        raise Forbidden(f"{who} may only read; {_needed(Role.USER)}{hint or f'; ask {_ASK[Role.USER]}'}")


def _needed(least: Role) -> str:
    return f"this requires the role {least.name.lower()}, and a key with at least the scope {_SCOPES[least]}"


def check_writes(caller: Caller, keys: Mapping[KeyId, ApiKey], *, what: str) -> None:
    """Refuse keys that only read. Needed where viewers may change what is their own; they sign in with other keys too.

    Args:
        what: what is changed, for the message.
    """
    key = None if caller.key_id is None else keys.get(caller.key_id)
    if key is not None and key.scope is KeyScope.READ:
        raise Forbidden(f"a key that only reads cannot change {what}; use a key of a wider scope")


def check_project(caller: Caller, project: ProjectId) -> None:
    """Users may submit to the default project, and to projects that they are members of."""
    if caller.role >= Role.OPERATOR or project == DEFAULT_PROJECT or project in caller.projects:
        return
    own = f"your projects are {', '.join(caller.projects)}" if caller.projects else "you have no project of your own"
    advice = caller.scope_hint(Role.OPERATOR) or ". Ask an admin to be added"
    raise Forbidden(f"project: {caller.user} is not a member of {project[:80]}; {own}{advice}")


def check_may_change(caller: Caller, session: Session) -> None:
    """Users may change their own sessions, and those of projects that they are members of."""
    if caller.role >= Role.OPERATOR or caller.user == session.owner or session.project in caller.projects:
        check_may_submit(caller)
        return
    whose, hint = f"{session_label(session)} belongs to {session.owner}", caller.scope_hint(Role.OPERATOR)
    raise Forbidden(f"{whose}; only its owner, members of its project and operators may change it{hint}")


def is_held_by_user(session: Session, *, users: Mapping[UserId, User]) -> bool:
    """Whether the session is held by its owner or another user, and not by an operator or a rule."""
    holder = None if session.held_by is None else users.get(session.held_by)
    return session.held_by == session.owner or (holder is not None and holder.role < Role.OPERATOR)


def check_may_release(caller: Caller, session: Session, *, users: Mapping[UserId, User]) -> None:
    """An owner may release their session, unless an operator or a rule holds it."""
    check_may_change(caller, session)
    is_by_user = is_held_by_user(session, users=users)
    is_own_again = caller.user == session.owner and is_by_user
    if caller.role >= Role.OPERATOR or session.held_by == caller.user or is_own_again:
        return
    who = ", ".join(sorted({session.owner, str(session.held_by)})) + " and operators" if is_by_user else "an operator"
    raise Forbidden(f"{session.id} is held by {session.held_by}; only {who} may release it")


def check_priority(caller: Caller, level: Priority, policy: PolicyDocument) -> None:
    """Users may request priorities up to the policy's `user_priority_max`."""
    if caller.role < Role.OPERATOR and level > policy.user_priority_max:
        highest, key = policy.user_priority_max.name.lower(), ", with a key of at least the scope operate,"
        who = f"only operators{key if caller.key_id is not None else ''}"
        raise Forbidden(f"priority: {who} may set {level.name.lower()}; your highest priority is {highest}")


HIDDEN_NAMES: Final = {visibility: tuple(hidden) for visibility, hidden in HIDDEN.items()}


def visibility_of(caller: Caller, *, owner: str, project: str) -> Visibility:
    """How much of a session a caller may see."""
    if caller.role >= Role.ADMIN or caller.user == owner:
        return Visibility.OWNER
    if caller.role >= Role.OPERATOR or ProjectId(project) in caller.projects:
        return Visibility.MEMBER
    return Visibility.EVERYBODY


def may_enter(caller: Caller, owner: str, project: str, *, is_shared: bool) -> bool:
    """Whether a caller may open terminals, ports and apps of a session; viewers never."""
    if caller.role < Role.USER:
        return False
    is_member = is_shared and ProjectId(project) in caller.projects
    return caller.user == owner or caller.role >= Role.OPERATOR or is_member


def members_only(caller: Caller) -> MembershipFilter | None:
    """Sessions that the caller sees as a member or owner; None = all."""
    return None if caller.role >= Role.OPERATOR else MembershipFilter(owner=caller.user, projects=caller.projects)


def session_seen(caller: Caller, view: SessionView) -> SessionView:
    """A session without the fields hidden from the caller."""
    visibility = visibility_of(caller, owner=view.owner, project=view.project)
    if visibility is Visibility.OWNER:
        return view
    changes: dict[str, Any] = {
        **HIDDEN[visibility],
        "kernels": _kernels(view.kernels, visibility),
        "hidden": HIDDEN_NAMES[visibility],
    }
    return replace(view, **changes)


def agent_seen(caller: Caller, view: AgentView, sessions: Mapping[SessionId, Session]) -> AgentView:
    """An agent, with its kernels without the fields hidden from the caller. Its images are those of all sessions, whose
    images only members of their projects see: operators alone see them."""
    if caller.role < Role.OPERATOR and view.capabilities.images:
        view = replace(view, capabilities=replace(view.capabilities, images=()))
    if caller.role >= Role.ADMIN or not view.kernels:
        return view
    kernels: list[KernelView] = []
    for kernel in view.kernels:
        session = sessions.get(SessionId(kernel.session_id))
        visibility = Visibility.EVERYBODY
        if session is not None:
            visibility = visibility_of(caller, owner=session.owner, project=session.project)
        kernels.extend(_kernels((kernel,), visibility))
    return replace(view, kernels=tuple(kernels))


def kernel_seen(caller: Caller, view: KernelView, session: Session | SessionView) -> KernelView:
    """A kernel of a session, without the fields hidden from the caller."""
    [seen] = _kernels((view,), visibility_of(caller, owner=session.owner, project=session.project))
    return seen


def check_may_read_output(caller: Caller, session: Session) -> None:
    """Only the owner and admins may read a session's output.

    Raises:
        Forbidden.
    """
    if visibility_of(caller, owner=session.owner, project=session.project) is not Visibility.OWNER:
        whose, hint = f"{session_label(session)} belongs to {session.owner}", caller.scope_hint(Role.ADMIN)
        raise Forbidden(f"{whose}; only its owner and admins may read its output{hint}")


def check_runs(session: Session | SessionView) -> None:
    """A job array holds and runs nothing itself.

    Raises:
        NotFound: it is one.
    """
    if session.tasks is not None:
        text = f"{session.id} is a job array: name one of its tasks, like {session.id}_INDEX"
        raise NotFound(text, kind="kernel", id=session.id)


def _kernels(kernels: Iterable[KernelView], visibility: Visibility) -> tuple[KernelView, ...]:
    hidden: dict[str, Any] = KERNEL_HIDDEN[visibility]
    return tuple(replace(kernel, **hidden) for kernel in kernels) if hidden else tuple(kernels)


FALLBACK_ACCOUNT: Final = "nobody"
"""The Unix account that agents use for orders without one."""


class Trust(StrEnum):
    """How far the users of a server trust each other."""

    ALONE = "alone"
    """Single user: jobs may run under the server's own account, so no other user may submit."""
    SEPARATE = "separate"
    """Each user's jobs run under a Unix account of their own."""
    SHARED = "shared"
    """All users trust each other: jobs may share an account, even the server's."""


AccountSearch = Callable[[str], Awaitable[Mapping[AgentId, bool | None]] | None]
"""Asks all reachable agents whether their hosts have a Unix account; None for agents that did not say. Returns None
while this server cannot ask agents."""


class JobAccounts(Struct, frozen=True, kw_only=True):
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

    def warning(self, user: User, *, trust: Trust, agents: Iterable[tuple[str, bool | None]]) -> str | None:
        """The warning that a user's account is missing on hosts, or has to exist there; None without one.

        Args:
            agents: the host of each agent, and whether it has the account; None = unknown.
        """
        if user.unix_name is None or trust is Trust.SHARED or user.disabled:
            return None
        # Mock nodes of this host are named after it.
        others = [(name, has) for name, has in agents if not f"{name}-".startswith(f"{self.hostname}-")]
        missing = {name for name, has in others if has is False}
        unknown = sorted({name for name, has in others if has is None} - missing)
        if self.default is not None and not self.exists(user.unix_name):
            missing.add(self.hostname)
        if missing:
            hosts = f"host {min(missing)} has" if len(missing) == 1 else f"hosts {', '.join(sorted(missing))} have"
            words = (
                f"{hosts} no account {user.unix_name}, so jobs of {user.id} fail there; create it "
                f"(useradd {user.unix_name})"
            )
            return words + (f", also on {', '.join(unknown)}" if unknown else "")
        if unknown:
            return f"the account {user.unix_name} has to exist on {', '.join(unknown)} too; jobs fail where it does not"
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
        if len(users_of_account) > 1 or name == FALLBACK_ACCOUNT
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
