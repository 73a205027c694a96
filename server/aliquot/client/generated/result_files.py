"""Result files.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct


class ResultFile(Struct, frozen=True, kw_only=True):
    """A regular file below RESULT_DIR."""

    path: str
    """Relative to RESULT_DIR."""
    size: int
    """Bytes."""
    changed_at: datetime
    """Time of its last change."""
    sha256: str | None
    """
    Of the content, in hexadecimal; null if it changed while it was read, or was too much to read for this answer. A
    listing hashes 512 MiB; the next one goes on.
    """


class SessionFiles(Struct, frozen=True, kw_only=True):
    """
    The files that a session left below RESULT_DIR on the agent of one rank. Download one from
    `/sessions/{id}/files/{path}`.
    """

    session_id: str
    """The session."""
    rank: int
    """Rank of the kernel, from 0. Ranks of one agent share a RESULT_DIR."""
    files: tuple[ResultFile, ...]
    """By path."""
    total_count: int
    """Number of files on all pages."""
    bytes_total: int
    """Size of all files together."""
    left_out: int
    """
    Entries that are not listed: links, devices, pipes, unreadable files, names that cannot be printed, and files above
    the limits.
    """
    bytes_max: int | None
    """Quota of their size together; null = none."""
    files_max: int
    """Quota of their number."""
    is_over_quota: bool
    """Whether they exceed the quota; what is above it is not copied to the results folder."""
    has_more: bool
    """Whether there are files after this page."""
