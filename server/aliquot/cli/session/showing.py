"""`aliquot session show` and `why`: one session, and why it waits."""

from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import asked, duration, moment, print_json, printable
from aliquot.cli.session.options import SessionId

if TYPE_CHECKING:
    from aliquot.client.generated.sessions import Session

COMMAND_CHARS_MAX: Final = 300


def show(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show everything about a session: what it asked, where it runs, how it stands."""
    from aliquot.cli.session.sentences import course, ending, given_text
    from aliquot.client.session_calls import ENDED

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session = client.look(session_id)
    if as_json:
        print_json(session)
        return
    for name, value in _facts(session):
        if value:
            print(f"{name:<12} {printable(value)}")
    print(f"{'state':<12} {ending(session) if session.state in ENDED else course(session)}")
    for kernel in session.kernels:
        print(f"rank {kernel.rank:<7} {kernel.state} on {kernel.agent_id}: {given_text(kernel.resource_spec)}")


def why(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say why a session waits, and what that rests on."""
    from aliquot.cli.session.sentences import course, waits_text

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session = client.look(session_id)
    if as_json:
        print_json(session.waits)
    elif session.waits is None:
        print(
            f"it does not wait: it is {course(session)}" if session.queue_position is None else "it is not judged yet"
        )
    else:
        print("\n".join(waits_text(session.waits)))
        if session.queue_position is not None:
            print(f"place {session.queue_position} in the queue")
        if session.expected_start is not None:
            print(f"it starts at the latest {moment(session.expected_start)}, if those that run keep to their limits")


def _facts(session: "Session") -> list[tuple[str, str | None]]:
    return [
        ("session", session.id),
        ("name", session.name),
        ("owner", f"{session.owner}, project {session.project}, pool {session.pool}"),
        ("command", _command(session.command)),
        ("asks", asked(session.slots, kernels=session.cluster_size)),
        ("time limit", duration(session.time_limit)),
        ("priority", session.priority),
        ("after", ", ".join(f"{one.session_id} ({one.condition}, {one.state})" for one in session.depends_on)),
        ("submitted", moment(session.queued_at)),
        ("started", moment(session.started_at)),
        ("ended", moment(session.ended_at)),
        ("attempt", str(session.attempt) if session.attempt > 1 else None),
        ("tasks", _tasks(session)),
        ("estimate", None if session.order_estimate is None else session.order_estimate.explanation),
        ("starts", moment(session.expected_start) and f"at the latest {moment(session.expected_start)}"),
    ]


def _command(argv: tuple[str, ...]) -> str:
    """On one line; what was put before a script, and what of a text is too long, is left out."""
    import shlex

    from aliquot.cli.session.slurm_variables import without_slurm_variables

    text = shlex.join(without_slurm_variables(argv)).replace("\n", "; ")
    return text if len(text) <= COMMAND_CHARS_MAX else f"{text[:COMMAND_CHARS_MAX]}..."


def _tasks(session: "Session") -> str | None:
    if session.tasks is None:
        return None
    sets = {name: getattr(session.tasks, name) for name in ("waiting", "active", "completed", "failed", "canceled")}
    return "; ".join(f"{name}: {one.indices}" for name, one in sets.items() if one.count)
