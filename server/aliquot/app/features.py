"""Features common to standalone, leader and follower servers: initial settings, secrets, alerts, retention, history.

Initial settings apply until someone changes them at run time; the stored value then wins. Measurements are kept apart
from the durable state. Changes of the agent key file are recorded in the event log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aliquot.app.running import Running
from aliquot.clock import RandomIds, SystemClock
from aliquot.core.policy_changes import amended
from aliquot.delivery.senders import addresses_of
from aliquot.errors import ConfigurationError
from aliquot.execution.remote.agent_keys import KEY_FILE, KeyFile
from aliquot.service.admin.policy import BY_SETTING, begin_stopped
from aliquot.service.alerts.plan import AlertPlan
from aliquot.service.alerts.rules import Rules
from aliquot.service.audit.agent_keys import KeyTeller
from aliquot.service.retention import Periods, RetentionPlan
from aliquot.service.sessions.command_checks import CommandChecks, CommandRules
from aliquot.service.sessions.submission_checks import QueueLimit
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.use_cases import UseCases
from aliquot.settings import Settings
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.archive.folder import INSTALL, ArchiveFolder, has_parquet
from aliquot.store.open import is_shared
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.secrets.secrets import DatabaseSecrets
from aliquot.store.store import DatabaseStore
from aliquot.store.timeseries.held_gpus import DatabaseHoldings
from aliquot.store.timeseries.history_store import HistoryPlan, KeptHistory, place_of

log: Final = logging.getLogger("aliquot.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialSettings:
    """Settings that a new cluster starts with."""

    stopped: bool = False
    """Whether scheduling stays stopped until an operator starts it."""
    order: str | None = None
    """The order policy; None = the default."""


async def begin(cases: UseCases, first: InitialSettings) -> None:
    """Apply the initial settings that no operator has changed yet.

    Raises:
        StoreUnavailable: the database cannot be written.
    """
    if first.stopped and not await begin_stopped(cases.journal, cases.clock):
        log.info("orchestration-enabled has no effect: the orchestrator has been started since the first start")
    if first.order is not None and not await _order(cases, first.order):
        log.info("scheduling-policy has no effect: the policy has been changed since the first start")


async def _order(cases: UseCases, order: str) -> bool:
    def change(draft: UnitOfWork) -> bool:
        known = draft.policy()
        if known.version:
            return known.order == order
        news = amended(known, {"order": order})
        draft.put(replace(news, changed_us=cases.clock.now_us()), "changed")
        return True

    return await cases.journal.transact(change, actor=BY_SETTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionCheckPlan:
    """Key file of the secrets store, and the rules that commands of new sessions are checked by."""

    key_file: Path
    commands: CommandRules


def vetting_of(settings: Settings) -> SubmissionCheckPlan:
    """Secrets and command checks from the settings."""
    return SubmissionCheckPlan(key_file=settings.secret_keys(settings.data_folder), commands=settings.command_rules)


async def open_vetting(cases: UseCases, store: DatabaseStore, plan: SubmissionCheckPlan) -> None:
    """Open the secrets store, and enable the command checks of new sessions.

    Raises:
        ConfigurationError: stored secrets cannot be decrypted with the keys in the file.
    """
    secrets = DatabaseSecrets(store, keys=SecretKeys(plan.key_file))
    wrong = await secrets.missing_key()
    if wrong is not None:
        raise ConfigurationError(f"secrets-key-file: {wrong}")
    cases.vault.store = secrets
    if not plan.commands.is_empty:
        cases.vetting.commands = CommandChecks(plan.commands)


def notices_of(settings: Settings, *, now_us: Callable[[], int]) -> AlertPlan:
    """Alert plan of a leader, from the settings."""
    return AlertPlan(
        ids=RandomIds(),
        addresses=addresses_of(settings.receivers, now_us=now_us),
        rules=settings.alert_rules,
        reminder_s=settings.alert_reminder_s,
        address=settings.own_address,
        is_shared=is_shared(settings.database or ""),
    )


def open_notices(cases: UseCases, plan: AlertPlan, store: DatabaseStore) -> None:
    """Serve alerts, rules and receivers at this server, leader or follower."""
    alerts = cases.administration
    alerts.outbox = store.outbox
    alerts.notice_rules_set = Rules(cases.state.noticed, plan.rules)
    alerts.receivers = [address.receiver for address in plan.addresses.values()]
    alerts.notice_ids = plan.ids


retention_log: Final = logging.getLogger("aliquot.retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Retention settings."""

    periods: Periods
    folder: Path
    """The archive folder."""
    archives: bool
    """False: expired records are deleted without being archived."""


def keeping_of(settings: Settings) -> Keeping:
    """Retention from the settings."""
    return Keeping(periods=settings.periods, folder=settings.archive_path, archives=settings.archive)


def retention_of(keeping: Keeping, store: DatabaseStore, *, now_us: Callable[[], int]) -> RetentionPlan:
    """Retention plan of a leader.

    Archives need pyarrow. When it is missing, sessions, events and findings are kept, and only the ledger of decisions
    expires.
    """
    periods, folder = keeping.periods, ArchiveFolder(keeping.folder) if keeping.archives else None
    if folder is not None and not has_parquet():
        retention_log.warning(
            "sessions and events are kept for ever: %s, or set archive = false to remove them without an archive",
            INSTALL,
        )
        periods, folder = replace(periods, sessions_us=None, events_us=None, findings_us=None), None
    return RetentionPlan(
        periods=periods,
        open_history=lambda epoch: DatabaseHistory(store, folder=folder, epoch=epoch, now_us=now_us),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Settings of these features."""

    grace_ms: int
    respect_foreign_usage: bool
    queue_limit: QueueLimit
    first: InitialSettings
    keeping: Keeping
    vetting: SubmissionCheckPlan
    notices: AlertPlan


def outfit_of(settings: Settings, *, now_us: Callable[[], int]) -> Features:
    """Features from the settings."""
    return Features(
        grace_ms=round(settings.grace_s * 1000),
        respect_foreign_usage=settings.respect_foreign_usage,
        queue_limit=QueueLimit(tasks_max=settings.max_queue_size, user_share_pct=settings.max_queue_user_pct),
        first=InitialSettings(stopped=not settings.orchestration_enabled, order=settings.scheduling_policy),
        keeping=keeping_of(settings),
        vetting=vetting_of(settings),
        notices=notices_of(settings, now_us=now_us),
    )


async def fit_out(cases: UseCases, store: DatabaseStore, outfit: Features) -> None:
    """Enable audit, archives, usage, secrets and alerts, and apply the initial settings.

    Raises:
        ConfigurationError: stored secrets cannot be decrypted with the keys in the file.
        StoreUnavailable: the database cannot be read or written.
    """
    store.book.archive = outfit.keeping.folder
    cases.administration.book = store.book
    cases.history.book = DatabaseHoldings(store)
    await open_vetting(cases, store, outfit.vetting)
    open_notices(cases, outfit.notices, store)
    await begin(cases, outfit.first)


@asynccontextmanager
async def history_kept(running: Running, settings: Settings) -> AsyncIterator[None]:
    """Record measurements while the context is open; unwritten ones are flushed at its end."""
    cases = running.cases
    if not settings.history:
        yield
        return
    # A separate clock: that of the service is monotonic only while a single thread reads it.
    clock = SystemClock()
    store = KeptHistory(
        HistoryPlan(
            make_database=place_of(settings.database or "", data_folder=settings.data_folder, now_us=clock.now_us),
            kept=settings.history_kept,
            interval_s=settings.readings_interval_s,
            now_us=clock.now_us,
            wall_us=clock.wall_us,
        )
    )
    await store.open()
    cases.history.keep(store)
    try:
        yield
    finally:
        cases.history.keep(None)
        await store.close()


@asynccontextmanager
async def agent_keys_told(running: Running, settings: Settings) -> AsyncIterator[None]:
    """Record changes of the agent key file in the event log, starting with those made while no server ran."""
    keys = KeyFile(settings.data_folder / "server" / KEY_FILE)
    teller = KeyTeller(keys, journal=running.cases.journal, clock=SystemClock())
    loop = asyncio.create_task(teller.run(), name="agent keys")
    try:
        yield
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
