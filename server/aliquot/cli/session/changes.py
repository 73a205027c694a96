"""`aliquot session cancel`, `change`, `extend`, `give-back`, `hold`, `keep`, `release` and `retry`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from aliquot_schema.resources.units import format_duration

if TYPE_CHECKING:
    from aliquot.client import BlockingClient


Change = Callable[["BlockingClient", str], Any]


def cancel(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Cancel sessions, job arrays or single tasks. Their devices are free when their processes have ended."""
    from aliquot.client.generated.inputs import CancelSessionInput

    place = (cluster, server, token_file)
    _each(session_ids, lambda client, id: client.cancel_session(CancelSessionInput(id=id)), place, as_json=as_json)


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
    from aliquot.client.generated.inputs import ChangeSessionInput

    place = (cluster, server, token_file)
    _each(session_ids, lambda client, id: client.keep_session(ChangeSessionInput(id=id)), place, as_json=as_json)


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
    from aliquot.client.generated.inputs import ChangeSessionInput

    place = (cluster, server, token_file)
    _each(session_ids, lambda client, id: client.hold_session(ChangeSessionInput(id=id)), place, as_json=as_json)


def release(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Release sessions that are held."""
    from aliquot.client.generated.inputs import ChangeSessionInput

    place = (cluster, server, token_file)
    _each(session_ids, lambda client, id: client.release_session(ChangeSessionInput(id=id)), place, as_json=as_json)


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
    from aliquot.client.generated.inputs import ChangeSessionInput

    def again(client: "BlockingClient", id: str) -> Any:
        return client.retry_session(ChangeSessionInput(id=id), from_checkpoint=from_checkpoint)

    _each(session_ids, again, (cluster, server, token_file), as_json=as_json)


def _each(
    ids: Sequence[str], change: Change, place: tuple[str | None, str | None, Path | None], *, as_json: bool
) -> None:
    """Change the sessions one by one; a refused one does not stop the next.

    Args:
        place: the cluster, the server and the token file of the command line.
    Raises:
        Exit: a change was refused, or the server could not be asked; the failures have been printed.
    """
    cluster, server, token_file = place
    code = 0
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        for id in [find_session(client, text) for text in ids]:
            try:
                with failures_shown():
                    session = change(client, id).session
            except Exit as failure:
                if failure.exit_code != REFUSED:
                    raise
                code = REFUSED
            else:
                print_json(session) if as_json else print(f"{session.id}  {session.state}", flush=True)
    if code:
        raise Exit(code)
