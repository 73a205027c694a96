"""`aliquot key` and `aliquot user`: API keys, and the accounts of users and programs."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from aliquot.cli.cluster.quota import known_subjects, note_new
from aliquot.cli.connection.output import cells, choice, count_text, print_json, printable, show_table, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.session.completion import key_ids, user_names
from aliquot.cli.user_import import import_users

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client import BlockingClient
    from aliquot.client.generated.accounts import ApiKey, User
    from aliquot.client.generated.results import UserChangeSuccess


key: Final = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")


@key.command("new")
def new(
    user: Annotated[str, typer.Argument(metavar="USER", help="The owner of the key.", autocompletion=user_names)],
    name: Annotated[str, typer.Option(help="What the key is for.")] = "made by aliquot key new",
    scope: Annotated[
        str | None,
        typer.Option(help="What it allows at most: read, submit, operate or admin.", show_default="submit"),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Its lifetime, like 90d.", show_default="never")
    ] = None,
    gpu_hours: Annotated[
        float | None, typer.Option(min=0.001, help="Budget of GPU-hours; submissions are refused once it is used up.")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Budget of submitted sessions; each task of an array counts.")
    ] = None,
    dry_run_first: Annotated[
        bool, typer.Option("--dry-run-first", help="Each request must be previewed before it is submitted.")
    ] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print its secret once. Store it in a file that only its owner can read."""
    from aliquot.client.generated.accounts import CreateApiKeyInput
    from aliquot.client.generated.enums import KeyScope

    allowed = choice(KeyScope, scope or KeyScope.SUBMIT, of="scope")
    wanted = CreateApiKeyInput(
        user=user,
        name=name,
        scope=allowed,
        expires_in=_seconds(expires),
        gpu_hours_max=gpu_hours,
        sessions_max=sessions,
        dry_run_first=dry_run_first,
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        made = client.create_api_key(wanted)
    if as_json:
        print_json({**msgspec.to_builtins(made.api_key), "secret": made.secret})
    else:
        print(made.secret)
    if scope is None and not as_json:
        print(f"aliquot: the key allows what the scope {allowed} allows; --scope names another", file=sys.stderr)


@key.command("list")
def list_keys(
    user: Annotated[str | None, typer.Option(help="Only keys of this user.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List keys: all of them for admins, your own otherwise."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.api_keys(user=user)
    if as_json:
        print_json(found)
    else:
        _print_keys(found)


@key.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, key_...", autocompletion=key_ids)],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key with immediate effect; its open connections are closed."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        revoked = client.revoke_api_key(key_id).api_key
    if as_json:
        print_json(revoked)
    else:
        print(f"key {revoked.id} of {revoked.user} is revoked")


def _seconds(expires: str | None) -> float | None:
    if expires is None:
        return None
    from aliquot.cli.session.options import seconds_of
    from aliquot.service.retention import FOREVER

    if expires.strip().isdecimal():
        usage(f"--expires {expires}: write the unit, like {expires.strip()}d for days")
    return None if expires == FOREVER else seconds_of(expires, option="--expires")


def _print_keys(keys: "Sequence[ApiKey]") -> None:
    rows = table("key", "user", "purpose", "scope", "created", "expires", "state", "budget")
    for one in keys:
        state = "" if one.is_valid else "revoked" if one.revoked_at else "expired"
        ends = f"{one.expires_at:%Y-%m-%d}" if one.expires_at else ""
        made = f"{one.created_at:%Y-%m-%d}"
        rows.add_row(*cells(one.id, one.user, one.name, one.scope, made, ends, state, _budget(one)))
    show_table(rows)


def _budget(one: "ApiKey") -> str:
    parts = []
    if one.gpu_hours_max is not None:
        parts.append(f"{one.gpu_hours:.1f} of {one.gpu_hours_max:g} GPU-hours")
    if one.sessions_max is not None:
        parts.append(f"{one.submitted} of {count_text(one.sessions_max, 'session')}")
    if one.dry_run_first:
        parts.append("dry run first")
    return ", ".join(parts)


Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.", autocompletion=user_names)]
_ROLE: Final = typer.Option(help="viewer, user, operator or admin.")
Unix = Annotated[
    str | None, typer.Option("--unix", metavar="ACCOUNT", help="The Unix account of the user's jobs; '' clears it.")
]
Project = Annotated[
    list[str] | None, typer.Option(help="A project of the user; repeat it to name all of them, '' clears the list.")
]

user: Final = typer.Typer(no_args_is_help=True, help="Create, list, change and disable users; for admins.")


@user.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")],
    role: Annotated[str, _ROLE] = "user",
    unix: Unix = None,
    project: Project = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a user. `aliquot key new` creates a key for them."""
    from aliquot.client.generated.accounts import CreateUserInput
    from aliquot.client.generated.enums import QuotaScope, Role

    wanted = CreateUserInput(
        name=name,
        role=choice(Role, role, of="role"),
        unix_name=unix or None,
        projects=_projects(project) or (),
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        known = known_subjects(client, QuotaScope.PROJECT) if wanted.projects else ()
        done = client.create_user(wanted)
    _print_user(done.user, as_json=as_json)
    if not as_json:
        _print_account(done)
        note_new(QuotaScope.PROJECT, wanted.projects or (), known=known)


@user.command("list")
def list_users(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List all users, disabled ones included."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.users()
    if as_json:
        print_json(found)
    else:
        _print_users(found)


@user.command("set")
def change(
    name: Name,
    role: Annotated[str | None, _ROLE] = None,
    unix: Unix = None,
    project: Project = None,
    enable: Annotated[bool, typer.Option("--enable", help="Enable a disabled user again.")] = False,
    forget_identity: Annotated[
        bool,
        typer.Option("--forget-identity", help="Unlink the OIDC identity; the next token with this name is linked."),
    ] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Change a user; options that are left out change nothing."""
    from aliquot.client.generated.accounts import UpdateUserInput
    from aliquot.client.generated.enums import QuotaScope, Role

    wanted = UpdateUserInput(
        name=name,
        role=None if role is None else choice(Role, role, of="role"),
        unix_name=unix,
        projects=_projects(project),
        disabled=False if enable else None,
        forget_identity=forget_identity or None,
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        known = known_subjects(client, QuotaScope.PROJECT) if wanted.projects else ()
        done = client.update_user(wanted)
    _print_user(done.user, as_json=as_json)
    if not as_json:
        _print_account(done)
        note_new(QuotaScope.PROJECT, wanted.projects or (), known=known)


@user.command("disable")
def disable(
    name: Name,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Disable a user with immediate effect: no key of theirs is accepted. Their sessions are not touched."""
    from aliquot.client.generated.accounts import DisableUserInput

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.disable_user(DisableUserInput(name=name))
        left = _sessions_left(client, done.user.name)
    _print_user(done.user, as_json=as_json)
    if left:
        print(f"aliquot: {left}", file=sys.stderr)


def _sessions_left(client: "BlockingClient", name: str) -> str | None:
    """What the sessions of a disabled user still do; None if all have ended."""
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.generated.sessions import SessionFilter
    from aliquot.client.sessions import ENDED

    active = SessionFilter(owners=[name], states=[state for state in SessionState if state not in ENDED])
    count = client.sessions(first=1, filter=active).total_count
    if not count:
        return None
    verb = "has" if count == 1 else "have"
    what = f"{count_text(count, 'session')} of {name} {verb} not ended, and waiting ones still start"
    return f"{what}; `aliquot session list --owner {name}` lists them, `aliquot session cancel` ends them"


def _print_account(done: "UserChangeSuccess") -> None:
    """Print on stderr which Unix account the user's jobs run as, and whether it is missing."""
    for words in (done.jobs_run_as, done.warning and f"warning: {done.warning}"):
        if words:
            print(f"aliquot: {printable(words)}", file=sys.stderr)


def _projects(named: list[str] | None) -> list[str] | None:
    """The named projects; None without the option."""
    return None if named is None else [name for name in named if name]


def _print_user(changed: "User", *, as_json: bool) -> None:
    if as_json:
        print_json(changed)
    else:
        _print_users([changed])


def _print_users(users: "Sequence[User]") -> None:
    rows = table("user", "role", "Unix account", "projects", "state")
    for one in users:
        state = "disabled" if one.disabled else ""
        rows.add_row(*cells(one.name, one.role, one.unix_name, ", ".join(one.projects), state))
    show_table(rows)


user.command("import")(import_users)
