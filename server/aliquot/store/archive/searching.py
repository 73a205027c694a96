"""Searching a file of the archive, a group of rows at a time, however large it is."""

from functools import cached_property
from typing import Any, Final

_LARGE: Final = ("payload", "prev_hash", "hash")
"""Columns that are read only where something was found."""


class Group:
    """Some thousand rows of a Parquet file, which is read when they are asked for."""

    def __init__(self, file: Any, index: int) -> None:
        self._file = file
        self._index = index

    def rows(self, condition: Any) -> list[dict[str, Any]]:
        """Rows for which it holds, the last first."""
        if not self._small.filter(condition).num_rows:
            return []
        found: list[dict[str, Any]] = self._whole.filter(condition).to_pylist()
        return found[::-1]

    def most(self, name: str) -> int:
        """The highest number in a column."""
        numbers: list[int] = self._small[name].to_pylist()
        return max(numbers)

    @cached_property
    def _small(self) -> Any:
        names = [name for name in self._file.schema_arrow.names if name not in _LARGE]
        return self._file.read_row_group(self._index, columns=names, use_threads=False)

    @cached_property
    def _whole(self) -> Any:
        return self._file.read_row_group(self._index, use_threads=False)


def column(name: str) -> Any:
    """A column, to make conditions of."""
    from pyarrow import compute  # type: ignore[import-untyped] # it ships no types

    return compute.field(name)
