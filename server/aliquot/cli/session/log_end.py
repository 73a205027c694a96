"""The last lines that a session printed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aliquot.client import BlockingClient

LINE_BYTES: Final = 512
"""So long a line is taken to be; where lines are longer, fewer of them are found."""
BYTES_MAX: Final = 16 * 2**20


def last_lines(client: "BlockingClient", id: str, *, ranks: Iterable[int], attempt: int, most: int) -> dict[int, str]:
    """By rank, so many lines at most, of what has been printed so far; read from the end."""
    begin = -min(BYTES_MAX, most * LINE_BYTES)
    found: dict[int, str] = {}
    for rank in ranks:
        pieces = client.output_so_far(id, offsets={rank: begin}, attempt=attempt)
        lines = "".join(piece.text for piece in pieces).split("\n")
        # What follows the last line's end is no line, unless something stands there.
        kept = lines[-most:] if lines[-1] else lines[-most - 1 :]
        found[rank] = "\n".join(kept)
    return found
