"""`aliquot user`: who may come in, and as what."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from aliquot.cli.running_server import LOCAL, ServerUrl, TokenFile, ask
from aliquot.cli.stopped_server import AsJson

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
Role = Annotated[str | None, typer.Option(help="viewer, user, operator or admin.")]
Unix = Annotated[str | None, typer.Option("--unix", help="The Unix account that the user's jobs run as; '' is none.")]
Project = Annotated[
    list[str] | None, typer.Option(help="A project whose sessions the user takes part in; all of them are named.")
]

FIELDS: Final = "name role unix_name projects disabled"
LIST: Final = f"{{ users {{ {FIELDS} }} }}"
_ANSWER: Final = f"{{ __typename ... on Error {{ code message }} ... on UserChangeSuccess {{ user {{ {FIELDS} }} }} }}"
CREATE: Final = f"mutation ($input: CreateUserInput!) {{ create_user(input: $input) {_ANSWER} }}"
UPDATE: Final = f"mutation ($input: UpdateUserInput!) {{ update_user(input: $input) {_ANSWER} }}"

user: Final = typer.Typer(no_args_is_help=True, help="Say who may come in, and as what; for admins.")


@user.command("add")
def add(
    name: Name,
    role: Role = "user",
    unix: Unix = None,
    project: Project = None,
    server: ServerUrl = LOCAL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let somebody in. A key to come in with is made by `aliquot key new`."""
    asked = {"name": name, "role": role, "unix_name": unix, "projects": project or []}
    _tell(_changed(CREATE, asked, server=server, token_file=token_file), as_json=as_json)


@user.command("list")
def list_users(server: ServerUrl = LOCAL, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """List everybody who may come in, and who may no more."""
    found = ask(lambda client: client.execute(LIST), server=server, token_file=token_file)["users"]
    if as_json:
        print(json.dumps(found))
    else:
        _print(found)


@user.command("set")
def change(
    name: Name,
    role: Role = None,
    unix: Unix = None,
    project: Project = None,
    enable: Annotated[bool, typer.Option("--enable", help="Let a disabled user in again.")] = False,
    server: ServerUrl = LOCAL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Change a user; what is not named stays."""
    asked: dict[str, Any] = {"name": name, "role": role, "unix_name": unix, "projects": project or None}
    _tell(
        _changed(UPDATE, asked | ({"disabled": False} if enable else {}), server=server, token_file=token_file),
        as_json=as_json,
    )


@user.command("disable")
def disable(name: Name, server: ServerUrl = LOCAL, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Let somebody in no more, by no key, at once. Sessions stay as they are."""
    _tell(_changed(UPDATE, {"name": name, "disabled": True}, server=server, token_file=token_file), as_json=as_json)


def _changed(query: str, asked: dict[str, Any], *, server: str | None, token_file: Path | None) -> dict[str, Any]:
    changed = ask(lambda client: client.change(query, {"input": asked}), server=server, token_file=token_file)
    found: dict[str, Any] = changed["user"]
    return found


def _tell(changed: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(changed))
    else:
        _print([changed])


def _print(users: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("user", "role", "Unix account", "projects", "", box=None, pad_edge=False)
    for one in users:
        state = "disabled" if one["disabled"] else ""
        table.add_row(one["name"], one["role"], one["unix_name"] or "", ", ".join(one["projects"]), state)
    Console(highlight=False, markup=False).print(table)
