"""A job array whose tasks each have a command of their own."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.client.futures import function_command, result_in
from aliquot.client.sessions import array_command

# A shell command cannot hold NUL, and non-UTF-8 arguments cannot be sent.
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@settings(deadline=None, max_examples=25)
@given(values=st.lists(texts, min_size=1, max_size=3))
def test_each_array_task_gets_its_parameters_unchanged(values: list[str]) -> None:
    script = array_command(["printf", "%s|", "a{x}b", "{other"], [{"x": value} for value in values])
    for index, value in enumerate(values):
        done = subprocess.run(
            ["/bin/sh", "-c", script], env={"ALIQUOT_ARRAY_INDEX": str(index), "PATH": "/usr/bin:/bin"},
            capture_output=True, check=True,
        )  # fmt: skip
        assert done.stdout.decode() == f"a{value}b|{{other|"


def test_a_missing_parameter_is_named_with_its_task() -> None:
    with pytest.raises(ValueError, match="task 1 has no parameter lr"):
        array_command(["train", "--lr={lr}"], [{"lr": 1}, {"rate": 2}])


def test_an_array_without_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one task"):
        array_command(["train"], [])


def test_an_array_command_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="submit fewer"):
        array_command(["train", "{x}"], [{"x": "y" * 1000}] * 200)


def doubled(value: str) -> str:
    print("::aliquot-result is only a word here")
    return value * 2


@settings(deadline=None, max_examples=5)
@given(value=texts)
def test_a_function_gets_its_parameters_and_its_result_is_the_last_line(value: str) -> None:
    script = function_command(doubled, [{"value": "no"}, {"value": value}], python=sys.executable)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"ALIQUOT_ARRAY_INDEX": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True, check=True,
    )  # fmt: skip
    assert result_in(done.stdout.decode()) == value * 2


def test_types_are_not_evaluated_and_texts_of_an_inner_function_stay_as_they_are() -> None:
    def quoted(value: str, *, at: Path | None = None) -> str:
        assert at is None
        text = """
one
    two"""
        return value + text

    script = function_command(quoted, [{"value": "zero"}], python=sys.executable)
    done = subprocess.run(["/bin/sh", "-c", script], env={"ALIQUOT_ARRAY_INDEX": "0"}, capture_output=True, check=True)
    assert result_in(done.stdout.decode()) == "zero\none\n    two"


def test_variables_of_the_shell_are_no_parameters() -> None:
    script = array_command(["sh", "-c", 'echo "${HOME}" {x}'], [{"x": 1}])
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"ALIQUOT_ARRAY_INDEX": "0", "HOME": "/h"}, capture_output=True, check=True
    )
    assert done.stdout == b"/h 1\n"


def test_functions_that_cannot_be_sent_are_refused_with_the_reason() -> None:
    outer = 3

    def closure(value: int) -> int:
        return value + outer

    for function in (closure, lambda value: value, print):
        with pytest.raises(ValueError, match="give one made by `def` that uses no variables around it"):
            function_command(function, [{"value": 1}])
    with pytest.raises(TypeError):
        function_command(doubled, [{"value": object()}])
    with pytest.raises(ValueError, match="parameters is empty"):
        function_command(doubled, [])
    with pytest.raises(ValueError, match="it printed no result"):
        result_in("nothing\n")


def test_a_command_as_one_text_is_refused_instead_of_taken_letter_by_letter() -> None:
    with pytest.raises(TypeError, match="program and arguments"):
        array_command("echo {lr}", [{"lr": 1}])
