"""How many examples a property is tried with: a count for the usual profile, in proportion under any other."""

from typing import Final

from hypothesis import Phase, settings

USUAL: Final = 100
"""Examples of the profile that nothing was asked of."""
MUTATION_PROFILE: Final = "mutation"
"""Few examples, always the same ones, and the first that fails is enough: what judges a mutant."""


THOROUGH_PROFILE: Final = "thorough"
"""Twenty times as many: for a change of what decides."""


def register_profiles() -> None:
    """Make the profiles known; they are asked for by `--hypothesis-profile`."""
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
    """As many examples, where a property is tried in full; never less than three.

    To be called where a test is defined: the profile that counts is the one that is loaded then.
    """
    asked = settings.default
    share = asked.max_examples if asked is not None else USUAL
    return settings(deadline=None, max_examples=max(count * share // USUAL, 3))
