"""`aliquot key`: the keys by which people and programs come in."""

import json
from typing import Annotated, Any, Final

import typer

from aliquot.cli.running_server import LOCAL, ServerUrl, TokenFile, ask
from aliquot.cli.stopped_server import AsJson

FIELDS: Final = "id user name scope created_at expires_at revoked_at is_valid"
LIST: Final = f"query ($user: String) {{ api_keys(user: $user) {{ {FIELDS} }} }}"
CREATE: Final = f"""mutation ($input: CreateApiKeyInput!) {{ create_api_key(input: $input) {{
  __typename ... on Error {{ code message }} ... on CreateApiKeySuccess {{ secret api_key {{ {FIELDS} }} }} }} }}"""
REVOKE: Final = f"""mutation ($id: ID!) {{ revoke_api_key(id: $id) {{
  __typename ... on Error {{ code message }} ... on RevokeApiKeySuccess {{ api_key {{ {FIELDS} }} }} }} }}"""

key: Final = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys that people come in with.")


@key.command("new")
def new(
    user: Annotated[str, typer.Argument(metavar="USER", help="Whose key it is to be.")],
    name: Annotated[str, typer.Option(help="What it is for.")] = "made by aliquot key new",
    scope: Annotated[str, typer.Option(help="What it allows at most: read, submit, operate or admin.")] = "submit",
    expires: Annotated[str | None, typer.Option(help="When it ends by itself, like 90d.  [default: never]")] = None,
    server: ServerUrl = LOCAL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a key, and print it once. Its owner keeps it in a file that nobody else can read."""
    asked = {"user": user, "name": name, "scope": scope, "expires_in": _seconds(expires)}
    made = ask(lambda client: client.change(CREATE, {"input": asked}), server=server, token_file=token_file)
    if as_json:
        print(json.dumps({**made["api_key"], "secret": made["secret"]}))
    else:
        print(made["secret"])


@key.command("list")
def list_keys(
    user: Annotated[str | None, typer.Option(help="Those of this user alone.")] = None,
    server: ServerUrl = LOCAL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List keys: all of them for admins, one's own for others."""
    found = ask(lambda client: client.execute(LIST, {"user": user}), server=server, token_file=token_file)["api_keys"]
    if as_json:
        print(json.dumps(found))
    else:
        _print(found)


@key.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, key_...")],
    server: ServerUrl = LOCAL,
    token_file: TokenFile = None,
) -> None:
    """Let nobody in by a key any more, at once; what is open by it is closed."""
    changed = ask(lambda client: client.change(REVOKE, {"id": key_id}), server=server, token_file=token_file)
    revoked = changed["api_key"]
    print(f"{revoked['id']} of {revoked['user']} is revoked")


def _seconds(expires: str | None) -> float | None:
    if expires is None:
        return None
    from aliquot.service.retention.periods import parse_period

    try:
        lasts_us = parse_period(expires)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--expires") from None
    return None if lasts_us is None else lasts_us / 1e6


def _print(keys: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("key", "user", "for", "scope", "made", "ends", "", box=None, pad_edge=False)
    for one in keys:
        state = "" if one["is_valid"] else "revoked" if one["revoked_at"] else "no longer holds"
        ends = (one["expires_at"] or "")[:10]
        table.add_row(one["id"], one["user"], one["name"], one["scope"], one["created_at"][:10], ends, state)
    Console(highlight=False, markup=False).print(table)
