"""`aliquot run`: submits a session, or several that depend on each other, from a YAML file."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from typer import Argument, Exit, Option

from aliquot.cli.connection.output import print_json, printable
from aliquot.cli.connection.server import FAILED, AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.session.names import find_session
from aliquot.cli.working_directory import synced

if TYPE_CHECKING:
    from aliquot.cli.run.fields import SessionInFile
    from aliquot.client import BlockingClient, Refused
    from aliquot.client.generated.forecasts import TimeBand
    from aliquot.client.generated.inputs import CreateSessionInput
    from aliquot.client.generated.sessions import Session

File = Annotated[Path | None, Argument(metavar="FILE", help="Sessions in YAML.")]
Schema = Annotated[bool, Option("--schema", help="Print the JSON schema of such files, for editors.")]
DryRun = Annotated[bool, Option("--dry-run", help="Submit nothing; show when and where each would start.")]
Wait = Annotated[bool, Option("--wait", "-w", help="Wait until all have ended; exit code 1 unless all completed.")]

_POSITION: Final = re.compile(r"sessions\[(?P<position>\d+)\]")
"""Of a session in a batch, in front of a refusal."""


def run(
    file: File = None,
    schema: Schema = False,
    dry_run: DryRun = False,
    wait: Wait = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Submit the sessions of a file, all or none. A session is submitted after those that it names in `after`."""
    from aliquot.cli.run import fields

    if schema:
        print_json(fields.schema())
        return
    if file is None:
        usage("name a file, or give --schema")
    sessions = _read(file)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if dry_run:
            _preview(client, sessions, as_json=as_json)
            return
        submitted = _submit(client, sessions)
        for one, session in zip(sessions, submitted, strict=True):
            print_json(session) if as_json else print(f"{session.id}  {printable(one.name)}", flush=True)
        if wait:
            _wait(client, submitted)


def _read(file: Path) -> "list[SessionInFile]":
    from aliquot.cli.run.fields import read_file
    from aliquot_schema.errors import InvalidRequest

    try:
        return read_file(file)
    except InvalidRequest as error:
        usage(error.message)
    except OSError as error:
        usage(f"{file}: {error.strerror}")


def _requests(client: "BlockingClient", sessions: "list[SessionInFile]") -> "list[CreateSessionInput]":
    """The requests. Sessions of the file are named by `local_name`, others by their id."""
    import uuid

    from aliquot.client.generated.enums import DependencyCondition
    from aliquot.client.generated.inputs import DependencyInput

    own = {one.name for one in sessions}
    found = []
    uploaded: dict[Path, str | None] = {}
    for one in sessions:
        after: list[DependencyInput] = [
            DependencyInput(
                session_id=name if name in own else find_session(client, name),
                condition=DependencyCondition(condition),
            )
            for name, condition, _ in one.after
        ]
        names = {"local_name": one.name, "idempotency_key": uuid.uuid4().hex}
        request = msgspec.structs.replace(one.request(), depends_on=after or None, **names)
        if one.sync is not None and one.sync not in uploaded:
            uploaded[one.sync] = synced(client, request, one.sync).workspace
        if one.sync is not None:
            request = msgspec.structs.replace(request, workspace=uploaded[one.sync])
        found.append(request)
    return found


def _submit(client: "BlockingClient", sessions: "list[SessionInFile]") -> "list[Session]":
    from aliquot.client.errors import Refused
    from aliquot.client.generated.inputs import CreateSessionsInput

    requests = _requests(client, sessions)
    try:
        return [one.session for one in client.create_sessions(CreateSessionsInput(sessions=requests)).results]
    except Refused as error:
        raise _in_file(error, sessions) from None


def _in_file(error: "Refused", sessions: "list[SessionInFile]") -> "Refused":
    """The refusal of a batch, with the place in the file instead of the position in the batch."""
    message = str(error.answer.get("message", ""))
    found = _POSITION.match(message)
    if found is None:
        return error
    one = sessions[int(found["position"])]
    return _placed(error, one, message[found.end() :].removeprefix(f" ({one.name})").removeprefix(": "))


def _placed(error: "Refused", one: "SessionInFile", message: str) -> "Refused":
    from aliquot.client.errors import Refused

    return Refused({**error.answer, "message": one.refusal(message, field=error.answer.get("field"))})


def _preview(client: "BlockingClient", sessions: "list[SessionInFile]", *, as_json: bool) -> None:
    """What would become of each session by itself; those that wait for others are shown as if these had ended."""
    from aliquot.cli.connection.tables import present
    from aliquot.cli.session.show import preview_text
    from aliquot.cli.session.when import start_text
    from aliquot.client.errors import Refused

    _check_names(client, sessions)
    for one in sessions:
        request = one.request()
        try:
            preview = client.preview_session(request)
        except Refused as error:
            raise _placed(error, one, str(error.answer.get("message", ""))) from None
        start = None if preview.starts_now else _start(client, request)
        if as_json:
            print_json({"name": one.name, "preview": preview, "start": start})
            continue
        after = f", after {', '.join(printable(name) for name, _, _ in one.after)}" if one.after else ""
        print(f"{printable(one.name)}{after}:")
        print("\n".join(f"  {line}" for line in preview_text(client, preview, request).splitlines()))
        if start is not None:
            print(f"  forecast: {start_text(start, now=present())}")


def _check_names(client: "BlockingClient", sessions: "list[SessionInFile]") -> None:
    """Check that folders and earlier sessions that the file names exist, as a submission would."""
    own = {one.name for one in sessions}
    for one in sessions:
        if one.sync is not None and not one.sync.is_dir():
            usage(f"sessions.{one.name}: sync: {one.sync} is not a folder")
        for name in {name for name, _, _ in one.after} - own:
            client.get_session(find_session(client, name))


def _start(client: "BlockingClient", request: "CreateSessionInput") -> "TimeBand | None":
    """When a session is forecast to start; None if that is unknown."""
    from aliquot.client.errors import Refused

    (found,) = client.preview_forecasts([request])
    return None if isinstance(found, Refused) or found.forecast.now is None else found.forecast.now.start


def _wait(client: "BlockingClient", sessions: "list[Session]") -> None:
    from aliquot.cli.session.show import outcome_text
    from aliquot.client.generated.enums import SessionState

    ended = [client.wait(session.id) for session in sessions]
    for session in ended:
        print(f"{session.id}  {outcome_text(session)}", file=sys.stderr)
    if any(session.state is not SessionState.COMPLETED for session in ended):
        raise Exit(FAILED)
