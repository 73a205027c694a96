"""Models of accelerators: whether one is among those asked for."""

from fnmatch import fnmatchcase
from functools import lru_cache

KNOWN_MAX = 4096
"""Answers remembered, at most."""


@lru_cache(KNOWN_MAX)
def is_of_model(model: str, patterns: tuple[str, ...]) -> bool:
    """Whether a model matches one of the patterns: by its name, or with `*`, `?` and `[...]`; capitals do not count.

    No patterns mean any model. A device whose model is not known matches `*` alone.
    """
    name = model.lower()
    return not patterns or any(name == pattern.lower() or fnmatchcase(name, pattern.lower()) for pattern in patterns)
