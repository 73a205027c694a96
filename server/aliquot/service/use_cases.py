"""Use cases of every server, leader or follower: queries, changes and subscriptions."""

from dataclasses import dataclass, field

from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.rate_limit import Rate, SubmissionRateLimit
from aliquot.service.accounts.secrets import Secrets, SecretStore
from aliquot.service.accounts.trust import JobAccounts, Trust, check_apart
from aliquot.service.admin.admin import Administration, OperatorSources
from aliquot.service.audit.audit import AuditStore
from aliquot.service.history.history import History
from aliquot.service.history.ports import HeldBook, HistoryStore
from aliquot.service.metrics.metrics import Measures
from aliquot.service.ports import Clock, Ids, Loaded, Store
from aliquot.service.queries.queries import Queries
from aliquot.service.sessions.command_checks import CommandChecks
from aliquot.service.sessions.external_allocations import ExternalAllocations
from aliquot.service.sessions.preview import Previews
from aliquot.service.sessions.sessions import Sessions
from aliquot.service.sessions.submission import Submission
from aliquot.service.sessions.submission_checks import DEFAULT_QUEUE_LIMIT, QueueLimit, SubmissionPolicyCheck
from aliquot.service.state.evicted_sessions import in_memory, recalled
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import ENDED_KEPT, State
from aliquot.service.subscriptions.watching import LiveSources, Outputs, Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who may submit, and how fast."""

    trust: Trust
    """What isolates the jobs of different users."""
    per_minute: int | None
    """Submissions per user and minute; None = no limit."""
    job_accounts: JobAccounts | None = None
    """The Unix accounts of this host; None = they are not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """Parts of a server beside the state and its store. A server lacks what is None."""

    admission: Admission | None = None
    """None = everyone may submit, without a limit."""
    secrets: SecretStore | None = None
    commands: CommandChecks | None = None
    """None = every command is accepted."""
    measurements: HistoryStore | None = None
    holdings: HeldBook | None = None
    operators: OperatorSources = field(default_factory=OperatorSources)
    queue_limit: QueueLimit = DEFAULT_QUEUE_LIMIT
    """Limits of waiting tasks, over all users and of one user."""


class UseCases:
    """All use cases, over one state that follows the event log."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        outputs: Outputs,
        state: State,
        is_shared: bool = False,
        parts: ServiceParts = ServiceParts(),
    ) -> None:
        """See `Journal`, `Submission` and `Watching` for the arguments.

        Raises:
            ConfigurationError: users share a Unix account that is assigned to one of them.
        """
        self.clock = clock
        self.state = state
        self.measures = Measures()
        self.feed = Feed(store, revision=state.revision)
        self.journal = Journal(store=store, state=state, feed=self.feed, clock=clock, is_shared=is_shared)
        self.vault = Secrets(clock=clock, journal=self.journal, store=parts.secrets)
        vetting = SubmissionPolicyCheck(self.vault, parts.commands)
        creation = Submission(
            state=state,
            journal=self.journal,
            store=store,
            clock=clock,
            ids=ids,
            vetting=vetting,
            queue_limit=parts.queue_limit,
        )
        rate_limit = _rate_limit(parts.admission, state=state, clock=clock)
        self.previews = Previews(state=state, creation=creation, clock=clock)
        self.external_allocations = ExternalAllocations(
            state=state,
            journal=self.journal,
            store=store,
            feed=self.feed,
            creation=creation,
            previews=self.previews,
            clock=clock,
            rate_limit=rate_limit,
        )
        self.queries = Queries(state=state, store=store, feed=self.feed, previews=self.previews, clock=clock)
        self.history = History(
            state=state,
            queries=self.queries,
            clock=clock,
            leads=lambda: self.journal.leads,
            store=parts.measurements,
            book=parts.holdings,
        )
        self.sessions = Sessions(
            state=state, journal=self.journal, creation=creation, store=store, clock=clock, rate_limit=rate_limit
        )
        self.administration = Administration(state=state, journal=self.journal, clock=clock, sources=parts.operators)
        self.accounts = self._accounts(parts.admission, ids)
        self.watching = self._watching(outputs, book=parts.operators.audit)

    def _accounts(self, admission: Admission | None, ids: Ids) -> Accounts:
        trust = Trust.ALONE if admission is None else admission.trust
        if trust is Trust.SHARED:
            self.state.people.share_account()
        return Accounts(
            state=self.state,
            journal=self.journal,
            clock=self.clock,
            ids=ids,
            vault=self.vault,
            trust=trust,
            job_accounts=None if admission is None else admission.job_accounts,
        )

    def _watching(self, outputs: Outputs, *, book: AuditStore | None) -> Watching:
        find, clock = self.queries.session, self.clock
        sources = LiveSources(find=find, book=book, now_us=clock.now_us, sleep=clock.sleep)
        watching = Watching(state=self.state, feed=self.feed, outputs=outputs, sources=sources)
        self.journal.listeners.append(watching.hear)
        return watching


def _rate_limit(admission: Admission | None, *, state: State, clock: Clock) -> SubmissionRateLimit | None:
    if admission is None:
        return None
    check_apart(admission.trust, state.people.users.values())
    rate = None if admission.per_minute is None else Rate(per_minute=admission.per_minute)
    return SubmissionRateLimit(state.people, trust=admission.trust, rate=rate, monotonic=clock.monotonic)


async def state_of(loaded: Loaded, *, store: Store, ended_kept: int = ENDED_KEPT) -> State:
    """The state from a store's records, including ended sessions that pending ones depend on."""
    state = State(ended_kept=ended_kept)
    state.load(
        loaded.records, revision=loaded.revision, ended_complete=loaded.ended_complete, newest_us=loaded.last_at_us
    )
    with in_memory(await recalled(state.waited_for(), state=state, store=store), state=state):
        return state
