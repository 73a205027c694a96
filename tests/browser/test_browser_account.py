"""The user menu; pages offer only the actions that the role allows."""

import re
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from browser_tab import ADD_KEY, ADD_USER, NEEDS_AXE, SEEN, signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

ME: Final = {"query": "{ me { name } }"}
PREFERENCES: Final = "{ notice_preferences { email notify } }"


@NEEDS_AXE
@pytest.mark.parametrize("width", [1440, 390])
async def test_the_user_menu_shows_the_signed_in_user(browser: Browser, demo: OwnServer, width: int) -> None:
    async with signed_in(browser, demo, viewport={"width": width, "height": 900}) as tab, demo.client() as client:
        page = await tab.open("/")
        me = (await client.execute("{ me { name } }", {}))["me"]["name"]
        await page.get_by_role("button", name=f"Account of {me}").click()
        menu = page.get_by_role("dialog", name="Account")
        await expect(menu).to_contain_text("admin")
        await expect(menu).to_contain_text("the server's token")
        assert await tab.accessibility() == []
        await menu.get_by_role("link", name="Keys").click()
        await expect(page).to_have_url(f"{demo.url}/admin?tab=access")
        await expect(menu).to_have_count(0)


async def test_notice_settings_are_kept(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/")
        await page.get_by_role("button", name=re.compile("Account of")).click()
        await page.get_by_role("button", name="Notice settings …").click()
        await page.get_by_label("Email").fill("ada@example.org")
        await page.get_by_text("completes").click()
        await page.get_by_text("is preempted").click()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Your notice settings are saved.")).to_be_visible()
        kept = (await client.execute(PREFERENCES, {}))["notice_preferences"]
        assert kept["email"] == "ada@example.org"
        assert "session_completed" in kept["notify"]
        assert "session_preempted" not in kept["notify"]


async def test_signing_out_ends_the_cookie_on_the_server(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/")
        copied = await page.context.cookies()
        assert (await page.request.post(f"{demo.url}/graphql", data=ME)).status == 200
        await page.get_by_role("button", name=re.compile("Account of")).click()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in to Aliquot")).to_be_visible()
        assert await page.context.cookies() == []
        await page.context.add_cookies(copied)  # type: ignore[arg-type]
        assert (await page.request.post(f"{demo.url}/graphql", data=ME)).status == 401


async def test_a_viewer_is_offered_no_changes(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        await client.change(ADD_USER, {"input": {"name": "vera", "role": "viewer"}})
        made = await client.change(ADD_KEY, {"input": {"user": "vera", "name": "laptop", "scope": "admin"}})
        secret = made["secret"]
        runs = await submit(client, "sleep 1000", {"cuda.shares": "0.5"}, name="runs")
        waits = await submit(client, "true", {"cuda.device": "8"}, cluster_size=2, name="waits")
        async with signed_in(browser, demo, key=secret) as tab:
            page = await tab.open("/queue")
            await expect(page.get_by_role("button", name=re.compile("Account of vera"))).to_be_visible()
            await expect(page.get_by_role("navigation").get_by_role("link", name="Submit")).to_have_count(0)
            change = page.get_by_role(
                "button", name=re.compile("^(Cancel|Hold|Release|Run again|Drain|Resume|New|Edit)")
            )
            await expect(page.get_by_role("link", name="waits")).to_be_visible()
            await expect(change).to_have_count(0)
            await page.get_by_role("radio", name="Running").click()
            await expect(page.get_by_role("link", name="runs")).to_be_visible()
            await expect(change).to_have_count(0)
            await tab.open(f"/sessions/{waits}")
            await expect(page.get_by_role("heading", name="waits")).to_be_visible()
            await expect(change).to_have_count(0)
            await expect(page.get_by_label("Priority")).to_have_count(0)
            await tab.open("/admin")
            await expect(page.get_by_role("region", name="Agents")).to_contain_text("Devices isolated")
            await expect(change).to_have_count(0)
            await expect(page.get_by_role("tab", name="Doctor")).to_have_count(0)
            await tab.open("/admin?tab=policy")
            await expect(
                page.get_by_text("Operators and admins can change the policy; your role is viewer.")
            ).to_be_visible()
            await expect(page.get_by_role("textbox").first).to_be_disabled()
            await tab.open("/submit")
            await expect(page.get_by_role("heading", name="You cannot submit sessions")).to_be_visible()
        for session in (waits, runs):
            await client.change(CANCEL, {"id": session})


async def test_a_tab_names_the_user_that_another_tab_signed_in(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/sessions")
        await client.execute(ADD_USER, {"input": {"name": "otto", "role": "viewer"}})
        made = await client.execute(ADD_KEY, {"input": {"user": "otto", "name": "other"}})
        authorization = {"authorization": f"Bearer {made['create_api_key']['secret']}"}
        code = await page.context.request.post(f"{demo.url}/login-code", headers=authorization)
        await page.context.request.get(demo.url + (await code.json())["path"])
        for state in ("hidden", "visible"):
            await page.evaluate(SEEN, state)
        await expect(page.get_by_role("button", name="Account of otto")).to_be_visible()
        await expect(page.get_by_role("link", name="Submit")).to_have_count(0)


@pytest.mark.parametrize("notice", [f"({SEEN})('hidden'); ({SEEN})('visible')", "dispatchEvent(new Event('focus'))"])
async def test_a_tab_that_asks_to_sign_in_notices_that_another_one_has(
    browser: Browser, demo: OwnServer, notice: str
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/sessions")
        tab.is_away_expected = True
        cookies = await page.context.cookies()
        await page.context.clear_cookies()
        await page.evaluate(f"({SEEN})('hidden'); ({SEEN})('visible')")
        await expect(page.get_by_role("heading", name="Sign in to Aliquot")).to_be_visible()
        await page.evaluate(notice)
        await page.context.add_cookies(cookies)  # type: ignore[arg-type]
        await page.evaluate(notice)
        await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
        await expect(page).to_have_url(f"{demo.url}/sessions")


@pytest.mark.parametrize(
    ("scope", "policy", "submit"),
    [
        ("submit", "has the scope submit, which gives the role user.", "Submit a session"),
        ("read", "has the scope read, which gives the role viewer.", "has the scope read, which may read only"),
    ],
)
async def test_the_scope_of_a_key_is_named_where_it_is_the_reason(
    browser: Browser, demo: OwnServer, scope: str, policy: str, submit: str
) -> None:
    async with demo.client() as client:
        await client.execute(ADD_USER, {"input": {"name": f"op-{scope}", "role": "operator"}})
        key = {"user": f"op-{scope}", "name": "laptop", "scope": scope}
        made = await client.execute(ADD_KEY, {"input": key})
        async with signed_in(browser, demo, key=made["create_api_key"]["secret"]) as tab:
            page = await tab.open("/admin?tab=policy")
            await expect(page.get_by_text(policy)).to_be_visible()
            await tab.open("/submit")
            await expect(page.get_by_role("main").get_by_text(submit).first).to_be_visible()


async def test_a_long_user_name_does_not_widen_the_page_on_a_phone(browser: Browser, demo: OwnServer) -> None:
    name = "a" * 64
    async with demo.client() as client:
        await client.execute(ADD_USER, {"input": {"name": name, "role": "user"}})
        made = await client.execute(ADD_KEY, {"input": {"user": name, "name": "phone", "scope": "submit"}})
    key = made["create_api_key"]["secret"]
    async with signed_in(browser, demo, key=key, viewport={"width": 390, "height": 800}) as tab:
        page = await tab.open("/admin?tab=access")
        await expect(page.get_by_text("You are signed in as")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") == 390


async def test_a_visible_tab_is_told_at_once_who_signs_in_in_another(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        await client.execute(ADD_USER, {"input": {"name": "beside", "role": "viewer"}})
        made = await client.execute(ADD_KEY, {"input": {"user": "beside", "name": "other"}})
        page = await tab.open("/sessions")
        await page.route("**/graphql", lambda route: route.abort())  # so that only the other tab can tell
        tab.is_away_expected = True
        other = await page.context.new_page()
        authorization = {"authorization": f"Bearer {made['create_api_key']['secret']}"}
        code = await page.context.request.post(f"{demo.url}/login-code", headers=authorization)
        await other.goto(demo.url + (await code.json())["path"])
        await expect(page.get_by_role("button", name="Account of beside")).to_be_visible()
