"""Preferences: where a session would like to be, beyond where it may."""

from collections.abc import Iterator
from dataclasses import replace

from aliquot.core.allocation.models import is_of_model
from aliquot.core.roster import Roster
from aliquot.core.snapshot import Where


def preferred(where: Where, *, roster: Roster) -> Iterator[Where]:
    """What a session would like, from the most to the least: labels and models, either, never less than it needs."""
    if not (where.preferred_labels or where.preferred_models):
        return
    labels = tuple(sorted({**dict(where.preferred_labels), **dict(where.labels)}.items()))
    models = _models(where, roster)
    for wish in dict.fromkeys(((labels, models), (labels, where.models), (where.labels, models))):
        if wish != (where.labels, where.models):
            yield replace(where, labels=wish[0], models=wish[1])


def _models(where: Where, roster: Roster) -> tuple[str, ...]:
    """Patterns say nothing of both at once, so that those are named that are allowed and liked, as far as there are."""
    if not (where.models and where.preferred_models):
        return where.preferred_models or where.models
    liked = (model for model in roster.models if is_of_model(model, where.preferred_models))
    return tuple(model for model in liked if is_of_model(model, where.models)) or where.models
