"""Sources: where the metrics of one server come from, and the one look that copies what changes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from aliquot.api.authentication import TokenAuth
from aliquot.api.metrics.access import MetricsAccess
from aliquot.api.metrics.exposition import Scrape
from aliquot.api.metrics.server_families import ServerFigures, database_families, face_families, server_families
from aliquot.service.measuring.cluster_view import cluster_view
from aliquot.service.measuring.loop_lag import LoopLag
from aliquot.service.measuring.measures import Measures
from aliquot.service.measuring.store_counts import StoreMeasures
from aliquot.service.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSources:
    """Of one server."""

    state: State
    measures: Measures
    database: StoreMeasures
    leads: Callable[[], bool]
    now_us: Callable[[], int]
    version: str
    lag: LoopLag = field(default_factory=LoopLag)
    token: str | None = None
    """Opens the metrics and nothing else; None = there is none."""
    is_open: bool = False
    """Whether no key is asked for."""

    def look(self, figures: ServerFigures) -> Scrape:
        """Copy everything in one step; for the event loop."""
        leads, revision = self.leads(), self.state.revision
        return Scrape(
            server=(
                *server_families(version=self.version, leads=leads, revision=revision, lag=self.lag),
                *face_families(figures),
                *database_families(self.database),
            ),
            measures=self.measures,
            view=cluster_view(self.state, now_us=self.now_us()) if leads else None,
        )

    def access(self, auth: TokenAuth) -> MetricsAccess:
        """Who may read them."""
        return MetricsAccess(auth, token=self.token, is_open=self.is_open)
