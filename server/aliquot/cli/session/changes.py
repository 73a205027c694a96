"""`aliquot session cancel`, `hold`, `release` and `retry`: each for any number of sessions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected
from aliquot.cli.session.names import find_session
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
    """Cancel sessions, job arrays or single tasks. Their devices are free when their processes have ended."""
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
    """Hold pending sessions: they do not start until they are released."""
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
    """Release sessions that are held."""
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
    """Run ended sessions again; of an array, the failed and canceled tasks, or all if there are none."""
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
    """Change the sessions one by one; stop at the first refusal."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        for id in [find_session(client, text) for text in ids]:
            session = change(client, id).session
            print_json(session) if as_json else print(f"{session.id}  {session.state}")
