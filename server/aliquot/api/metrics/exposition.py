"""The exposition: everything that is known at one moment, as text in one of Prometheus's formats."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from aliquot.api.metrics.cluster_families import course_families, fleet_families, gpu_families, queue_families
from aliquot.api.metrics.device_families import device_families
from aliquot.api.metrics.physical_devices import physical_devices
from aliquot.service.measuring.cluster_view import ClusterView
from aliquot.service.measuring.measures import Measures

_process = ProcessCollector(registry=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape(Collector):
    """One look at a server; goes through copies, so any thread may do it."""

    server: tuple[Metric, ...]
    measures: Measures
    view: ClusterView | None
    """None = this server follows: what only a leader knows is left out."""

    def collect(self) -> Iterator[Metric]:
        """Families, one after another."""
        yield from self.server
        yield from _process.collect()
        if self.view is not None:
            parts = physical_devices(self.view)
            yield from gpu_families(parts)
            yield from fleet_families(self.view)
            yield from queue_families(self.view)
            yield from course_families(self.measures)
            yield from device_families(parts, self.measures.devices)


def exposed(scrape: Scrape, *, accept: str, zipped: bool) -> tuple[bytes, str]:
    """Text and its content type. Takes a second for ten thousand devices: not for the event loop."""
    encode, content_type = choose_encoder(accept)
    text = encode(scrape)
    return gzip.compress(text, compresslevel=1) if zipped else text, content_type
