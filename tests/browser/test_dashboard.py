"""The dashboard: the notebooks' views without code, behind a path, without a network, for several people at once."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from capplan import load_book, show_plan

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PEOPLE = 3


def ready(page: Any, seconds: int = 240) -> None:
    """Wait until the board of 14_plan shows today's plan in full."""
    page.wait_for_function(
        "() => document.querySelector('.capplan-meeting .capplan-status')?.innerText.includes('All answers are full ones')",
        timeout=seconds * 1000,
    )


def columns(page: Any) -> list[str]:
    """Return the titles on the board."""
    return page.locator(".capplan-meeting .capplan-board thead th[scope=col]").all_inner_texts()


def test_three_people_ask_at_once_and_see_no_code(dashboard: Any, browser: Any, steady: Path, shot: Any) -> None:
    people: list[Any] = []
    asked: list[str] = []
    lost: list[str] = []
    for _ in range(PEOPLE):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda response: lost.append(response.url) if response.status >= 400 else None)
        page.goto(f"{dashboard.address}/voila/render/14_plan.ipynb?token={dashboard.token}", wait_until="commit")
        people.append(page)
    for page in people:
        ready(page)
    for place, page in enumerate(people, 1):
        number = page.locator(".capplan-cards input[type=number]").first
        number.fill(str(10 * place))
        number.press("Tab")
        page.get_by_role("button", name="Demand changes by").focus()
        page.keyboard.press("Enter")
    for page in people:
        page.wait_for_function("() => document.querySelectorAll('.capplan-meeting .capplan-board thead th').length > 2", timeout=180_000)
        ready(page)
    for place, page in enumerate(people, 1):
        assert [text.partition("\n")[0] for text in columns(page)] == ["Today", f"Demand of all work +{10 * place} %"]
    page = people[0]
    book = load_book(steady)
    view = show_plan(book, book.scenario)
    text = page.locator("body").inner_text()
    assert view.headline in text
    assert page.locator("mjx-container, .MathJax").count() == 0
    assert "check_parameters" not in text
    assert page.locator(".jp-InputArea-editor, .CodeMirror, .highlight").count() == 0
    shot(page, "dashboard")
    assert [url for url in asked if not url.startswith((dashboard.address, "data:", "blob:"))] == []
    assert [url for url in lost if "favicon" not in url] == []
    for each in people:
        each.context.close()


def test_a_scenario_is_taken_home_as_a_download(dashboard: Any, page: Any, steady: Path) -> None:
    page.goto(f"{dashboard.address}/voila/render/14_plan.ipynb?token={dashboard.token}", wait_until="commit")
    ready(page)
    page.get_by_role("button", name="Unsigned prices change by").click()
    page.wait_for_function("() => document.querySelectorAll('.capplan-meeting .capplan-board thead th').length > 2", timeout=180_000)
    ready(page)
    page.get_by_role("button", name="Save scenario").first.click()
    link = page.locator(".capplan-meeting .capplan-notice a[download]")
    link.wait_for(timeout=180_000)
    assert link.get_attribute("download") == "scenario_Unsigned_prices_-20.yaml"
    assert yaml.safe_load(base64.b64decode(link.get_attribute("href").partition("base64,")[2])) == {"price_factor": 0.8}


def test_the_first_page_asks_the_questions(dashboard: Any, page: Any) -> None:
    page.goto(f"{dashboard.address}/?token={dashboard.token}")
    page.get_by_role("link", name="What do we sign this quarter?").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/plans/voila/render/14_plan.ipynb*", wait_until="commit")
    assert page.foreign == []


@pytest.mark.parametrize("path", ["/", "/voila/render/14_plan.ipynb", "/voila/tree/", "/voila/files/14_plan.ipynb", "/voila/api/contents/"])
def test_nobody_gets_in_without_the_token(dashboard: Any, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(f"{dashboard.address}{path}", timeout=10):
        pass
    assert refused.value.code in (401, 403) or "/plans/login" in refused.value.url
