"""Deposits: the files of what is sealed together, written a few rows at a time beside the event loop."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Column

from aliquot.store.archive.folder import ArchiveFile, ArchiveFolder, Rows
from aliquot.store.archive.manifest import Manifest
from aliquot.store.archive.sealing import Stretch, finished

Columns = Sequence[Column[Any]]


class Deposit:
    """Nothing stays of what is not finished. Without a folder rows are counted, and that is all."""

    def __init__(self, folder: ArchiveFolder | None, stretches: Mapping[str, tuple[Stretch, Columns]]) -> None:
        """
        Args:
            stretches: by kind.
        """
        self._folder = folder
        self._stretches = stretches
        self._files: dict[str, ArchiveFile] = {}
        self._rows: Counter[str] = Counter()
        self._latest = {kind: stretch.last for kind, (stretch, _) in stretches.items()}

    async def __aenter__(self) -> Self:
        if self._folder is not None:
            try:
                for kind, (stretch, columns) in self._stretches.items():
                    self._files[kind] = await asyncio.to_thread(self._folder.begin, stretch.id, columns)
            except BaseException:
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            await asyncio.to_thread(file.discard)

    def rows(self, kind: str) -> int:
        """How many were put."""
        return self._rows[kind]

    async def put(self, kind: str, rows: Rows, *, last: int = 0) -> None:
        """Append rows; `last` is where they end, if that is later than the stretch was believed to end."""
        self._rows[kind] += len(rows)
        self._latest[kind] = max(self._latest[kind], last)
        if kind in self._files:
            await asyncio.to_thread(self._files[kind].put, rows)

    async def finish(self, *, at_us: int) -> dict[Stretch, Manifest | None]:
        """Give all files their names and manifests; kinds without a row have none."""
        found: dict[Stretch, Manifest | None] = {}
        for kind, (told, _) in self._stretches.items():
            stretch = replace(told, rows=self._rows[kind], last=self._latest[kind])
            if stretch.rows and self._folder is not None:
                file = self._files[kind]
                found[stretch] = await asyncio.to_thread(finished, file, stretch, folder=self._folder, at_us=at_us)
            elif stretch.rows:
                found[stretch] = None
        return found

    async def withdraw(self, manifests: Iterable[Manifest]) -> None:
        """Remove files again that had their names already, and that no seal will ever tell of."""
        if self._folder is not None:
            for manifest in manifests:
                await asyncio.to_thread(self._folder.remove, manifest)
