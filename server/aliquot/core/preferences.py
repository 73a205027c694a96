"""Preferences: where a session would like to be, beyond where it may."""

from collections.abc import Iterator
from dataclasses import replace

from aliquot.core.snapshot import Where


def preferred(where: Where) -> Iterator[Where]:
    """What a session would like, from the most to the least: labels and models, either, never less than it needs."""
    if not (where.preferred_labels or where.preferred_models):
        return
    labels = tuple(sorted({**dict(where.preferred_labels), **dict(where.labels)}.items()))
    models = where.preferred_models or where.models
    for wish in dict.fromkeys(((labels, models), (labels, where.models), (where.labels, models))):
        if wish != (where.labels, where.models):
            yield replace(where, labels=wish[0], models=wish[1])
