"""Use cases of every server, leader or follower: queries, changes and subscriptions."""

from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.rate_limit import Rate, SubmissionRateLimit
from aliquot.service.accounts.trust import JobAccounts, Trust, check_apart
from aliquot.service.admin.admin import Administration
from aliquot.service.history.history import History
from aliquot.service.metrics.metrics import Measures
from aliquot.service.ports import Clock, Ids, Loaded, Store
from aliquot.service.queries.queries import Queries
from aliquot.service.sessions.external_allocations import ExternalAllocations
from aliquot.service.sessions.preview import Previews
from aliquot.service.sessions.sessions import Sessions
from aliquot.service.sessions.submission import Submission
from aliquot.service.sessions.submission_checks import DEFAULT_QUEUE_LIMIT, QueueLimit, SubmissionPolicyCheck
from aliquot.service.state.evicted_sessions import in_memory, recalled
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import ENDED_KEPT, State
from aliquot.service.subscriptions.watching import LiveSources, Outputs, Watching


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
        queue_limit: QueueLimit = DEFAULT_QUEUE_LIMIT,
    ) -> None:
        """See `Journal`, `Submission` and `Watching` for the arguments."""
        self.clock = clock
        self.state = state
        self.measures = Measures()
        self.feed = Feed(store, revision=state.revision)
        self.journal = Journal(store=store, state=state, feed=self.feed, clock=clock, is_shared=is_shared)
        creation = Submission(
            state=state, journal=self.journal, store=store, clock=clock, ids=ids, queue_limit=queue_limit
        )
        self.previews = Previews(state=state, creation=creation, clock=clock)
        self.external_allocations = ExternalAllocations(
            state=state,
            journal=self.journal,
            store=store,
            feed=self.feed,
            creation=creation,
            previews=self.previews,
            clock=clock,
        )
        self.queries = Queries(state=state, store=store, feed=self.feed, previews=self.previews, clock=clock)
        self.history = History(state=state, queries=self.queries, clock=clock, leads=lambda: self.journal.leads)
        self.sessions = Sessions(state=state, journal=self.journal, creation=creation, store=store, clock=clock)
        self.administration = Administration(state=state, journal=self.journal, clock=clock)
        self.accounts = Accounts(state=state, journal=self.journal, clock=clock, ids=ids)
        self.vault = self.accounts.vault
        creation.vetting = self.vetting = SubmissionPolicyCheck(self.vault)
        sources = LiveSources(
            find=self.queries.session,
            book=lambda: self.administration.book,
            now_us=clock.now_us,
            sleep=clock.sleep,
        )
        self.watching = Watching(state=state, feed=self.feed, outputs=outputs, sources=sources)
        self.journal.listeners.append(self.watching.hear)

    def admit(self, *, trust: Trust, per_minute: int | None, job_accounts: JobAccounts | None = None) -> None:
        """Apply the isolation of users and the rate limit of submissions.

        Args:
            trust: what isolates the jobs of different users.
            per_minute: submissions per user and minute; None = no limit.
            job_accounts: the Unix accounts of this host; None = they are not checked.
        Raises:
            ConfigurationError: users share a Unix account that is assigned to one of them.
        """
        check_apart(trust, self.state.people.users.values())
        rate = None if per_minute is None else Rate(per_minute=per_minute)
        self.accounts.trust, self.accounts.job_accounts = trust, job_accounts
        self.state.people.is_account_shared = trust is Trust.SHARED
        limit = SubmissionRateLimit(self.state.people, trust=trust, rate=rate, monotonic=self.clock.monotonic)
        self.sessions.gate = self.external_allocations.gate = limit


async def state_of(loaded: Loaded, *, store: Store, ended_kept: int = ENDED_KEPT) -> State:
    """The state from a store's records, including ended sessions that pending ones depend on."""
    state = State(ended_kept=ended_kept)
    state.load(loaded.records, revision=loaded.revision, ended_complete=loaded.ended_complete)
    with in_memory(await recalled(state.waited_for(), state=state, store=store), state=state):
        return state
