"""The last lines that a session printed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aliquot.client import BlockingClient

LINE_BYTES: Final = 512
"""So long a line is taken to be at first."""
BYTES_MAX: Final = 16 * 2**20
"""So much of the end is read at most; where lines are longer, fewer of them are found, or the end of one."""
FURTHER: Final = 16


def last_lines(client: "BlockingClient", id: str, *, ranks: Iterable[int], attempt: int, most: int) -> dict[int, str]:
    """By rank, so many lines at most, of what has been printed so far; read from the end."""
    return {rank: "\n".join(_last(client, id, rank=rank, attempt=attempt, most=most)) for rank in ranks}


def _last(client: "BlockingClient", id: str, *, rank: int, attempt: int, most: int) -> list[str]:
    back = min(BYTES_MAX, most * LINE_BYTES)
    while True:
        pieces = list(client.output_so_far(id, offsets={rank: -back}, attempt=attempt))
        lines = "".join(piece.text for piece in pieces).split("\n")
        # What follows the last line's end is no line, unless something stands there.
        wanted = most if lines[-1] else most + 1
        # The first that was read may be a part of one.
        if len(lines) > wanted or pieces[0].offset == 0 or back == BYTES_MAX:
            return lines[-wanted:]
        back = min(BYTES_MAX, back * FURTHER)
