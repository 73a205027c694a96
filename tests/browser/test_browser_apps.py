"""Web apps of a session in Chromium: opened from its page, isolated from the server's own pages."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

GRANTED = "query ($id: ID!) { session(id: $id) { slots { slot amount } time_limit } }"
SERVE = """
import http.server, os
PAGE = b'''<!doctype html><title>own</title><p id=said>none</p><script>
const server = new URLSearchParams(location.search).get("server");
const words = [];
document.cookie = "aliquot_session=mine; domain=localhost";
document.cookie = "aliquot_app=mine";
words.push("cookies " + document.cookie.replace("aliquot_app=mine", "own"));
const query = {method: "POST", credentials: "include", headers: {"content-type": "application/json"}, body: "{}"};
fetch(server + "/graphql", query).then(() => "read", () => "refused").then((read) => {
  words.push("server " + read);
  document.getElementById("said").textContent = words.join(", ");
});
</script>'''
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-type", "text/html"); self.end_headers()
        self.wfile.write(PAGE)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["ALIQUOT_APP_WEB"])), Page).serve_forever()
"""


@NEEDS_AXE
async def test_an_app_opened_from_its_session_page_cannot_read_the_server(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        environment = [{"name": "SERVE", "value": SERVE}]
        command = 'exec /usr/bin/env python3 -c "$SERVE"'
        session = await submit(client, command, {"cpu": "1"}, environment=environment, apps=[{"name": "web"}])
        await until_state(client, session, "running")
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{session}")
        link = page.get_by_role("link", name="Open web")
        async with page.context.expect_page() as opening:
            await link.click()
        app = await opening.value
        await expect(app).to_have_title("own")
        host = f"web-{session.removeprefix('ses_')}.apps.localhost"
        assert app.url.startswith(f"http://{host}:")
        assert await app.evaluate("window.opener === null")
        [cookie] = await page.context.cookies(app.url)
        assert (cookie["name"], cookie["domain"], cookie["httpOnly"]) == ("aliquot_app", host, True)
        await app.goto(f"{app.url}?server={demo.url}")
        await expect(app.locator("#said")).to_have_text("cookies , server refused")
        [cookie] = await page.context.cookies(app.url)
        assert cookie["value"] != "mine"
        # Opening an app's URL without its cookie leads there through the server's own pages.
        await page.context.clear_cookies(name="aliquot_app")
        await app.goto(f"http://{host}:{demo.port}/deep?x=1")
        await expect(app).to_have_url(f"http://{host}:{demo.port}/deep?x=1")
        await expect(app).to_have_title("own")
        assert await tab.accessibility("section[aria-label=Services]") == []


async def test_a_notebook_is_started_from_a_preset_after_a_preview_of_its_resources(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/submit")
        # Where there is a JupyterLab, its page would take the place of the session's.
        await page.route("**/sessions/*/apps/*", lambda route: route.fulfill(status=204))
        await page.get_by_role("button", name="Start from").click()
        await page.get_by_role("button", name="TensorBoard").click()
        await expect(page.get_by_label("Web services")).to_have_value("board")
        await page.goto(f"{demo.url}/sessions")
        await page.get_by_role("button", name="New notebook …").click()
        dialogue = page.get_by_role("dialog", name="New notebook")
        await expect(dialogue.get_by_label("GPUs")).to_have_value("0.25")
        await expect(dialogue.get_by_label("Time limit")).to_have_value("8h")
        await dialogue.get_by_label("GPUs").fill("0.5")
        await dialogue.get_by_label("Time limit").fill("soon")
        await expect(dialogue.get_by_role("button", name="Start")).to_be_disabled()
        await dialogue.get_by_label("Time limit").fill("2h")
        await dialogue.get_by_role("button", name="Start").click()
        await expect(page.get_by_role("heading", name="jupyter")).to_be_visible()
        made = (await client.execute(GRANTED, {"id": page.url.split("/")[-1].split("?")[0]}))["session"]
        assert made == {"slots": [{"slot": "cuda.shares", "amount": "0.50"}], "time_limit": 7200}
