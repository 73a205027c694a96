"""`aliquot session cancel`, `hold`, `release` and `retry`: each on any number of sessions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import print_json
from aliquot.cli.session.options import SessionIds

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
    """Cancel sessions, arrays, or tasks of one. Devices are free once the processes are gone."""
    from aliquot.client.generated.inputs import CancelSessionInput

    def change(client: "BlockingClient", id: str) -> Any:
        return client.cancel_session(CancelSessionInput(id=id))

    _each(session_ids, change, cluster=cluster, server=server, token_file=token_file, as_json=as_json)


def hold(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Hold waiting sessions back until they are released."""
    from aliquot.client.generated.inputs import ChangeSessionInput

    def change(client: "BlockingClient", id: str) -> Any:
        return client.hold_session(ChangeSessionInput(id=id))

    _each(session_ids, change, cluster=cluster, server=server, token_file=token_file, as_json=as_json)


def release(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let sessions wait again that were held back."""
    from aliquot.client.generated.inputs import ChangeSessionInput

    def change(client: "BlockingClient", id: str) -> Any:
        return client.release_session(ChangeSessionInput(id=id))

    _each(session_ids, change, cluster=cluster, server=server, token_file=token_file, as_json=as_json)


def retry(
    session_ids: SessionIds,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Run sessions again that have ended; of an array the tasks that failed or were canceled, else all."""
    from aliquot.client.generated.inputs import ChangeSessionInput

    def change(client: "BlockingClient", id: str) -> Any:
        return client.retry_session(ChangeSessionInput(id=id))

    _each(session_ids, change, cluster=cluster, server=server, token_file=token_file, as_json=as_json)


def _each(
    ids: Sequence[str],
    change: Change,
    *,
    cluster: str | None,
    server: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """One after the other; it ends at the first that is refused."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        for id in ids:
            session = change(client, id).session
            print_json(session) if as_json else print(f"{session.id}  {session.state}")
