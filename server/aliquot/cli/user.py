"""`aliquot user`: who may come in, and as what."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.choices import choice
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client.generated.accounts import User

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
_ROLE: Final = typer.Option(help="viewer, user, operator or admin.")
Unix = Annotated[str | None, typer.Option("--unix", help="The Unix account that the user's jobs run as; '' is none.")]
Project = Annotated[
    list[str] | None,
    typer.Option(help="A project whose sessions the user takes part in; all of them are named, '' is none."),
]

user: Final = typer.Typer(no_args_is_help=True, help="Say who may come in, and as what; for admins.")


@user.command("add")
def add(
    name: Name,
    role: Annotated[str, _ROLE] = "user",
    unix: Unix = None,
    project: Project = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let somebody in. A key to come in with is made by `aliquot key new`."""
    from aliquot.client.generated.accounts_inputs import CreateUserInput
    from aliquot.client.generated.enums import Role

    wanted = CreateUserInput(
        name=name,
        role=choice(Role, role, of="role"),
        unix_name=unix or None,
        projects=_projects(project) or (),
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.create_user(wanted)
    _tell(done.user, as_json=as_json)


@user.command("list")
def list_users(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List everybody who may come in, and who may no more."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.users()
    if as_json:
        print_json(found)
    else:
        _print(found)


@user.command("set")
def change(
    name: Name,
    role: Annotated[str | None, _ROLE] = None,
    unix: Unix = None,
    project: Project = None,
    enable: Annotated[bool, typer.Option("--enable", help="Let a disabled user in again.")] = False,
    forget_identity: Annotated[
        bool,
        typer.Option("--forget-identity", help="Whoever comes next under the name by a token of the provider is it."),
    ] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Change a user; what is not named stays."""
    from aliquot.client.generated.accounts_inputs import UpdateUserInput
    from aliquot.client.generated.enums import Role

    wanted = UpdateUserInput(
        name=name,
        role=None if role is None else choice(Role, role, of="role"),
        unix_name=unix,
        projects=_projects(project),
        disabled=False if enable else None,
        forget_identity=forget_identity or None,
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.update_user(wanted)
    _tell(done.user, as_json=as_json)


@user.command("disable")
def disable(
    name: Name,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let somebody in no more, by no key, at once. Sessions stay as they are."""
    from aliquot.client.generated.accounts_inputs import DisableUserInput

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.disable_user(DisableUserInput(name=name))
    _tell(done.user, as_json=as_json)


def _projects(named: list[str] | None) -> list[str] | None:
    """All of them; None where nothing was said."""
    return None if named is None else [name for name in named if name]


def _tell(changed: "User", *, as_json: bool) -> None:
    if as_json:
        print_json(changed)
    else:
        _print([changed])


def _print(users: "Sequence[User]") -> None:
    rows = table("user", "role", "Unix account", "projects", "")
    for one in users:
        state = "disabled" if one.disabled else ""
        rows.add_row(*cells(one.name, one.role, one.unix_name, ", ".join(one.projects), state))
    console().print(rows)
