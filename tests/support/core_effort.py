"""Number of examples per property: a count for `scripts/test --long`, scaled under other profiles."""

from typing import Final

from hypothesis import Phase, settings

USUAL: Final = 100
"""Examples under the profile of `scripts/test --long`."""
SHORT: Final = 50
"""Examples under that of `scripts/test`."""
MUTATION_PROFILE: Final = "mutation"
"""Few deterministic examples, stopping at the first failure: for mutation tests."""


THOROUGH_PROFILE: Final = "thorough"
"""Twenty times as many, for changes of the scheduler."""


def register_profiles() -> None:
    """Register the profiles selected by `--hypothesis-profile`."""
    settings.register_profile(THOROUGH_PROFILE, max_examples=20 * USUAL, deadline=None, phases=[Phase.generate])
    settings.register_profile(
        MUTATION_PROFILE,
        max_examples=20,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        print_blob=False,
    )


def examples(count: int) -> settings:
    """Settings for `count` examples, scaled to the profile; at least three.

    Call it where a test is defined: it uses the profile loaded at that time.
    """
    asked = settings.default
    share = asked.max_examples if asked is not None else USUAL
    return settings(deadline=None, max_examples=max(count * share // USUAL, 3))
