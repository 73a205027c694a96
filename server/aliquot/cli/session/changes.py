"""`aliquot session cancel`, `change`, `extend`, `give-back`, `hold`, `keep`, `release` and `retry`."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Exit, Option

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import (
    REFUSED,
    AsJson,
    AtServer,
    InCluster,
    TokenFile,
    connected,
    failures_shown,
    usage,
)
from aliquot.cli.session import options as o
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import SessionId, SessionIds, priority_of, seconds_of, slots_of
from aliquot_schema.errors import RateLimited
from aliquot_schema.resources.units import format_duration

if TYPE_CHECKING:
    from aliquot.client.generated.bulk_changes import SessionOutcome

_TOGETHER: Final = 250
"""Sessions of one request."""


def cancel(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Cancel sessions, job arrays or single tasks. Their devices are free when their processes have ended."""
    _change_all(session_ids, "cancel", (cluster, server, token_file), as_json=as_json)


def change(
    session_id: SessionId,
    gpus: Annotated[str | None, Option("--gpus", metavar="N", help="GPUs per kernel; short for -r gpu=N.")] = None,
    resources: Annotated[
        list[str] | None,
        Option(
            "-r",
            "--resources",
            metavar="SLOT=AMOUNT",
            help="Per kernel, like gpu=1 or cpu=8. Other slots stay; CPUs that came with GPUs change with them.",
        ),
    ] = None,
    cluster_size: Annotated[int | None, Option(min=1, help="Number of kernels.")] = None,
    time_limit: o.TimeLimit = None,
    preemptible: Annotated[
        bool | None, Option("--preemptible/--not-preemptible", help="Allow preemption by other sessions.")
    ] = None,
    priority: Annotated[str | None, Option(help="low, normal, high or critical, or 1 to 4.")] = None,
    project: o.Project = None,
    pool: o.Pool = None,
    model: o.Models = None,
    any_model: Annotated[bool, Option("--any-model", help="Allow GPUs of any model.")] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Change the request of a waiting session; it keeps its place in the queue.

    Of a job array, the tasks that have not started are changed. Options that are left out change nothing.
    """
    from aliquot.cli.session.submit import report_standing
    from aliquot.client.generated.inputs import UpdateSessionInput

    terms: dict[str, Any] = {
        "slots": slots_of(resources, gpus=gpus) if resources or gpus else None,
        "cluster_size": cluster_size,
        "time_limit": seconds_of(time_limit, option="--time-limit"),
        "preemptible": preemptible,
        "priority": None if priority is None else priority_of(priority),
        "project": project,
        "pool": pool,
        "models": [] if any_model else model,
    }
    if all(value is None for value in terms.values()):
        usage("nothing to change; give at least one option, like --time-limit 1h")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        asked = UpdateSessionInput(id=find_session(client, session_id), **terms)
        session = client.update_session(asked).session
        print_json(session) if as_json else print(f"{session.id}  {session.state}", flush=True)
        if not as_json:
            report_standing(client, session, done="changed")


def extend(
    session_id: SessionId,
    time: Annotated[str, Argument(metavar="DURATION", help="Time to add to its limit, like 2h or 30m.")],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Add time to the limit of a running session.

    It is granted if it delays no other session and no booking; otherwise the answer names those that it would delay.
    """
    from aliquot.client.generated.inputs import ChangeSessionInput

    seconds = seconds_of(time, option="DURATION")
    assert seconds is not None, "the argument is required"
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        id = find_session(client, session_id)
        session = client.extend_session(ChangeSessionInput(id=id), seconds=seconds).session
        if as_json:
            print_json(session)
            return
        print(f"{session.id}  time limit {format_duration(session.time_limit or 0)}")


def keep(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """State that sessions are still needed although they do not use their GPUs."""
    _change_all(session_ids, "keep", (cluster, server, token_file), as_json=as_json)


def give_back(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Give back the GPUs of sessions that are not needed any more: the same as `cancel`."""
    cancel(session_ids, cluster=cluster, server=server, token_file=token_file, as_json=as_json)


def hold(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Hold pending sessions: they do not start until they are released."""
    _change_all(session_ids, "hold", (cluster, server, token_file), as_json=as_json)


def release(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Release sessions that are held."""
    _change_all(session_ids, "release", (cluster, server, token_file), as_json=as_json)


def retry(
    session_ids: SessionIds,
    from_checkpoint: Annotated[
        bool, Option("--from-checkpoint", help="Start from the last acknowledged checkpoint.")
    ] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Run ended sessions again; of an array, the failed and canceled tasks, or all if there are none."""
    place = (cluster, server, token_file)
    _change_all(session_ids, "retry", place, as_json=as_json, from_checkpoint=from_checkpoint)


def _change_all(
    ids: Sequence[str],
    action: str,
    place: tuple[str | None, str | None, Path | None],
    *,
    as_json: bool,
    from_checkpoint: bool = False,
) -> None:
    """Change the sessions, many in one request; a refused one does not stop the others.

    Args:
        action: a value of `SessionAction`.
        place: the cluster, the server and the token file of the command line.
    Raises:
        Exit: a change was refused, or the server could not be asked; the failures have been printed.
    """
    from aliquot.client.generated.bulk_changes import ChangeSessionsInput
    from aliquot.client.generated.enums import SessionAction

    cluster, server, token_file = place
    has_refused = False
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        rest = list(dict.fromkeys(find_session(client, text) for text in ids))
        while rest:
            some, rest = rest[:_TOGETHER], rest[_TOGETHER:]
            asked = ChangeSessionsInput(ids=some, action=SessionAction(action), from_checkpoint=from_checkpoint)
            results = client.change_sessions(asked).results
            # Asked again: a request whose first session is refused by the rate limit is repeated by the client.
            rest = [one.id for one in results if one.code == RateLimited.code] + rest
            for outcome in results:
                has_refused |= outcome.session is None and outcome.code != RateLimited.code
                _show(outcome, as_json=as_json)
    if has_refused:
        raise Exit(REFUSED)


def _show(outcome: "SessionOutcome", *, as_json: bool) -> None:
    """Print what became of a session; nothing if it is asked again."""
    from aliquot.client.errors import Refused, error_type

    if (session := outcome.session) is not None:
        print_json(session) if as_json else print(f"{session.id}  {session.state}", flush=True)
    elif outcome.code != RateLimited.code:
        with suppress(Exit), failures_shown():
            kind = error_type(outcome.code or "")
            raise Refused({"__typename": kind, "kind": "session", "message": outcome.message})
