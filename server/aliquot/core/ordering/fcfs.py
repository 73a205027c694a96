"""First come, first served, by the time of submission; the id, which holds a time too, breaks ties."""

from collections.abc import Iterable

from aliquot.core.snapshot import PendingRow


def order(rows: Iterable[PendingRow]) -> list[PendingRow]:
    """Oldest first. A session that is queued again after a failed launch keeps its first time, and so its place."""
    return sorted(rows, key=_key)


def _key(row: PendingRow) -> tuple[int, str]:
    return row.queued_us, row.session_id
