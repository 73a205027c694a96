"""Pages of the files that the program runs from. A process that sleeps need not keep them: the page cache has them, and
the ones that are touched again come back by themselves."""

from libc import madvise  # type: ignore[import-not-found] # a sibling: the folder is run as a program

_MADV_DONTNEED = 4


def clean_mappings() -> list[tuple[int, int]]:
    """(address, bytes) of all mappings of files that hold nothing but what is in the file, and that cannot be written.

    Taken before the forks: what is clean then stays so in every shim. A mapping with a page that was written to, as the
    loader does when it relocates, is left out: such a page is nowhere else.
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


def let_go(mappings: list[tuple[int, int]]) -> None:
    """Give their pages back; one that cannot be given back stays."""
    for address, length in mappings:
        madvise(address, length, _MADV_DONTNEED)


def _span(fields: list[bytes]) -> tuple[int, int] | None:
    """Of a line `<from>-<to> <rights> <offset> <device> <inode> <path>`; None when it is no read-only file."""
    if len(fields) < 6 or not fields[5].startswith(b"/") or b"w" in fields[1]:
        return None
    begin, _, end = fields[0].partition(b"-")
    return int(begin, 16), int(end, 16) - int(begin, 16)
