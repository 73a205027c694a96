"""Secret files: read for every use, so that they can be changed without a restart."""

from pathlib import Path
from typing import Final

from aliquot.service.alerts.context import NotDelivered

BYTES_MAX: Final = 64 * 1024


def read_secret(path: Path) -> str:
    """Content of the file, without surrounding white space.

    Raises:
        NotDelivered: it cannot be read, or is empty.
    """
    try:
        with path.open("rb") as file:
            text = file.read(BYTES_MAX).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise NotDelivered(f"the file {path} cannot be read: {reason}") from None
    if not text:
        raise NotDelivered(f"the file {path} is empty")
    return text
