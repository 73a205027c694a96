"""The terminal in the dashboard: a real shell, used from Chromium."""

import re
import time

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, WebSocketRoute, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client.generated.inputs import CancelSessionInput
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

CREATE_USER = "mutation ($input: CreateUserInput!) { create_user(input: $input) { __typename } }"
CREATE_KEY = """
mutation ($input: CreateApiKeyInput!) {
  create_api_key(input: $input) { __typename ... on CreateApiKeySuccess { secret } }
}
"""


class Network:
    """Carries the WebSockets of a page. While it is cut, and on those opened before, nothing arrives."""

    def __init__(self) -> None:
        self.is_cut = False
        self._cuts = 0

    def cut(self) -> None:
        self.is_cut = True
        self._cuts += 1

    def carry(self, socket: WebSocketRoute) -> None:
        server, opened = socket.connect_to_server(), self._cuts

        def pass_on(to: WebSocketRoute, message: str | bytes) -> None:
            if not self.is_cut and opened == self._cuts:
                to.send(message)

        socket.on_message(lambda message: pass_on(server, message))
        server.on_message(lambda message: pass_on(socket, message))


async def running(server: OwnServer) -> str:
    async with server.client() as client:
        session = await submit(client, "sleep 1000", {"cpu": "1"})
        await until_state(client, session, "running")
    return session


async def key_of(server: OwnServer, name: str, role: str) -> str:
    async with server.client() as client:
        await client.change(CREATE_USER, {"input": {"name": name, "role": role}})
        made = await client.change(CREATE_KEY, {"input": {"user": name, "name": "browser", "scope": "admin"}})
    return str(made["secret"])


@NEEDS_AXE
async def test_a_browser_terminal_can_be_resized_and_watched_and_survives_a_server_restart(
    browser: Browser, demo: OwnServer
) -> None:
    session = await running(demo)
    async with signed_in(browser, demo, viewport={"width": 1200, "height": 900}) as tab:
        page = await tab.open(f"/sessions/{session}")
        button = page.get_by_role("button", name="Open a terminal")
        async with page.expect_response(re.compile(r"/assets/Terminal-[^/]*\.js$")):
            await button.hover()  # its code loads before the click
        began = time.monotonic()
        await button.click()
        rows = page.locator(".xterm-rows")
        await expect(rows).to_have_text(re.compile(r"[$#]"))
        await expect(page.locator(".xterm-viewport")).to_have_css("background-color", "rgba(0, 0, 0, 0)")
        print(f"\nprompt after {time.monotonic() - began:.2f} s")
        await page.keyboard.type("PS1='ready> '; clear; kept=41; echo si''ze $(stty size)\n")
        await expect(rows).to_contain_text(re.compile(r"size \d+ 1\d\d"))
        await page.set_viewport_size({"width": 700, "height": 900})
        await page.keyboard.type("clear; echo si''ze $(stty size)\n")
        await expect(rows).to_contain_text(re.compile(r"size \d+ [5-9]\d\D"))
        await page.keyboard.type("printf '\\033[38;2;1;2;3mco''lour\\033[0m\\n'\n")
        await expect(rows.get_by_text("colour", exact=True)).to_have_css("color", "rgb(1, 2, 3)")
        await page.keyboard.type("echo an''d ")
        await page.keyboard.insert_text("Ünïcödé 漢字 🎉")  # as from a list of emoji: no key is pressed
        await page.keyboard.type("\n")
        await expect(rows).to_contain_text("and Ünïcödé 漢字 🎉")
        assert await tab.accessibility("section[aria-label=Terminal]") == []

        other = await page.context.new_page()
        await other.goto(page.url + "&watch=1")
        seen = other.locator(".xterm-rows")
        await expect(seen).to_contain_text("colour")
        await other.keyboard.type("echo in''truder\n")
        await page.keyboard.type("echo own''er\n")
        await expect(seen).to_contain_text("owner")
        await expect(seen).not_to_contain_text("intruder")
        await other.close()

        tab.is_away_expected = True
        await demo.kill()
        await expect(page.get_by_text("Connection lost, trying again", exact=True)).to_be_visible()
        await page.keyboard.type("echo $((kept + 1))\n")
        await demo.start()
        await expect(rows).to_contain_text("42")
        await page.reload()
        await expect(rows).to_contain_text("42")
        await page.locator(".xterm-helper-textarea").focus()
        await page.keyboard.type("exit 3\n")
        await expect(page.get_by_text("Ended with exit code 3.")).to_be_visible()


async def test_an_open_terminal_stays_readable_when_its_session_ends(browser: Browser, demo: OwnServer) -> None:
    session = await running(demo)
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open(f"/sessions/{session}")
        await page.get_by_role("button", name="Open a terminal").click()
        rows = page.locator(".xterm-rows")
        await expect(rows).to_have_text(re.compile(r"[$#]"))
        await page.keyboard.type("echo lo''ss 0.25\n")
        await expect(rows).to_contain_text("loss 0.25")
        await client.cancel_session(CancelSessionInput(id=session))
        terminal = page.get_by_role("region", name="Terminal")
        await expect(terminal.get_by_role("status")).to_have_text("The session has ended.")
        await expect(rows).to_contain_text("loss 0.25")
        await expect(terminal.get_by_role("button")).to_have_count(0)
        await page.reload()
        await expect(page.get_by_role("region", name="Log")).to_be_visible()
        await expect(terminal).to_have_count(0)


async def test_operators_have_a_terminal_in_sessions_of_others_and_viewers_none(
    browser: Browser, demo: OwnServer
) -> None:
    session = await running(demo)
    for name, role, count in (("vera", "viewer", 0), ("otto", "operator", 1)):
        async with signed_in(browser, demo, key=await key_of(demo, name, role)) as tab:
            page = await tab.open(f"/sessions/{session}")
            await expect(page.get_by_role("region", name="Log")).to_be_visible()
            await expect(page.get_by_role("region", name="Terminal")).to_have_count(count)


async def test_a_terminal_continues_after_the_network_was_away_without_a_sign(
    browser: Browser, demo: OwnServer
) -> None:
    session = await running(demo)
    network = Network()
    async with signed_in(browser, demo) as tab:
        tab.is_away_expected = True
        await tab.page.route_web_socket(re.compile("^ws:"), network.carry)
        page = await tab.open(f"/sessions/{session}")
        await page.get_by_role("button", name="Open a terminal").click()
        rows = page.locator(".xterm-rows")
        await expect(rows).to_have_text(re.compile(r"[$#]"))
        network.cut()
        await page.locator(".xterm-helper-textarea").focus()
        await page.keyboard.type("echo typed $((6 * 7))\n")
        await expect(page.locator(".connection.lost")).to_be_visible()
        network.is_cut = False
        await expect(rows).to_contain_text("typed 42")
