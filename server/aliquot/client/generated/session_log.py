"""Session log.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct


class SessionLog(Struct, frozen=True, kw_only=True):
    """
    A piece of a kernel's output. Where an output is longer than its agent keeps, its middle is left out, and a line
    says how much; every byte keeps its offset.
    """

    session_id: str
    """The session."""
    kernel_id: str
    """The kernel."""
    rank: int
    """The kernel's rank, from 0."""
    attempt: int
    """Which try, from 1; 0 before the first."""
    offset: int
    """Of the first byte of this piece."""
    next_offset: int
    """Ask with `offset` set to this one to go on."""
    length: int
    """How many bytes were printed so far, those left out included."""
    left_out: int
    """How many bytes of where this was read are no longer kept."""
    has_more: bool
    """Whether more was printed after this piece."""
    text: str
    """UTF-8; bytes that are not are shown as U+FFFD."""
    at_end: bool
    """Whether nothing will follow."""
