"""The submit form: groups, chips, templates, and the same request as a command and as Python."""

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

REQUEST = """
query ($id: ID!) {
  session(id: $id) {
    command slots { slot amount } tags { name value } environment { name value } time_limit max_retries preemptible
    project checkpoint_signal checkpoint_every grace cluster_size cluster_size_min topology
  }
}
"""


async def _request(demo: OwnServer, session_id: str) -> Any:
    async with demo.client() as client:
        return (await client.execute(REQUEST, {"id": session_id}))["session"]


async def _text(page: Page, kind: str) -> str:
    await page.get_by_role("button", name=f"As {kind}").click()
    text = await page.locator(".code-text").inner_text()
    await page.keyboard.press("Escape")
    return text


def _run(demo: OwnServer, argv: list[str]) -> str:
    environment = {**os.environ, "ALIQUOT_SERVER": demo.url, "ALIQUOT_TOKEN": demo.token}
    return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@NEEDS_AXE
async def test_the_form_the_shell_command_and_the_python_code_submit_the_same_request(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.get_by_label("Command").fill('echo "it\'s"; sleep 0')
        await page.get_by_label("Tags").fill("lr=0.1\nnote=a b")
        await page.get_by_label("Environment").fill("A=1")
        await page.get_by_role("button", name="0.25", exact=True).click()
        await expect(page.get_by_label("GPUs", exact=True)).to_have_value("0.25")
        await page.get_by_label("Time limit").fill("1h30")
        await page.get_by_role("button", name="Advanced").click()
        await page.get_by_text("Preemptible").click()
        await page.get_by_label("Checkpoint signal").fill("SIGUSR1")
        await page.get_by_label("Grace").fill("2m")
        await page.get_by_label("Checkpoint every").fill("10m")
        await page.get_by_label("Kernels", exact=True).fill("3")
        await page.get_by_label("Start with fewer kernels").fill("3")
        await expect(page.get_by_text("Enter fewer than its 3 kernels")).to_be_visible()
        await page.get_by_label("Start with fewer kernels").fill("2")
        assert await tab.accessibility() == []
        command, python = await _text(page, "a command"), await _text(page, "Python")
        await page.get_by_role("button", name="Submit", exact=True).click()
        await page.get_by_role("heading", name="Request").wait_for()
        submitted = await _request(demo, page.url.rpartition("/")[2])
        assert submitted["slots"][0] == {"slot": "cuda.shares", "amount": "0.25"}
        gang = {name: submitted[name] for name in ("cluster_size", "cluster_size_min", "topology", "checkpoint_every")}
        assert gang == {"cluster_size": 3, "cluster_size_min": 2, "topology": "prefer", "checkpoint_every": 600.0}
        words = [word for word in shlex.split(command) if word != "\n"]
        assert words[0] == "aliquot"
        by_shell = _run(demo, [sys.executable, "-m", *words]).split()[0]
        by_python = _run(demo, [sys.executable, "-c", python])
        shell = await _request(demo, by_shell)
        assert shell["command"][-1] == submitted["command"][-1]
        assert {**shell, "command": submitted["command"]} == submitted
        assert await _request(demo, by_python) == submitted
        await page.get_by_role("link", name="Submit again").click()
        await expect(page.get_by_label("Start with fewer kernels")).to_have_value("2")
        await expect(page.get_by_text("It would start immediately")).to_be_visible()
        await page.get_by_role("button", name="Submit", exact=True).click()
        await expect(page).not_to_have_url(re.compile("submit"))
        assert await _request(demo, page.url.rpartition("/")[2]) == submitted
        await page.get_by_role("link", name="Submit again").click()
        await page.get_by_label("Network switches").click()
        await page.get_by_role("option", name="one, or it waits").click()
        await expect(page.get_by_text("A gang that must be on one switch starts whole.")).to_be_visible()
        await page.get_by_label("Start with fewer kernels").fill("")
        command = await _text(page, "a command")
        assert "--topology require" in command
        by_python = _run(demo, [sys.executable, "-c", await _text(page, "Python")])
        assert await _request(demo, by_python) == {**submitted, "cluster_size_min": None, "topology": "require"}


async def test_a_template_and_a_recent_command_fill_the_form(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        once = await submit(client, "echo recent-one", {"cpu": "1"}, name="of-before")
        await until_state(client, once, "completed")
        page = await tab.open("/submit")
        await page.get_by_label("Command").fill("python train.py")
        await page.get_by_role("button", name="Start from").click()
        await page.get_by_label("Save the form as").fill("training")
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.reload()
        await page.get_by_role("button", name="Start from").click()
        await page.get_by_role("button", name="echo recent-one").click()
        await expect(page.get_by_label("Name", exact=True)).to_have_value("of-before")
        await page.get_by_role("button", name="Start from").click()
        await page.get_by_role("button", name="training", exact=True).click()
        await expect(page.get_by_label("Command")).to_have_value("python train.py")


async def test_form_input_is_restored_until_it_is_submitted_or_discarded(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        other = await submit(client, "echo other", {"cpu": "1"})
        page = await tab.open("/submit")
        command, restored = page.get_by_label("Command"), page.get_by_text("Restored what you had typed.")
        await command.fill("echo typed")
        await page.get_by_role("button", name="0.5", exact=True).click()
        await page.get_by_role("link", name="Usage").click()
        await page.get_by_role("heading", name="Usage", exact=True).wait_for()
        await page.go_back()
        await expect(command).to_have_value("echo typed")
        await expect(page.get_by_label("GPUs", exact=True)).to_have_value("0.5")
        await expect(restored).to_be_visible()
        await page.goto(f"{demo.url}/submit?from={other}")
        await expect(command).to_have_value("echo other")
        await expect(restored).to_have_count(0)
        await command.fill("echo other, edited")
        await page.reload()
        await expect(restored).to_be_visible()
        await expect(command).to_have_value("echo other, edited")
        await page.get_by_role("button", name="Start anew").click()
        await expect(command).to_have_value("echo other")
        await page.get_by_role("link", name="Submit", exact=True).click()
        await expect(command).to_have_value("echo typed")
        await page.get_by_role("button", name="Start anew").click()
        await expect(command).to_have_value("")
        await expect(restored).to_have_count(0)
        await command.fill("echo sent")
        await page.get_by_role("button", name="Submit", exact=True).click()
        await expect(page).to_have_url(re.compile("/sessions/ses_"))
        await page.get_by_role("link", name="Submit", exact=True).click()
        await expect(command).to_have_value("")


async def test_submit_focuses_the_field_to_correct(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        button = page.get_by_role("button", name="Submit", exact=True)
        await button.click()
        await expect(page.get_by_text("1 field to correct: Command.")).to_be_visible()
        await expect(page.get_by_label("Command")).to_be_focused()
        await page.get_by_label("Command").fill("true")
        cores = page.get_by_label("Cores")
        await cores.fill("100000")
        await button.click()
        await expect(cores).to_be_focused()
        await expect(cores).to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("from=ses_00000000-0000-7000-8000-000000000000", "Nothing is filled in: the session was not found."),
        ("form=%7Bcut", "Nothing is filled in: the address has no complete form."),
    ],
)
async def test_an_address_that_fills_nothing_in_says_so(
    browser: Browser, demo: OwnServer, address: str, words: str
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/submit?{address}")
        await expect(page.get_by_text(words)).to_be_visible()
        await expect(page.get_by_label("Command")).to_have_value("")


async def test_a_kernel_that_is_too_large_is_refused_in_words_of_the_form(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.get_by_label("Command").fill("true")
        await page.get_by_label("GPUs", exact=True).fill("99")
        await expect(page.get_by_role("status").get_by_text('or for more kernels with "Kernels"')).to_be_visible()


async def test_only_models_of_gpus_are_offered(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.get_by_role("button", name="GPU model").click()
        await expect(page.get_by_role("option")).to_have_text(["any model", re.compile("H100")])


async def test_the_preview_of_an_elastic_gang_says_with_how_many_kernels_it_starts(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.get_by_label("Command", exact=True).fill("true")
        await page.get_by_label("GPUs", exact=True).fill("8")
        await page.get_by_label("Kernels", exact=True).fill("4")
        await page.get_by_role("button", name="Advanced").click()
        await page.get_by_label("Start with fewer kernels").fill("1")
        await expect(page.locator(".submit-preview")).to_contain_text(re.compile(r"with [12] of its 4 kernels"))
