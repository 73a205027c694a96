"""`aliquot key`: the keys by which people and programs come in."""

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from aliquot.cli.connection.asking import connected, usage
from aliquot.cli.connection.choices import choice
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client.generated.accounts import ApiKey

key: Final = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys that people come in with.")


@key.command("new")
def new(
    user: Annotated[str, typer.Argument(metavar="USER", help="Whose key it is to be.")],
    name: Annotated[str, typer.Option(help="What it is for.")] = "made by aliquot key new",
    scope: Annotated[str, typer.Option(help="What it allows at most: read, submit, operate or admin.")] = "submit",
    expires: Annotated[str | None, typer.Option(help="When it ends by itself, like 90d.", show_default="never")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a key, and print it once. Its owner keeps it in a file that nobody else can read."""
    from aliquot.client.generated.accounts_inputs import CreateApiKeyInput
    from aliquot.client.generated.enums import KeyScope

    allowed = choice(KeyScope, scope, of="scope")
    wanted = CreateApiKeyInput(user=user, name=name, scope=allowed, expires_in=_seconds(expires))
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        made = client.create_api_key(wanted)
    if as_json:
        print_json({**msgspec.to_builtins(made.api_key), "secret": made.secret})
    else:
        print(made.secret)


@key.command("list")
def list_keys(
    user: Annotated[str | None, typer.Option(help="Those of this user alone.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List keys: all of them for admins, one's own for others."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.api_keys(user=user)
    if as_json:
        print_json(found)
    else:
        _print(found)


@key.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, key_...")],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let nobody in by a key any more, at once; what is open by it is closed."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        revoked = client.revoke_api_key(key_id).api_key
    if as_json:
        print_json(revoked)
    else:
        print(f"{revoked.id} of {revoked.user} is revoked")


def _seconds(expires: str | None) -> float | None:
    if expires is None:
        return None
    from aliquot.service.retention.periods import parse_period

    try:
        lasts_us = parse_period(expires)
    except ValueError as error:
        usage(f"--expires: {error}")
    return None if lasts_us is None else lasts_us / 1e6


def _print(keys: "Sequence[ApiKey]") -> None:
    rows = table("key", "user", "for", "scope", "made", "ends", "")
    for one in keys:
        state = "" if one.is_valid else "revoked" if one.revoked_at else "no longer holds"
        ends = f"{one.expires_at:%Y-%m-%d}" if one.expires_at else ""
        rows.add_row(*cells(one.id, one.user, one.name, one.scope, f"{one.created_at:%Y-%m-%d}", ends, state))
    console().print(rows)
