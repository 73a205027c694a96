"""`aliquot session wait`: return when a session has ended."""

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.session.options import SessionId


def wait(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Wait for the end of a session or of all tasks of an array. The exit code is 1 unless it completed."""
    from aliquot.cli.session.submitting import conclude
    from aliquot.cli.session.waiting import wait_for

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        conclude(client, session_id, lambda: wait_for(client, session_id), as_json=as_json)
