"""Results.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct

from aliquot.client.generated.accounts import ApiKey, User
from aliquot.client.generated.administration import Policy, Quota
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.doctor import Difference
from aliquot.client.generated.notices import Delivery, NoticePreferences, NoticeRule
from aliquot.client.generated.orchestrator import Orchestrator
from aliquot.client.generated.secrets import Secret
from aliquot.client.generated.sessions import Session


class AgentChangeSuccess(Struct, frozen=True, kw_only=True):
    """The agent is as it says here."""

    agent: Agent
    """The agent."""
    revision: int
    """For `min_revision`."""


class CancelSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session is canceled; its devices stay held until its processes are gone."""

    session: Session
    """The session."""
    revision: int
    """Its event's number; for `min_revision`."""


class CopyDatabaseSuccess(Struct, frozen=True, kw_only=True):
    """The copy is there."""

    path: str
    """The file, on the server's machine."""
    size_bytes: int
    """Its size."""


class CreateApiKeySuccess(Struct, frozen=True, kw_only=True):
    """The key holds from now on."""

    api_key: ApiKey
    """The key."""
    secret: str
    """What its owner shows to come in, as `Authorization: Bearer`. It is nowhere kept, and never shown again."""
    revision: int
    """For `min_revision`."""


class CreateSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session was accepted, and is durable."""

    session: Session
    """The session."""
    revision: int
    """Its event's number; for `min_revision`."""
    created: bool
    """False when the idempotency key answered with an earlier one."""


class CreateSessionsSuccess(Struct, frozen=True, kw_only=True):
    """All of these sessions were accepted, and are durable."""

    results: tuple[CreateSessionSuccess, ...]
    """In the order in which they were given."""
    revision: int
    """For `min_revision`."""


class DeleteSecretSuccess(Struct, frozen=True, kw_only=True):
    """The secret is gone; sessions that ask for it are not started any more."""

    name: str
    """Its name."""


class HoldSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session is held back."""

    session: Session
    """The session."""
    revision: int
    """Its event's number; for `min_revision`."""


class NoticePreferencesChangeSuccess(Struct, frozen=True, kw_only=True):
    """You are told as it says here."""

    preferences: NoticePreferences
    """Where, and what of."""
    revision: int
    """For `min_revision`."""


class NoticeRuleChangeSuccess(Struct, frozen=True, kw_only=True):
    """The rule is as it says here."""

    rule: NoticeRule
    """The rule."""
    revision: int
    """For `min_revision`."""


class OrchestratorChangeSuccess(Struct, frozen=True, kw_only=True):
    """The orchestrator is as it says here."""

    orchestrator: Orchestrator
    """The orchestrator."""
    revision: int
    """For `min_revision`."""


class PolicyChangeSuccess(Struct, frozen=True, kw_only=True):
    """The policy is as it says here, from the next pass on."""

    policy: Policy
    """The policy."""
    revision: int
    """For `min_revision`."""


class QuotaChangeSuccess(Struct, frozen=True, kw_only=True):
    """The quota is as it says here; one without limits was removed."""

    quota: Quota
    """The quota."""
    revision: int
    """For `min_revision`."""


class ReleaseSessionSuccess(Struct, frozen=True, kw_only=True):
    """The session waits in the queue again, in its place."""

    session: Session
    """The session."""
    revision: int
    """Its event's number; for `min_revision`."""


class RescanSuccess(Struct, frozen=True, kw_only=True):
    """The resource specs of one agent, as its files have them. Nothing was changed."""

    agent_id: str
    """The agent."""
    scanned: int
    """How many files of kernels that have not ended there are."""
    unreadable: tuple[str, ...]
    """Kernels of which the file cannot be read; they are left out of the map."""
    differences: tuple[Difference, ...]
    """Between the files and what was granted."""
    gpu_alloc_map: str
    """By the files; as of `Agent`, where it is by what was granted."""


class RetrySessionSuccess(Struct, frozen=True, kw_only=True):
    """The session waits to run again."""

    session: Session
    """The session."""
    revision: int
    """Its event's number; for `min_revision`."""


class RevokeApiKeySuccess(Struct, frozen=True, kw_only=True):
    """Nobody comes in by the key any more."""

    api_key: ApiKey
    """The key."""
    revision: int
    """For `min_revision`."""


class SendTestNoticeSuccess(Struct, frozen=True, kw_only=True):
    """A notice is on its way; look at `deliveries` for what becomes of it."""

    delivery: Delivery
    """The notice."""
    revision: int
    """For `min_revision`."""


class SetSecretSuccess(Struct, frozen=True, kw_only=True):
    """Sessions that start from now on are given this value."""

    secret: Secret
    """The secret."""


class UpdateSessionPrioritySuccess(Struct, frozen=True, kw_only=True):
    """The session has the new priority."""

    session: Session
    """The session."""
    revision: int
    """Its event's number; for `min_revision`."""


class UserChangeSuccess(Struct, frozen=True, kw_only=True):
    """The user is as it says here."""

    user: User
    """The user."""
    revision: int
    """For `min_revision`."""
