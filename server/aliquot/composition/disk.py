"""The server's own disk: where it commits, and where the outputs of its own agents are."""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import make_url

from aliquot.settings import Settings


def own_disk(settings: Settings) -> Callable[[], str | None]:
    """Asks what is short there, in words; None when there is room."""
    folders = [settings.data_folder]
    if settings.database is not None:
        url = make_url(settings.database)
        if url.get_backend_name() == "sqlite" and url.database:
            folders.append(Path(url.database).absolute().parent)

    def look() -> str | None:
        found = (settings.disk_rules.shortage(folder) for folder in folders)
        return next((words for words in found if words is not None), None)

    return look
