"""Use cases of every server, leader or follower: queries, changes and subscriptions."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct, field

from aliquot.service.access import JobAccounts, Trust, check_apart
from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.rate_limit import Rate, SubmissionRateLimit
from aliquot.service.accounts.secrets import Secrets, SecretStore
from aliquot.service.accounts.workspaces import WorkspaceRules, Workspaces, WorkspaceStore
from aliquot.service.admin.admin import Administration, OperatorSources
from aliquot.service.agents.doctor import Inspector
from aliquot.service.audit.audit import AuditStore
from aliquot.service.booking_effects import BookingEffects
from aliquot.service.booking_imports import BookingImports
from aliquot.service.bookings import Bookings
from aliquot.service.history.history import History
from aliquot.service.history.ports import HistoryStore, HoldingRecords
from aliquot.service.history.right_size import RightSizing
from aliquot.service.lifecycle.launch_orders import AppTokens
from aliquot.service.metrics.metrics import Measures
from aliquot.service.ports import Clock, Ids, LoadedRows, Store, StoreUnavailable
from aliquot.service.queries.queries import Queries
from aliquot.service.sessions.command_checks import CommandChecks
from aliquot.service.sessions.explanations import Explanations
from aliquot.service.sessions.external_allocations import ExternalAllocations
from aliquot.service.sessions.files import CopiedResults, SessionFiles
from aliquot.service.sessions.preview import Previews
from aliquot.service.sessions.session_loader import kept_in_memory
from aliquot.service.sessions.sessions import Sessions
from aliquot.service.sessions.streams import SessionStreams, StreamSource
from aliquot.service.sessions.submission import Submission
from aliquot.service.sessions.submission_checks import DEFAULT_QUEUE_LIMIT, QueueLimit, SubmissionPolicyCheck
from aliquot.service.sessions.templates import Templates
from aliquot.service.sessions.what_if import WhatIfs
from aliquot.service.state.evicted_sessions import in_memory, recalled
from aliquot.service.state.forecast_board import QuestionQueue
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import ENDED_KEPT, State
from aliquot.service.subscriptions.watching import Outputs, Subscriptions, SubscriptionSources
from aliquot_schema.ids import AgentId
from aliquot_schema.sessions import Session
from aliquot_schema.views.right_size import RightSizeView


class SubmissionLimits(Struct, frozen=True, kw_only=True):
    """Who may submit, and how fast."""

    trust: Trust
    """What isolates the jobs of different users."""
    per_minute: int | None
    """Submissions per user and minute; None = no limit."""
    job_accounts: JobAccounts | None = None
    """The Unix accounts of this host; None = they are not checked."""


class ServiceParts(Struct, frozen=True, kw_only=True):
    """Parts of a server beside the state and its store. A server lacks what is None."""

    admission: SubmissionLimits | None = None
    """None = everyone may submit, without a limit."""
    secrets: SecretStore | None = None
    commands: CommandChecks | None = None
    """None = every command is accepted."""
    measurements: HistoryStore | None = None
    holdings: HoldingRecords | None = None
    operators: OperatorSources = field(default_factory=OperatorSources)
    app_key: bytes = b""
    """Secret that all servers share, for the tokens of apps."""
    streams: StreamSource | None = None
    """Terminals and ports of sessions."""
    records_terminals: bool = False
    copied_results: CopiedResults | None = None
    """None: results are on their agents only."""
    workspaces: tuple[WorkspaceStore, WorkspaceRules] | None = None
    """None: working directories cannot be uploaded."""
    queue_limit: QueueLimit = DEFAULT_QUEUE_LIMIT
    """Limits of waiting tasks, over all users and of one user."""


NO_PARTS: Final = ServiceParts()


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
        parts: ServiceParts = NO_PARTS,
    ) -> None:
        """See `Journal`, `Submission` and `Subscriptions` for the arguments.

        Raises:
            ConfigurationError: users share a Unix account that is assigned to one of them.
        """
        self.clock = clock
        self.state = state
        self.measures = Measures()
        self.feed = Feed(store, revision=state.revision)
        self.journal = Journal(store=store, state=state, feed=self.feed, clock=clock, is_shared=is_shared)
        self.secrets = Secrets(clock=clock, journal=self.journal, store=parts.secrets)
        self.workspaces = self._stored_workspaces(parts)
        creation = self._creation(store, ids, parts)
        rate_limit = _rate_limit(parts.admission, state=state, clock=clock)
        questions = self.questions = QuestionQueue()
        self.previews = Previews(state=state, creation=creation, clock=clock, questions=questions, sizing=self._sized)
        self.explanations = Explanations(state=state, clock=clock, questions=questions)
        self.what_ifs = WhatIfs(state=state, creation=creation, previews=self.previews, clock=clock)
        self.templates = Templates(state=state, journal=self.journal, clock=clock)
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
        self.bookings = Bookings(state=state, journal=self.journal, feed=self.feed, clock=clock, ids=ids)
        self.booking_effects = BookingEffects(state=state, bookings=self.bookings, clock=clock)
        self.booking_imports = BookingImports(state=state, bookings=self.bookings, clock=clock)
        self.queries = self._queries(store)
        self.history = History(
            state=state,
            queries=self.queries,
            clock=clock,
            leads=lambda: self.journal.leads,
            store=parts.measurements,
            book=parts.holdings,
            sessions=store,
        )
        self.sessions = self._sessions(creation, store, rate_limit)
        self.administration = Administration(state=state, journal=self.journal, clock=clock, sources=parts.operators)
        self.accounts = self._accounts(parts.admission, ids, inspector=parts.operators.inspector)
        self.app_tokens = AppTokens(parts.app_key)
        self.streams = None if parts.streams is None else self._streams(parts.streams, records=parts.records_terminals)
        self.files = None if parts.streams is None else self._files(parts.streams, store, parts.copied_results)
        self.watching = self._watching(outputs, store=store, book=parts.operators.audit)

    @property
    def advisor(self) -> RightSizing:
        """Right-size advice."""
        assert self.history.sizing is not None, "it reads the store"
        return self.history.sizing

    async def _sized(self, session: Session) -> RightSizeView | None:
        """Right-size advice; None while ended sessions cannot be read."""
        try:
            return await self.advisor.advice(session)
        except StoreUnavailable:
            return None

    def _queries(self, store: Store) -> Queries:
        return Queries(
            state=self.state,
            store=store,
            feed=self.feed,
            previews=self.previews,
            explanations=self.explanations,
            what_ifs=self.what_ifs,
            clock=self.clock,
        )

    def _creation(self, store: Store, ids: Ids, parts: ServiceParts) -> Submission:
        return Submission(
            state=self.state,
            journal=self.journal,
            store=store,
            clock=self.clock,
            ids=ids,
            vetting=SubmissionPolicyCheck(self.secrets, parts.commands, workspaces=self.workspaces),
            queue_limit=parts.queue_limit,
        )

    def _stored_workspaces(self, parts: ServiceParts) -> Workspaces | None:
        if parts.workspaces is None:
            return None
        store, rules = parts.workspaces
        return Workspaces(
            state=self.state,
            journal=self.journal,
            clock=self.clock,
            store=store,
            rules=rules,
        )

    def _sessions(self, creation: Submission, store: Store, rate_limit: SubmissionRateLimit | None) -> Sessions:
        return Sessions(
            state=self.state,
            journal=self.journal,
            creation=creation,
            store=store,
            clock=self.clock,
            feed=self.feed,
            rate_limit=rate_limit,
        )

    def _accounts(
        self, admission: SubmissionLimits | None, ids: Ids, *, inspector: Callable[[], Inspector | None]
    ) -> Accounts:
        def search(account: str) -> Awaitable[Mapping[AgentId, bool | None]] | None:
            asked = inspector()
            return None if asked is None else asked.accounts(account)

        trust = Trust.ALONE if admission is None else admission.trust
        if trust is Trust.SHARED:
            self.state.people.share_account()
        return Accounts(
            state=self.state,
            journal=self.journal,
            clock=self.clock,
            ids=ids,
            vault=self.secrets,
            trust=trust,
            job_accounts=None if admission is None else admission.job_accounts,
            search=search,
        )

    def _streams(self, source: StreamSource, *, records: bool) -> SessionStreams:
        return SessionStreams(
            state=self.state,
            journal=self.journal,
            clock=self.clock,
            source=source,
            records_terminals=records,
            app_tokens=self.app_tokens,
        )

    def _files(self, source: StreamSource, store: Store, copies: CopiedResults | None) -> SessionFiles:
        return SessionFiles(
            state=self.state, store=store, journal=self.journal, clock=self.clock, source=source, copies=copies
        )

    def _watching(self, outputs: Outputs, *, store: Store, book: AuditStore | None) -> Subscriptions:
        find, clock = self.queries.session, self.clock
        sources = SubscriptionSources(
            find=find,
            book=book,
            recalled=partial(kept_in_memory, state=self.state, store=store),
            now_us=clock.now_us,
            sleep=clock.sleep,
        )
        watching = Subscriptions(state=self.state, feed=self.feed, outputs=outputs, sources=sources)
        self.journal.subscribe(watching.on_event)
        return watching


def _rate_limit(admission: SubmissionLimits | None, *, state: State, clock: Clock) -> SubmissionRateLimit | None:
    if admission is None:
        return None
    check_apart(admission.trust, state.people.users.values())
    rate = None if admission.per_minute is None else Rate(per_minute=admission.per_minute)
    return SubmissionRateLimit(state.people, trust=admission.trust, rate=rate, monotonic=clock.monotonic)


async def state_of(loaded: LoadedRows, *, store: Store, ended_kept: int = ENDED_KEPT) -> State:
    """The state from a store's records, including ended sessions that pending ones depend on."""
    state = State(ended_kept=ended_kept)
    state.load(
        loaded.records, revision=loaded.revision, ended_complete=loaded.ended_complete, newest_us=loaded.last_at_us
    )
    with in_memory(await recalled(state.waited_for(), state=state, store=store), state=state):
        return state
