"""Results.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from msgspec import Struct

from aliquot.client.generated.accounts import ApiKey, User
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.alerts import Delivery, NoticePreferences, NoticeRule
from aliquot.client.generated.bookings import Booking, ImportedRow
from aliquot.client.generated.bulk_changes import SessionOutcome
from aliquot.client.generated.operations import Difference, Orchestrator
from aliquot.client.generated.policy import Policy, Quota
from aliquot.client.generated.secrets import Secret
from aliquot.client.generated.sessions import Session
from aliquot.client.generated.templates import SessionTemplate


class AgentChangeSuccess(Struct, frozen=True, kw_only=True):
    """The agent was changed."""

    agent: Agent
    """The agent."""
    revision: int
    """Event number of the change; for `min_revision`."""


class BookingSuccess(Struct, frozen=True, kw_only=True):
    """The booking after a change."""

    booking: Booking
    """The booking."""
    others: tuple[Booking, ...]
    """The other bookings of a recurring one, refused ones included."""
    revision: int
    """Event number of the change; for `min_revision`."""


class CancelSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session was canceled. Its devices stay held until its processes are gone."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class ChangeSessionsSuccess(Struct, frozen=True, kw_only=True):
    """The action was tried on each session; `results` says where it was refused."""

    results: tuple[SessionOutcome, ...]
    """In the order of the request."""
    refused: int
    """How many were refused."""
    revision: int
    """Event number of the last change; for `min_revision`."""


class CopyDatabaseSuccess(Struct, frozen=True, kw_only=True):
    """The database was copied."""

    path: str
    """Path of the copy on the server's machine."""
    size_bytes: int
    """Size of the copy."""


class CreateApiKeySuccess(Struct, frozen=True, kw_only=True):
    """The key was created."""

    api_key: ApiKey
    """The key."""
    secret: str
    """The bearer token, for the header `Authorization: Bearer`. It is not stored and is never shown again."""
    revision: int
    """Event number of the change; for `min_revision`."""


class CreateSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session was accepted and stored."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""
    created: bool
    """False if the idempotency key matched an existing session."""


class CreateSessionsSuccess(Struct, frozen=True, kw_only=True):
    """All sessions were accepted and stored."""

    results: tuple[CreateSessionSuccess, ...]
    """In the order of the request."""
    revision: int
    """Event number of the change; for `min_revision`."""


class DeleteSecretSuccess(Struct, frozen=True, kw_only=True):
    """The secret was deleted. Sessions that use it can no longer start."""

    name: str
    """Name of the secret."""


class DeleteSessionTemplateSuccess(Struct, frozen=True, kw_only=True):
    """The template was deleted."""

    project: str
    """Its project."""
    name: str
    """Its name."""
    revision: int
    """Event number of the change; for `min_revision`."""


class ExtendSessionSuccess(Struct, frozen=True, kw_only=True):
    """The running session has a later time limit."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class HoldSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session is held."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class ImportReservationsSuccess(Struct, frozen=True, kw_only=True):
    """The rows of the file, in its order."""

    rows: tuple[ImportedRow, ...]
    """What became of each row, or would."""
    dry_run: bool
    """Whether nothing was stored."""
    revision: int
    """Event number of the change; for `min_revision`."""


class KeepSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session is still needed; it keeps its GPUs for the time that the policy allows."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class NoticePreferencesChangeSuccess(Struct, frozen=True, kw_only=True):
    """The preferences were changed."""

    preferences: NoticePreferences
    """The preferences."""
    revision: int
    """Event number of the change; for `min_revision`."""


class NoticeRuleChangeSuccess(Struct, frozen=True, kw_only=True):
    """The rule was changed."""

    rule: NoticeRule
    """The rule."""
    revision: int
    """Event number of the change; for `min_revision`."""


class OrchestratorChangeSuccess(Struct, frozen=True, kw_only=True):
    """The orchestrator was stopped or started."""

    orchestrator: Orchestrator
    """The orchestrator."""
    revision: int
    """Event number of the change; for `min_revision`."""


class PolicyChangeSuccess(Struct, frozen=True, kw_only=True):
    """The policy was changed, with effect from the next scheduling pass."""

    policy: Policy
    """The policy."""
    revision: int
    """Event number of the change; for `min_revision`."""


class ProjectDeleteSuccess(Struct, frozen=True, kw_only=True):
    """The project was deleted. Its past sessions and its usage stay."""

    name: str
    """The project."""
    revision: int
    """Event number of the change; for `min_revision`."""


class QuotaChangeSuccess(Struct, frozen=True, kw_only=True):
    """The quota was changed, or removed if it has no limits."""

    quota: Quota
    """The quota."""
    revision: int
    """Event number of the change; for `min_revision`."""


class ReleaseSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session is queued again at its original place."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class RenewCalendarFeedSuccess(Struct, frozen=True, kw_only=True):
    """Secret addresses of your calendar feed (ICS), shown once; earlier ones stop working."""

    mine: str
    """Path of the feed with your bookings, from the server's root."""
    all: str
    """Path of the feed with the bookings of all users."""


class RescanSuccess(Struct, frozen=True, kw_only=True):
    """Resource specs according to the files of one agent or all. Nothing was changed."""

    agent_id: str | None
    """The agent; null if all were asked."""
    agents: tuple[str, ...]
    """Agents whose files were read."""
    silent: tuple[str, ...]
    """Agents that did not answer."""
    scanned: int
    """Number of files of kernels that have not ended."""
    unreadable: tuple[str, ...]
    """Kernels with an unreadable file; they are not in the map."""
    differences: tuple[Difference, ...]
    """Differences between the files and the grants."""
    gpu_alloc_map: str
    """As in `Agent`, but according to the files, and of this agent's kernels alone."""


class RetrySessionSuccess(Struct, frozen=True, kw_only=True):
    """The session is queued to run again."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class RevokeApiKeySuccess(Struct, frozen=True, kw_only=True):
    """The key was revoked."""

    api_key: ApiKey
    """The key."""
    revision: int
    """Event number of the change; for `min_revision`."""


class SaveSessionTemplateSuccess(Struct, frozen=True, kw_only=True):
    """The template was saved."""

    template: SessionTemplate
    """The template."""
    revision: int
    """Event number of the change; for `min_revision`."""


class SendTestNoticeSuccess(Struct, frozen=True, kw_only=True):
    """The test notice is queued; see `deliveries` for its state."""

    delivery: Delivery
    """The delivery."""
    revision: int
    """Event number of the change; for `min_revision`."""


class SetSecretSuccess(Struct, frozen=True, kw_only=True):
    """The secret was stored. Sessions that start from now on receive this value."""

    secret: Secret
    """The secret."""


class UpdateSessionPrioritiesSuccess(Struct, frozen=True, kw_only=True):
    """All of the sessions have the priority."""

    changed: int
    """How many had another priority before."""
    revision: int
    """Event number of the change; for `min_revision`."""


class UpdateSessionPrioritySuccess(Struct, frozen=True, kw_only=True):
    """The priority was changed."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class UpdateSessionSuccess(Struct, frozen=True, kw_only=True):
    """The request of the session was changed."""

    session: Session
    """The session."""
    revision: int
    """Event number of the change; for `min_revision`."""


class UserChangeSuccess(Struct, frozen=True, kw_only=True):
    """The user was created or changed."""

    user: User
    """The user."""
    revision: int
    """Event number of the change; for `min_revision`."""
    jobs_run_as: str | None
    """Which Unix account the user's jobs run as, as a sentence; null if the user submits none."""
    warning: str | None
    """That the user's Unix account is missing on a host."""
