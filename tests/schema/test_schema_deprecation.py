"""Deprecated names: equal to the new ones, each use reported once, contradictions refused."""

import warnings

import pytest

from aliquot_schema.deprecation import DeprecatedName, Deprecation, report_deprecated
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.policies import VICTIMS, PreemptScope, Victims, preempt_word

OLD = Deprecation(old="colour", new="color", removed_in="0.3")


def test_every_preemption_scope_has_a_deprecated_name() -> None:
    assert set(VICTIMS) == set(PreemptScope)
    assert sorted(VICTIMS.values()) == sorted(Victims)
    assert [PreemptScope(old.value) for old in VICTIMS.values()] == list(VICTIMS)


@pytest.mark.parametrize(
    ("preempt", "victims", "expected"),
    [
        (None, None, None),
        ("any", None, "any"),
        ("none", "nobody", "none"),
        ("preemptible", "willing", "preemptible"),
        ("all", None, "all"),
    ],
)
def test_new_names_are_not_reported_as_deprecated(
    preempt: str | None, victims: str | None, expected: str | None
) -> None:
    assert preempt_word(preempt, victims) == expected


@pytest.mark.parametrize(
    ("preempt", "victims", "expected", "old"),
    [
        (None, "nobody", "none", "preemption.victims=nobody"),
        (None, "willing", "preemptible", "preemption.victims=willing"),
        (None, "any", "any", "preemption.victims=any"),
        (None, "preemptible", "preemptible", "preemption.victims=preemptible"),
        ("willing", None, "preemptible", "preemption.preempt=willing"),
    ],
)
def test_deprecated_names_are_accepted_and_the_warning_names_the_new_ones(
    preempt: str | None, victims: str | None, expected: str, old: str
) -> None:
    with pytest.warns(DeprecatedName) as found:
        assert preempt_word(preempt, victims, place="rules.yaml:3") == expected
    new = f"preemption.preempt={expected}"
    assert [str(one.message) for one in found] == [
        f"rules.yaml:3: {old} is deprecated; use {new}. Release 0.3 may remove {old}."
    ]


def test_two_names_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        preempt_word("none", "any")
    assert refusal.value.field == "preemption.preempt"
    assert refusal.value.message == (
        "preemption: preempt is none and victims is any; leave out victims, the deprecated name"
    )


def test_each_deprecated_use_is_reported_once_and_other_warnings_are_unchanged() -> None:
    texts: list[str] = []
    others: list[str] = []
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_more, **_others: others.append(str(message))
        report_deprecated(texts.append)
        for place in ("a", "b", "a"):
            OLD.warn(place=place)
        warnings.simplefilter("always", UserWarning)
        warnings.warn("another one", UserWarning, stacklevel=1)
    use = "colour is deprecated; use color. Release 0.3 may remove colour."
    assert texts == [f"a: {use}", f"b: {use}"]
    assert others == ["another one"]
    assert OLD.reason == "Use `color`. Release 0.3 may remove this name."
