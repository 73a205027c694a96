"""Where history is: a file of its own, or tables of its own in the database that servers share."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import make_url

from aliquot.store.history.file import HistoryFile
from aliquot.store.history.tables import make_tables
from aliquot.store.shared_url import is_shared
from aliquot.store.store import Database

FILE: Final = Path("server") / "history.sqlite"


def place_of(database_url: str, *, data_folder: Path, now_us: Callable[[], int]) -> Callable[[], Database]:
    """What makes the database of history, beside that of a URL. The driver of PostgreSQL is imported when it is."""

    def make() -> Database:
        if not is_shared(database_url):
            return HistoryFile(data_folder / FILE, now_us=now_us)
        from aliquot.store.postgres import PostgresDatabase

        class SharedHistory(PostgresDatabase):
            """Connections of its own, with tables that it makes."""

            async def open(self) -> None:
                await super().open()
                await self.write(make_tables)

        return SharedHistory(make_url(database_url), upgrades=False)

    return make
