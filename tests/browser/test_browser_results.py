"""Results and metrics on a session's page: files with previews, plots, and an array's tasks by their best value."""

from pathlib import Path

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.run.fields import read_text
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LEAVES = f"""
cd $RESULT_DIR; printf 'loss,step\\n0.5,1\\n' > table.csv; echo '<script>document.title = "run"</script>' > page.html
echo {PIXEL} | base64 -d > dot.png; head -c 100 /dev/zero > raw.bin
for i in 1 2 3; do echo "::metric loss=0.$i step=$i"; done
"""


@NEEDS_AXE
async def test_results_are_previewed_and_downloaded_and_never_run(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        session = await submit(client, LEAVES, {"cpu": "1"}, name="leaves")
        await until_state(client, session, "completed")
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{session}")
        results = page.get_by_role("region", name="Results")
        await expect(results).to_contain_text("4 files")
        for name, shown in (("page.html", "<script>"), ("table.csv", "0.5"), ("raw.bin", "The file is no text.")):
            await results.get_by_role("row", name=name).get_by_role("button", name="Preview").click()
            await expect(results.get_by_role("region", name=f"Preview of {name}")).to_contain_text(shown)
        await results.get_by_role("row", name="dot.png").get_by_role("button", name="Preview").click()
        image = results.get_by_role("img", name="Preview")
        await expect(image).to_be_visible()
        assert await image.evaluate("image => image.naturalWidth") == 1
        async with page.expect_download() as coming:
            await results.get_by_role("row", name="page.html").get_by_role("link", name="Download").click()
        assert (await coming.value).suggested_filename == "page.html"
        assert await page.title() != "run"
        metrics = page.get_by_role("region", name="Metrics")
        await expect(metrics.get_by_role("figure")).to_contain_text("loss: 0.3, lowest 0.1, highest 0.3")
        assert await tab.accessibility() == []


async def test_results_are_shown_for_the_selected_rank(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        session = await submit(client, "echo x > $RESULT_DIR/of-$RANK.txt", {"cpu": "1"}, cluster_size=12)
        await until_state(client, session, "completed")
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{session}")
        results = page.get_by_role("region", name="Results")
        await expect(results).to_contain_text("of-0.txt")
        for rank in (11, 2):
            await results.get_by_role("button", name="Rank").click()
            await page.get_by_role("option", name=f"Rank {rank}", exact=True).click()
            await expect(results).to_contain_text(f"of-{rank}.txt")


async def test_a_session_is_shown_as_a_run_file_that_submits_the_same_request(
    browser: Browser, demo: OwnServer
) -> None:
    async with demo.client() as client:
        more = {"time_limit": 3600.0, "tags": [{"name": "team", "value": "a: b"}], "max_retries": 2}
        session = await submit(client, "echo 'it: works' # \"quoted\"", {"cuda.shares": "0.5"}, name="file", **more)
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{session}")
        await page.get_by_role("button", name="As a file").click()
        text = await page.locator(".code-text").inner_text()
    [found] = read_text(text, file="file.yaml", folder=Path("/"))
    request = found.request()
    assert (request.command.shell, request.name) == ("echo 'it: works' # \"quoted\"", "file")
    assert [(one.slot, one.amount) for one in request.slots if one.slot == "cuda.shares"] == [("cuda.shares", "0.50")]
    assert (request.time_limit, request.max_retries) == (3600.0, 2)
    assert [(one.name, one.value) for one in request.tags or ()] == [("team", "a: b")]


async def test_tasks_are_listed_by_their_best_value(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        array = await submit(client, 'echo "::metric loss=$((3 - ALIQUOT_ARRAY_INDEX))"', {"cpu": "1"}, array="0-2")
        await until_state(client, array, "completed")
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{array}")
        rows = page.get_by_role("region", name="Tasks by metric").get_by_role("row")
        await expect(rows.nth(1)).to_contain_text("2completed1")
        await expect(rows.nth(3)).to_contain_text("0completed3")
