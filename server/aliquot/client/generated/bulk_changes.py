"""Bulk changes.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.enums import SessionAction
from aliquot.client.generated.sessions import Session


class ChangeSessionsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An action on several sessions."""

    ids: Sequence[str]
    """At most 1000 sessions, or tasks of job arrays as `<array>_<index>`. A repeated id counts once."""
    action: SessionAction
    """What to do with each of them."""
    priority: str | None = None
    """The new priority; only for `set_priority`."""
    from_checkpoint: bool = False
    """For `retry`: start from the last acknowledged checkpoint, as in `retry_session`."""


class SessionOutcome(Struct, frozen=True, kw_only=True):
    """The outcome for one session of the request: changed, or refused."""

    id: str
    """The id in the request."""
    session: Session | None
    """The session after the change, or the array if the task has no session of its own. Null if it was refused."""
    code: str | None
    """Code of the error, as in `Error`; null if it was carried out."""
    message: str | None
    """Message for the user; null if it was carried out."""
