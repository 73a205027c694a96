"""`aliquot user import`: the users of a CSV file, and a key for each of them."""

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct

from aliquot.cli.connection.output import cells, print_json, show_table, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.accounts import CreateUserInput

COLUMNS: Final = ("name", "role", "unix", "projects")


class Row(Struct, frozen=True, kw_only=True):
    """One line of the file, and its outcome."""

    line: int
    name: str
    state: str
    """new, exists, refused, or no_key where the user is new and its key could not be made."""
    message: str | None = None


def import_users(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file; its first line names the columns.")],
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="FOLDER", help="Make a key for each new user: FOLDER/NAME.key.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which users would be new.")] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Create the users of a file with the columns name, and if you like role, unix and projects (with spaces between).

    Users that exist stay as they are, so the same file can be imported again. Exits with 1 if a row is refused or a key
    could not be made.
    """
    wanted = read_users(file)
    if keys is not None and not dry_run:
        try:
            keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            usage(f"--keys {keys}: {error.strerror}")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        known = {one.name for one in client.users()}
        rows = [
            _imported(client, line, user, is_known=user.name in known, keys=keys, dry_run=dry_run)
            for line, user in wanted
        ]
    if as_json:
        print_json(rows)
    else:
        _print(rows, dry_run=dry_run)
    if any(row.state in ("refused", "no_key") for row in rows):
        raise typer.Exit(1)


def read_users(file: Path) -> "list[tuple[int, CreateUserInput]]":
    """The users of a file with the lines that name them.

    Raises:
        typer.Exit: the file, or a row of it, cannot be read.
    """
    from aliquot.client.generated.accounts import CreateUserInput
    from aliquot.client.generated.enums import Role

    found = []
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.DictReader(text, skipinitialspace=True)
            heads = [head.strip().lower() for head in reader.fieldnames or ()]
            unknown = [head for head in heads if head not in COLUMNS]
            if "name" not in heads or unknown:
                usage(f"{file}: the first line has the columns {', '.join(heads) or 'none'}; use {', '.join(COLUMNS)}")
            reader.fieldnames = heads
            for values in reader:
                fields = {head: (values.get(head) or "").strip() for head in COLUMNS}
                role = fields["role"] or "user"
                if not fields["name"] or role not in list(Role):
                    usage(f"{file}, line {reader.line_num}: give a name and one of the roles {', '.join(Role)}")
                user = CreateUserInput(
                    name=fields["name"],
                    role=Role(role),
                    unix_name=fields["unix"] or None,
                    projects=fields["projects"].split(),
                )
                found.append((reader.line_num, user))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        usage(f"{file}: {getattr(error, 'strerror', None) or error}")
    return found


def _imported(
    client: "BlockingClient",
    line: int,
    user: "CreateUserInput",
    *,
    is_known: bool,
    keys: Path | None,
    dry_run: bool,
) -> Row:
    from aliquot.client.errors import Refused

    if is_known or dry_run:
        return Row(line=line, name=user.name, state="exists" if is_known else "new")
    try:
        done = client.create_user(user)
    except Refused as error:
        return Row(line=line, name=user.name, state="refused", message=str(error.answer.get("message")))
    fault = _make_key(client, user.name, keys / f"{user.name}.key") if keys is not None else None
    if fault is not None:
        return Row(line=line, name=user.name, state="no_key", message=f"{fault}; run `aliquot key new {user.name}`")
    return Row(line=line, name=user.name, state="new", message=done.warning)


def _make_key(client: "BlockingClient", name: str, file: Path) -> str | None:
    """Write a new key into a file that only its owner can read; returns the reason if that fails.

    The file is opened first, so that no key is made that could not be kept.
    """
    from aliquot.client.errors import Refused
    from aliquot.client.generated.accounts import CreateApiKeyInput

    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            made = client.create_api_key(CreateApiKeyInput(user=name, name="made by aliquot user import"))
            opened.write(made.secret + "\n")
    except Refused as error:
        file.unlink(missing_ok=True)
        return f"its key was refused: {error.answer.get('message')}"
    except OSError as error:
        return f"its key could not be written to {file}: {error.strerror or error}"
    except Exception:
        file.unlink(missing_ok=True)
        raise
    return None


def _print(rows: list[Row], *, dry_run: bool) -> None:
    shown = table("line", "user", "result")
    for row in rows:
        result = "new, without a key" if row.state == "no_key" else row.state
        shown.add_row(*cells(str(row.line), row.name, f"{result}: {row.message}" if row.message else result))
    show_table(shown)
    count = sum(row.state in ("new", "no_key") for row in rows)
    print(f"{count} of {len(rows)} {'users would be' if dry_run else 'users are'} new")
