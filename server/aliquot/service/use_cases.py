"""The use cases that every server has, whether it leads or follows: it answers, accepts changes, and lets watch."""

from dataclasses import dataclass

from aliquot.service.accounts.buckets import Rate
from aliquot.service.accounts.gate import Gate
from aliquot.service.accounts.keys import Accounts
from aliquot.service.accounts.trust import Trust, check_apart
from aliquot.service.administration import Administration
from aliquot.service.creation import Creation
from aliquot.service.feed import Feed
from aliquot.service.history.history import History
from aliquot.service.journal import Journal
from aliquot.service.ledger.ports import LedgerStore
from aliquot.service.live.watching import LiveSources
from aliquot.service.measuring.measures import Measures
from aliquot.service.notices.plan import NoticePlan
from aliquot.service.outside import Outside
from aliquot.service.ports import Clock, Executor, Ids, Store
from aliquot.service.preview import Previews
from aliquot.service.queries import Queries
from aliquot.service.retention.plan import RetentionPlan
from aliquot.service.sessions import Sessions
from aliquot.service.state import State
from aliquot.service.submission_checks import PENDING_MAX
from aliquot.service.vetting import Vetting
from aliquot.service.watching import Outputs, Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The world, as the use cases see it."""

    store: Store
    executor: Executor
    clock: Clock
    ids: Ids
    ledger: LedgerStore | None = None
    """None = decisions are not written down."""
    retention: RetentionPlan | None = None
    """None = everything is kept."""
    notices: NoticePlan | None = None
    """None = nobody is told of anything."""


class UseCases:
    """All of them, over one state that follows the log."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        outputs: Outputs,
        state: State,
        epoch: int,
        is_shared: bool = False,
        pending_max: int = PENDING_MAX,
    ) -> None:
        """Arguments as of `Journal`, `Creation` and `Watching`."""
        self.clock = clock
        self.state = state
        self.measures = Measures()
        self.feed = Feed(store, revision=state.revision)
        self.journal = Journal(store=store, state=state, feed=self.feed, clock=clock, epoch=epoch, is_shared=is_shared)
        creation = Creation(
            state=state, journal=self.journal, store=store, clock=clock, ids=ids, pending_max=pending_max
        )
        self.previews = Previews(state=state, creation=creation, clock=clock)
        self.outside = Outside(
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
        creation.vetting = self.vetting = Vetting(self.vault)
        sources = LiveSources(
            find=self.queries.session,
            book=lambda: self.administration.book,
            now_us=clock.now_us,
            sleep=clock.sleep,
        )
        self.watching = Watching(state=state, feed=self.feed, outputs=outputs, sources=sources)
        self.journal.listeners.append(self.watching.hear)

    def admit(self, *, trust: Trust, per_minute: int | None) -> None:
        """Let several people in.

        Args:
            trust: what keeps their jobs apart.
            per_minute: sessions that a user may submit; None = as many as he likes.
        Raises:
            ConfigurationError: some of them share an account that was given to one.
        """
        check_apart(trust, self.state.people.users.values())
        rate = None if per_minute is None else Rate(per_minute=per_minute)
        self.accounts.trust = trust
        gate = Gate(self.state.people, trust=trust, rate=rate, monotonic=self.clock.monotonic)
        self.sessions.gate = self.outside.gate = gate
