"""File pages: drops clean file-backed pages of a sleeping shim from its memory.

The page cache still has them; pages that are touched again are mapped again by the kernel.
"""

from libc import madvise  # type: ignore[import-not-found] # a sibling: the folder is run as a program

_MADV_DONTNEED = 4


def clean_mappings() -> list[tuple[int, int]]:
    """(address, bytes) of all read-only file mappings without modified pages.

    Collected before the forks: a clean mapping stays clean in every shim. Mappings with modified pages, as from the
    loader's relocations, are excluded, because such pages exist only in memory.
    """
    clean: list[tuple[int, int]] = []
    span: tuple[int, int] | None = None
    with open("/proc/self/smaps", "rb") as mappings:
        for line in mappings:
            fields = line.split()
            if b"-" in fields[0]:
                span = _span(fields)
            elif fields[0] == b"Anonymous:" and fields[1] == b"0" and span is not None:
                clean.append(span)
    return clean


def drop_pages(mappings: list[tuple[int, int]]) -> None:
    """Drop the pages of the mappings from memory; failures are ignored."""
    for address, length in mappings:
        madvise(address, length, _MADV_DONTNEED)


def _span(fields: list[bytes]) -> tuple[int, int] | None:
    """Parse a line `<from>-<to> <rights> <offset> <device> <inode> <path>`; None if it is not a read-only file."""
    if len(fields) < 6 or not fields[5].startswith(b"/") or b"w" in fields[1]:
        return None
    begin, _, end = fields[0].partition(b"-")
    return int(begin, 16), int(end, 16) - int(begin, 16)
