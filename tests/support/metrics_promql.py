"""Metrics and labels that PromQL expressions name, found by a real parser, not by text search."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import promql_parser
import yaml
from prometheus_client.core import Metric

DOCKER: Final = Path(__file__).parents[2] / "docker"
DASHBOARD: Final = DOCKER / "grafana" / "aliquot.json"
RULES: Final = DOCKER / "prometheus" / "rules.yml"
SCRAPED: Final = frozenset({"instance", "job"})
"""Labels that Prometheus adds."""
_OWN: Final = frozenset({"up"})
"""Metrics that Prometheus makes."""
_VARIABLES: Final = {"$__rate_interval": "5m", "$__range": "1h", "$node": ".*"}


@dataclass
class Named:
    """Names in one expression."""

    metrics: dict[str, set[str]] = field(default_factory=dict)
    """Labels in matchers, by metric."""
    grouped: set[str] = field(default_factory=set)
    """Labels used in grouping or joins."""


def named(expression: str) -> Named:
    """Parse an expression, with Grafana's variables filled in first."""
    for variable, text in _VARIABLES.items():
        expression = expression.replace(variable, text)
    found = Named()

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            matched = {matcher.name for matcher in node.matchers.matchers}
            found.metrics.setdefault(node.name, set()).update(matched)
        elif isinstance(node, promql_parser.MatrixSelector):
            promql_parser.walk(node.vector_selector, visit)
        elif isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found.grouped.update(node.modifier.labels)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def dashboard_expressions() -> Iterator[tuple[str, str, str]]:
    """(panel, expression, legend) of the dashboard."""
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation["expr"], annotation["textFormat"]


def rule_expressions() -> Iterator[tuple[str, str, str]]:
    """(rule, expression, annotations) of the rules."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"], str(rule.get("annotations", ""))


def labels_shown(words: str) -> set[str]:
    """Labels in a legend or an annotation."""
    return set(re.findall(r"\{\{ *(?:\$labels\.)?([a-z_]+) *\}\}", words)) | set(
        re.findall(r"\$labels\.([a-z_]+)", words)
    )


def exposed(families: Iterable[Metric]) -> dict[str, set[str]]:
    """The labels of every metric of a server, by sample name."""
    found: dict[str, set[str]] = {name: set(SCRAPED) for name in _OWN}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, set(SCRAPED)).update(sample.labels)
    return found


def faults(what: str, expression: str, words: str, *, known: dict[str, set[str]]) -> list[str]:
    """Names that no server exposes."""
    uses = named(expression)
    strange = [f"{what}: there is no {name}" for name in uses.metrics if name not in known]
    for name, matched in uses.metrics.items():
        strange += [f"{what}: {name} has no label {label}" for label in matched - known.get(name, matched)]
    all_labels = set().union(*(known.get(name, set()) for name in uses.metrics))
    strange += [f"{what}: nothing has the label {label}" for label in (uses.grouped | labels_shown(words)) - all_labels]
    return strange
