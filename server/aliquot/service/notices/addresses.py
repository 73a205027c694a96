"""Addresses of mail, as people give them."""

from email.errors import MessageError
from email.headerregistry import Address
from typing import Final

CHARACTERS_MAX: Final = 254
"""RFC 5321, 4.5.3.1.3, without the brackets."""


def checked_address(text: str) -> str:
    """An address that can stand in a letter and in a conversation with a mail server, and nothing beside it.

    Raises:
        ValueError: it is none, or one that not every mail server takes.
    """
    address = text.strip()
    if not address.isascii() or not address.isprintable() or len(address) > CHARACTERS_MAX:
        raise ValueError(f"an address of mail has {CHARACTERS_MAX} printable ASCII characters at most")
    try:
        parsed = Address(addr_spec=address)
    except (MessageError, ValueError, IndexError):
        raise ValueError("this is no address of mail; give one like ann@example.org") from None
    is_plain = parsed.addr_spec == address and not any(sign in address for sign in ' <>,;:"()[]\\')
    if not is_plain or not parsed.username or not parsed.domain.strip(".-"):
        raise ValueError("this is no address of mail; give one like ann@example.org")
    return address
