"""`aliquot session files`, `get` and `environment`: what a session left in RESULT_DIR, and what it ran with."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Argument, Option

from aliquot.cli.connection.output import cells, moment, print_json, printable, show_table, table
from aliquot.cli.connection.server import REFUSED, AsJson, AtServer, InCluster, TokenFile, connected, fail, failure_text
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import SessionId
from aliquot_schema.cluster.workspaces import RECORD, EnvironmentRecord, Workspace
from aliquot_schema.resources.units import size_text

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.result_files import ResultFile, SessionFiles
    from aliquot.client.generated.sessions import Session

Rank = Annotated[int, Option(min=0, help="Kernel of a session with several, by number.")]
Folder = Annotated[Path, Option("--output", "-o", metavar="DIR", help="Folder on this machine; created if missing.")]
Wanted = Annotated[list[str], Argument(metavar="PATH...", help="Files or folders below RESULT_DIR; . means all files.")]
Packages = Annotated[bool, Option("--packages", help="Print name==version of each package only.")]
Diff = Annotated[bool, Option("--diff", help="Print the difference from the git commit only.")]
_ALL: Final = frozenset({"", "."})
_FORBIDDEN: Final = "Forbidden"


def files(
    session_id: SessionId,
    path: Annotated[str, Argument(help="A file or folder below RESULT_DIR.")] = ".",
    rank: Rank = 0,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the files that a session left in RESULT_DIR, with size, time and SHA-256."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        id = find_session(client, session_id)
        listing = client.results(id, rank=rank)
        found = _below(listing.files, path)
        if as_json:
            print_json(found)
            return
        made = table("path", "size", "changed", "sha-256")
        for one in found:
            made.add_row(*cells(one.path, size_text(one.size), moment(one.changed_at), one.sha256))
        show_table(made)
        for line in _notes(listing):
            print(line)


def get(
    session_id: SessionId,
    paths: Wanted,
    output: Folder = Path("."),
    rank: Rank = 0,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Download files that a session left in RESULT_DIR, and check them. An interrupted download is continued."""
    from aliquot.client.files import safe_target

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        id = find_session(client, session_id)
        listing = client.results(id, rank=rank)
        wanted = {one.path: one for path in paths for one in _below(listing.files, path)}
        for one in wanted.values():
            target = safe_target(output, one.path)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                size = client.download(id, one.path, target, rank=rank, listed=one)
            except OSError as error:
                fail(f"{target} cannot be written: {error.strerror}", code=REFUSED)
            if as_json:
                print_json({"path": one.path, "file": str(target), "size": size, "sha256": one.sha256})
            else:
                print(f"{printable(target)}  {size_text(size)}")


def _below(files: "tuple[ResultFile, ...]", path: str) -> "list[ResultFile]":
    """The files with this path, or below it."""
    wanted = path.rstrip("/").removeprefix("./")
    found = [one for one in files if wanted in _ALL or one.path == wanted or one.path.startswith(f"{wanted}/")]
    if not found and wanted not in _ALL:
        fail(f"RESULT_DIR has no {printable(path)}; `aliquot session files` lists what it has", code=REFUSED)
    return found


def _notes(listing: "SessionFiles") -> list[str]:
    notes = []
    if listing.left_out:
        notes.append(f"{listing.left_out} more are not listed: links, special files, or names that cannot be printed")
    if listing.is_over_quota:
        most = "" if listing.bytes_max is None else f"{size_text(listing.bytes_max)} in "
        notes.append(f"above the quota of {most}{listing.files_max} files; what is above it is not copied")
    return notes


def environment(
    session_id: SessionId,
    packages: Packages = False,
    diff: Diff = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a session ran with: Python, packages, uploaded files, git commit and difference from it."""
    from aliquot.client.errors import ServerUnreachable

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session = client.get_session(find_session(client, session_id))
        workspace = _workspace(client, session)
        record, unread = None, None
        if as_json or packages or not diff or session.workspace is None:  # that of others is not shown
            try:
                record = _record(client, session)
            except ServerUnreachable as error:
                if as_json or packages:
                    raise
                unread = failure_text(error)
    if as_json:
        print_json({"session": session.id, "environment": record, "workspace": workspace})
    elif packages:
        print("\n".join(f"{name}=={version}" for name, version in (record.packages if record else {}).items()))
    elif diff:
        print("" if workspace is None or workspace.git is None else workspace.git.diff, end="")
    else:
        print("\n".join(_lines(session, workspace, record, unread)))


def _workspace(client: "BlockingClient", session: "Session") -> Workspace | None:
    from aliquot.client.errors import Refused

    if session.workspace is None:
        return None
    try:
        return client.workspace(session.id)
    except Refused as error:
        if error.kind == _FORBIDDEN:
            raise
        print(f"aliquot: {failure_text(error)}", file=sys.stderr)
        return None


def _record(client: "BlockingClient", session: "Session") -> EnvironmentRecord | None:
    """What the node wrote down before the command started; None if that is not there (yet).

    Raises:
        ServerUnreachable: it cannot be read now.
        Refused: the caller may not read it.
    """
    import msgspec

    from aliquot.client.errors import Refused

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "record.json"
        try:
            client.download(session.id, RECORD, target, retries=False)
            return msgspec.json.decode(target.read_bytes(), type=EnvironmentRecord)
        except (Refused, msgspec.MsgspecError) as error:
            if isinstance(error, Refused) and error.kind == _FORBIDDEN:
                raise
            return None


def _lines(
    session: "Session", workspace: Workspace | None, record: EnvironmentRecord | None, unread: str | None
) -> list[str]:
    """Args: unread: why the record cannot be read now; None when it was read, or is not there."""
    lines = [f"environment  {printable(session.activates or 'none was asked for')}"]
    if unread is not None:
        lines.append(f"python       cannot be read now: {printable(unread)}")
    elif record is None:
        lines.append("python       not recorded: the session has not started, or had neither --sync nor --env")
    elif record.python is not None:
        lines.append(f"python       {printable(record.python)}, {printable(record.executable or '')}")
        lines.append(f"packages     {len(record.packages)}; --packages lists them")
    if workspace is None:
        lines.append("files        none were uploaded")
        return lines
    lines.append(f"files        {len(workspace.files)}, {size_text(workspace.bytes_total)}, workspace {workspace.id}")
    git = workspace.git
    if git is not None:
        changed = "too long a difference to keep" if git.is_cut else "with changes; --diff shows them"
        state = changed if git.diff or git.is_cut else "no changes"
        lines.append(f"git          {git.commit[:12]} {printable(git.branch or '')}, {state}")
    return lines
