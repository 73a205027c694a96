"""Recalling: ended sessions that left memory, and that a pending one depends on, are taken back into it."""

from aliquot.service.ports import Store
from aliquot.service.state import State
from aliquot_schema.ids import SessionId


async def recall_dependencies(
    state: State, *, store: Store, sought: frozenset[SessionId] = frozenset()
) -> frozenset[SessionId]:
    """Have in memory what pending sessions wait for; passes look there alone.

    Args:
        sought: ids that were looked for before, and are no sessions of their own: tasks that were not split off yet.
    Returns:
        All ids that are missing in memory now.
    Raises:
        StoreUnavailable: the store cannot be read now.
    """
    wanted = {session_id for session_id in state.waited_for() if session_id not in state.sessions}
    for session_id in sorted(wanted - sought):
        state.recall(await store.session_records(session_id))
    return frozenset(wanted - state.sessions.keys())
