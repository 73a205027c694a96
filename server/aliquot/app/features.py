"""Features common to standalone, leader and follower servers: initial settings, secrets, alerts, retention, history.

Initial settings apply until someone changes them at run time; the stored value then wins. Measurements are kept apart
from the durable state. Changes of the agent key file are recorded in the event log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.app.agents import job_accounts
from aliquot.app.running import Running
from aliquot.clock import RandomIds, SystemClock
from aliquot.core.policy_changes import amended
from aliquot.delivery.senders import addresses_of
from aliquot.errors import ConfigurationError
from aliquot.execution.remote.agent_keys import KEY_FILE, KeyFile
from aliquot.execution.result_store import open_storage, open_store
from aliquot.execution.workspace_store import StoredWorkspaces
from aliquot.service.accounts.workspaces import WorkspaceRules
from aliquot.service.admin.admin import OperatorSources
from aliquot.service.admin.policy import BY_SETTING, begin_stopped, renew_weights, stop_to_observe
from aliquot.service.agents.doctor import Inspector
from aliquot.service.alerts.plan import AlertPlan
from aliquot.service.audit.agent_keys import KeyChangeRecorder
from aliquot.service.backtests.ports import BacktestSources
from aliquot.service.foresight.forecasting import ForecastPlan
from aliquot.service.retention import Periods, RetentionPlan
from aliquot.service.sessions.command_checks import CommandChecks, CommandRules
from aliquot.service.sessions.streams import StreamSource
from aliquot.service.sessions.submission_checks import QueueLimit
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.use_cases import ServiceParts, SubmissionLimits, UseCases
from aliquot.settings import Settings
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.archive.folder import INSTALL, ArchiveFolder, has_parquet
from aliquot.store.open import ServerDatabase, is_shared
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.secrets.secrets import DatabaseSecrets
from aliquot.store.store import DatabaseStore
from aliquot.store.timeseries.held_gpus import DatabaseHoldings
from aliquot.store.timeseries.history_store import HistoryDatabase, HistoryPlan, place_of
from aliquot_schema.cluster.workspaces import BYTES_MAX as UNLIMITED
from aliquot_schema.orchestration import OperatingMode
from aliquot_schema.resources.units import parse_size

log: Final = logging.getLogger("aliquot.app")


class InitialSettings(Struct, frozen=True, kw_only=True):
    """Settings that a new cluster starts with."""

    stopped: bool = False
    """Whether scheduling stays stopped until an operator starts it."""
    order: str | None = None
    """The order policy; None = the default."""
    mode: OperatingMode = OperatingMode.ENFORCE
    """Others stop scheduling at each start."""


async def begin(cases: UseCases, first: InitialSettings) -> None:
    """Apply the initial settings that no operator has changed yet, and renew records of earlier releases.

    Raises:
        StoreUnavailable: the database cannot be written.
    """
    if await renew_weights(cases.journal, cases.clock):
        log.warning(
            "the policy had the default weights of an earlier release; they were replaced by the present defaults, see "
            "the audit log"
        )
    if first.mode is not OperatingMode.ENFORCE:
        await stop_to_observe(cases.journal, cases.clock, first.mode)
    elif first.stopped and not await begin_stopped(cases.journal, cases.clock):
        log.info("orchestration-enabled has no effect: the orchestrator has been started since the first start")
    if first.order is not None and not await _order(cases, first.order):
        log.info("scheduling-policy has no effect: the policy has been changed since the first start")


async def _order(cases: UseCases, order: str) -> bool:
    def change(draft: UnitOfWork) -> bool:
        known = draft.policy()
        if known.version:
            return known.order == order
        draft.put(replace(amended(known, {"order": order}), changed_us=cases.clock.now_us()), "changed")
        return True

    return await cases.journal.transact(change, actor=BY_SETTING)


async def open_secrets(store: DatabaseStore, key_file: Path) -> DatabaseSecrets:
    """Open the secrets store.

    Raises:
        ConfigurationError: stored secrets cannot be decrypted with the keys in the file.
    """
    secrets = DatabaseSecrets(store, keys=SecretKeys(key_file))
    wrong = await secrets.missing_key()
    if wrong is not None:
        raise ConfigurationError(f"secrets-key-file: {wrong}")
    return secrets


def notices_of(settings: Settings, *, now_us: Callable[[], int]) -> AlertPlan:
    """Alert plan of a leader, from the settings."""
    return AlertPlan(
        ids=RandomIds(),
        addresses=addresses_of(settings.receivers, now_us=now_us),
        rules=settings.alert_rules,
        reminder_s=settings.alert_reminder_s,
        address=settings.own_address,
        mode=settings.mode,
        is_shared=is_shared(settings.database or ""),
    )


retention_log: Final = logging.getLogger("aliquot.retention")


class RetentionConfig(Struct, frozen=True, kw_only=True):
    """Retention settings."""

    periods: Periods
    folder: Path
    """The archive folder."""
    archives: bool
    """False: expired records are deleted without being archived."""


def keeping_of(settings: Settings) -> RetentionConfig:
    """Retention from the settings."""
    return RetentionConfig(periods=settings.periods, folder=settings.archive_path, archives=settings.archive)


def retention_of(keeping: RetentionConfig, store: DatabaseStore, *, now_us: Callable[[], int]) -> RetentionPlan:
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


class Features(Struct, frozen=True, kw_only=True):
    """Settings of these features."""

    grace_ms: int
    respect_foreign_usage: bool
    queue_limit: QueueLimit
    first: InitialSettings
    admission: SubmissionLimits
    keeping: RetentionConfig
    history: HistoryPlan | None
    """None = no measurements are kept."""
    secret_keys: Path
    """Key file of the secrets store."""
    commands: CommandRules
    notices: AlertPlan
    records_terminals: bool
    """Whether the output of terminals is recorded on their nodes."""
    results_folder: str | None
    """Where agents copy results to; None = nowhere."""
    workspaces: tuple[str, WorkspaceRules] | None
    """Where working directories are stored, and their limits; None: they cannot be uploaded."""
    forecasts: bool
    """Whether starts of waiting sessions are forecast."""


def outfit_of(settings: Settings, *, now_us: Callable[[], int]) -> Features:
    """Features from the settings."""
    return Features(
        grace_ms=round(settings.grace_s * 1000),
        respect_foreign_usage=settings.foreign_usage == "avoid",
        queue_limit=QueueLimit(tasks_max=settings.max_queue_size, user_share_pct=settings.max_queue_user_pct),
        first=InitialSettings(
            stopped=not settings.orchestration_enabled, order=settings.scheduling_policy, mode=settings.mode
        ),
        admission=SubmissionLimits(
            trust=settings.trust,
            per_minute=settings.submissions_per_minute or None,
            job_accounts=job_accounts(settings),
        ),
        keeping=keeping_of(settings),
        history=history_of(settings),
        secret_keys=settings.secret_keys(settings.data_folder),
        commands=settings.command_rules,
        notices=notices_of(settings, now_us=now_us),
        records_terminals=settings.record_terminals,
        results_folder=settings.results_folder,
        workspaces=_workspaces(settings),
        forecasts=settings.forecasts,
    )


def _workspaces(settings: Settings) -> tuple[str, WorkspaceRules] | None:
    """Several servers need a place that all of them see."""
    if settings.workspaces_folder is None and is_shared(settings.database or ""):
        return None
    place = settings.workspaces_folder or str(settings.data_folder / "server" / "workspaces")
    return place, WorkspaceRules(
        bytes_max=parse_size(settings.workspace_max) or UNLIMITED,
        user_bytes_max=parse_size(settings.workspaces_max) or UNLIMITED,
        kept_s=settings.workspaces_kept_s,
    )


async def parts_of(
    outfit: Features,
    database: ServerDatabase,
    *,
    measurements: HistoryDatabase | None,
    backtests: BacktestSources,
    inspector: Callable[[], Inspector | None],
    leader: Callable[[], str | None],
    streams: StreamSource | None = None,
    app_key: bytes,
) -> ServiceParts:
    """The parts of the service: audit, archives, usage, secrets, command checks and alerts.

    Args:
        inspector, leader: the inspector of agents, None while this server follows; the leader's URL, if it is known.
        app_key: secret that all servers share, for the tokens of apps.
    Raises:
        ConfigurationError: stored secrets cannot be decrypted with the keys in the file.
        StoreUnavailable: the database cannot be read.
    """
    return ServiceParts(
        admission=outfit.admission,
        secrets=await open_secrets(database.store, outfit.secret_keys),
        commands=None if outfit.commands.is_empty else CommandChecks(outfit.commands),
        measurements=measurements,
        holdings=DatabaseHoldings(database.store),
        operators=OperatorSources(
            file=None if database.is_shared else database.store,
            audit=database.store.book,
            alerts=outfit.notices,
            notices=database.store.outbox,
            backtests=backtests,
            inspector=inspector,
            leader=leader,
        ),
        queue_limit=outfit.queue_limit,
        streams=streams,
        app_key=app_key,
        records_terminals=outfit.records_terminals,
        copied_results=open_store(outfit.results_folder),
        workspaces=None
        if outfit.workspaces is None
        else (
            StoredWorkspaces(open_storage(outfit.workspaces[0], setting="workspaces-folder")),
            outfit.workspaces[1],
        ),
    )


def forecasts_of(database: ServerDatabase) -> ForecastPlan:
    """Forecasts of a leader."""
    store = database.store
    return ForecastPlan(store=store.forecasts, relay=store.forecasts if database.is_shared else None, events=store)


def history_of(settings: Settings) -> HistoryPlan | None:
    """History of measurements from the settings; None = none is kept."""
    if not settings.history:
        return None
    # A separate clock: that of the service is monotonic only while a single thread reads it.
    clock = SystemClock()
    return HistoryPlan(
        make_database=place_of(settings.database or "", data_folder=settings.data_folder, now_us=clock.now_us),
        kept=settings.history_kept,
        interval_s=settings.readings_interval_s,
        now_us=clock.now_us,
        wall_us=clock.wall_us,
        correct_clock=clock.correct,
    )


@asynccontextmanager
async def history_kept(plan: HistoryPlan | None) -> AsyncIterator[HistoryDatabase | None]:
    """Store measurements while the context is open; unwritten ones are flushed at its end."""
    if plan is None:
        yield None
        return
    store = HistoryDatabase(plan)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def agent_keys_told(running: Running, settings: Settings) -> AsyncIterator[None]:
    """Record changes of the agent key file in the event log, starting with those made while no server ran."""
    keys = KeyFile(settings.data_folder / "server" / KEY_FILE)
    recorder = KeyChangeRecorder(keys, journal=running.cases.journal, clock=running.cases.clock)
    loop = asyncio.create_task(recorder.run(), name="agent keys")
    try:
        yield
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
