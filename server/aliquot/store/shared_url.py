"""Which databases several servers may use at once."""

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError


def is_shared(database_url: str) -> bool:
    """Whether it is one of these; not a text that is no URL."""
    try:
        return bool(database_url) and make_url(database_url).get_backend_name() == "postgresql"
    except ArgumentError:
        return False
