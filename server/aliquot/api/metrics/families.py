"""Families: tallies and histograms as the families of Prometheus's exposition formats.

Names: `aliquot_`, then what is measured in base units (seconds, bytes, ratio); counters end in `_total`.
Source: Prometheus, Metric and label naming; the OpenMetrics specification, 1.0.
"""

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from aliquot.service.measuring.tallies import Histogram, Tally, Values


def gauge(name: str, text: str, value: float) -> Metric:
    """One number that may fall."""
    return GaugeMetricFamily(f"aliquot_{name}", text, value=value)


def gauges(name: str, text: str, labels: tuple[str, ...], values: Mapping[Values, float]) -> Metric:
    """Numbers that may fall, by label values."""
    family = GaugeMetricFamily(f"aliquot_{name}", text, labels=labels)
    for shown, value in values.items():
        family.add_metric(shown, value)
    return family


def counter(name: str, text: str, tally: Tally) -> Metric:
    """Numbers that never fall."""
    family = CounterMetricFamily(f"aliquot_{name}", text, labels=tally.labels)
    for values, value in tally.sums().items():
        family.add_metric(values, value)
    return family


def histogram(name: str, text: str, seen: Histogram) -> Metric:
    """How often values fell below edges."""
    family = HistogramMetricFamily(f"aliquot_{name}", text, labels=seen.labels)
    edges = [*(str(edge) for edge in seen.edges), "+Inf"]
    for values, counts, total in seen.shown():
        family.add_metric(values, list(zip(edges, counts, strict=True)), total)
    return family


def states(name: str, text: str, label: str, *, known: Iterable[str], found: Mapping[str, float]) -> Metric:
    """How many there are in each state of a closed list; 0 where there is none."""
    return gauges(name, text, (label,), {(state,): found.get(state, 0) for state in known})
