"""Outfit: what a server has whether it leads or follows, or is alone."""

from collections.abc import Callable
from dataclasses import dataclass

from aliquot.composition.first_start import FirstStart, begin
from aliquot.composition.notices import notices_of, open_notices
from aliquot.composition.retention import Keeping, keeping_of
from aliquot.composition.vetting import VettingPlan, open_vetting, vetting_of
from aliquot.service.notices.plan import NoticePlan
from aliquot.service.use_cases import UseCases
from aliquot.settings import Settings
from aliquot.store.history.held import DatabaseHeld
from aliquot.store.store import DatabaseStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """What the settings say of it."""

    grace_ms: int
    respect_external: bool
    pending_max: int
    first: FirstStart
    keeping: Keeping
    vetting: VettingPlan
    notices: NoticePlan


def outfit_of(settings: Settings, *, now_us: Callable[[], int]) -> Outfit:
    """What the settings say of it."""
    return Outfit(
        grace_ms=round(settings.grace_s * 1000),
        respect_external=settings.respect_external,
        pending_max=settings.max_queue_size,
        first=FirstStart(stopped=not settings.orchestration_enabled, order=settings.scheduling_policy),
        keeping=keeping_of(settings),
        vetting=vetting_of(settings),
        notices=notices_of(settings, now_us=now_us),
    )


async def fit_out(cases: UseCases, store: DatabaseStore, outfit: Outfit) -> None:
    """Let people ask for the record, archives included, for usage, secrets and notices, and begin a new cluster.

    Raises:
        ConfigurationError: what is stored cannot be decrypted with the keys in the file.
        StoreUnavailable: the database cannot be read, or written.
    """
    store.book.archive = outfit.keeping.folder
    cases.administration.book = store.book
    cases.history.book = DatabaseHeld(store)
    await open_vetting(cases, store, outfit.vetting)
    open_notices(cases, outfit.notices, store)
    await begin(cases, outfit.first)
