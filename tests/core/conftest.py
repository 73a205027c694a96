"""Hypothesis profiles with more or fewer examples; see `core_effort`."""

from core_effort import register_profiles

register_profiles()
