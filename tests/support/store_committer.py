"""A process that commits sessions from many concurrent callers and prints each id once acknowledged.

Arguments: database URL (empty for SQLite), data folder, callers.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

import store_records as make
from aliquot.service.ports import Store
from store_places import Place


async def main(url: str, folder: str, callers: int) -> None:
    """Commit until killed."""
    store = Place(url, Path(folder)).store()
    await store.open()
    await asyncio.gather(*(_commit_for_ever(store) for _ in range(callers)))


async def _commit_for_ever(store: Store) -> None:
    for _ in itertools.count():
        session = make.session()
        await store.commit(make.batch(session, make.session()))
        os.write(1, f"{session.id}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
