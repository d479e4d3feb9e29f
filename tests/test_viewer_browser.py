"""The viewer's page in a real Chromium: it is silent, answers keys and clicks, and runs nothing that a memory says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from jiuwen_memory import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION
from tests.stores import entity, episode, relation
from tests.viewer_support import LEFT, MARKS, NOW_WORKS, WORKED, Seen, chromium, opened, told_life, town, wide_memory

pytestmark = pytest.mark.slow

PAYLOADS = (
    "</script><script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "<!--<script>document.title='run'//",
    "\"><svg onload=document.title='run'>",
    "javascript:document.title='run'",
    "\u2028document.title='run'\u2029</title></style><b>bold",
)


@dataclass(frozen=True)
class Pages:
    """The pages that were written for these tests."""

    life: Path
    town: Path
    hostile: Path


async def write_pages(folder: Path) -> Pages:
    pages = Pages(folder / "life.html", folder / "town.html", folder / "hostile.html")
    await (await told_life()).memory.to_html(pages.life, "ann", title="Mara")
    await (await town(600, facts=900)).to_html(pages.town, "ann")
    memory = wide_memory()
    nodes = [
        entity(text, uuid=f"n{number}", obj_type=text[:16], content=text, aliases=[text], attributes={text: text})
        for number, text in enumerate(PAYLOADS)
    ]
    edges = [
        relation(text, uuid=f"r{number}", lhs=f"n{number}", rhs="n0", name=text, episodes=["e"], qualifiers={"q": text})
        for number, text in enumerate(PAYLOADS)
    ]
    said = episode("\n".join(PAYLOADS), uuid="e", source=PAYLOADS[0], session_id=PAYLOADS[1], speakers=[PAYLOADS[2]])
    for name, objects in ((ENTITY_COLLECTION, nodes), (RELATION_COLLECTION, edges), (EPISODE_COLLECTION, [said])):
        await memory.db_backend.upsert(name, objects)
    await memory.to_html(pages.hostile, "ann", title=PAYLOADS[0])
    return pages


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    with asyncio.Runner() as runner:
        return runner.run(write_pages(tmp_path_factory.mktemp("pages")))


# After the pages: while Playwright's blocking interface is in use, this thread's event loop counts as running.
@pytest.fixture(scope="module")
def browser(pages: Pages) -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def life(browser: Browser, pages: Pages) -> Iterator[Seen]:
    """The page of one life; whatever a test does with it, it complains of nothing and asks for nothing."""
    with opened(browser, pages.life) as seen:
        yield seen
        assert seen.complaints == []
        assert seen.requests == [pages.life.as_uri()]


def choose(seen: Seen, query: str) -> Locator:
    """Search, take the first result, and return the panel."""
    seen.page.fill("#query", query)
    seen.page.keyboard.press("Enter")
    return seen.page.locator("#panel")


def quotes_in(panel: Locator) -> list[str]:
    return panel.locator("blockquote").all_inner_texts()


def slide(seen: Seen, key: str, times: int = 1) -> str:
    """Move the slider with a key, and return what it says."""
    seen.page.focus("#moment")
    for _ in range(times):
        seen.page.keyboard.press(key)
    return seen.page.inner_text("#moment-text")


def listed_facts(seen: Seen) -> list[str]:
    return seen.page.locator("#list-facts .item > span").all_inner_texts()


def test_a_search_leads_to_an_entity_its_facts_and_the_texts_behind_them(life: Seen) -> None:
    panel = choose(life, "mara")

    expect(panel.locator("h2")).to_have_text("Mara")
    expect(panel.get_by_role("button", name=NOW_WORKS)).to_be_visible()
    assert any(text.startswith(LEFT) for text in quotes_in(panel))


def test_words_of_a_source_text_find_the_facts_that_rest_on_it(life: Seen) -> None:
    life.page.fill("#query", "修灯塔")

    found = life.page.locator("#found-items")

    expect(found.get_by_role("button", name=NOW_WORKS)).to_be_visible()


def test_a_search_without_a_result_says_so(life: Seen) -> None:
    life.page.fill("#query", "xylophone")

    expect(life.page.get_by_role("status").filter(has_text="Nothing found")).to_be_visible()


def test_a_replaced_fact_is_marked_and_leads_to_the_one_that_replaced_it(life: Seen) -> None:
    panel = choose(life, "works for Lumen")
    expect(panel.locator(".badge")).to_have_text("replaced")

    panel.get_by_role("button", name=NOW_WORKS).click()

    expect(panel.locator("h2")).to_have_text(NOW_WORKS)
    expect(panel.locator(".badge")).to_have_text("holds")
    expect(panel.get_by_role("button", name=WORKED)).to_be_visible()


def test_what_an_entity_was_merged_from_is_told(life: Seen) -> None:
    panel = choose(life, "许文")

    expect(panel.get_by_role("heading", name="Merged from")).to_be_visible()
    expect(panel).to_contain_text("Wen Xu")


def test_a_click_into_the_drawing_opens_what_lies_there_and_one_beside_it_closes_that(life: Seen) -> None:
    box = life.page.locator("#graph").bounding_box()
    assert box
    choose(life, "Harbour Museum")
    life.page.keyboard.press("Escape")
    expect(life.page.locator("#panel h2")).to_have_count(0)

    for down in range(40, int(box["height"]) - 40, 12):
        life.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + down)
        if life.page.locator("#panel h2").count():
            break
    expect(life.page.locator("#panel h2")).to_have_count(1)
    life.page.mouse.click(box["x"] + 4, box["y"] + 4)

    expect(life.page.locator("#panel h2")).to_have_count(0)


def test_the_slider_shows_what_held_when(life: Seen) -> None:
    life.page.get_by_role("button", name="List").click()

    first = slide(life, "Home")
    before = listed_facts(life)
    later = slide(life, "ArrowRight")
    then = listed_facts(life)
    last = slide(life, "End")
    after = listed_facts(life)

    assert (first, later) == ("1 January 2015", "1 January 2019")
    assert last.endswith("(now)")
    assert WORKED not in before
    assert WORKED in then and NOW_WORKS not in then
    assert NOW_WORKS in after and WORKED not in after


def test_ended_facts_and_types_can_be_left_out(life: Seen) -> None:
    life.page.get_by_role("button", name="List").click()
    assert WORKED in listed_facts(life)

    life.page.get_by_label("ended or replaced").uncheck()
    without = listed_facts(life)
    life.page.get_by_label("Human").uncheck()

    assert WORKED not in without and NOW_WORKS in without
    assert listed_facts(life) == []


def test_the_page_speaks_chinese_too(life: Seen) -> None:
    panel = choose(life, "works for the Harbour")

    life.page.get_by_role("button", name="中文").click()

    expect(life.page.get_by_role("button", name="列表")).to_be_visible()
    expect(panel).to_contain_text("2024年3月")
    expect(life.page.locator("html")).to_have_attribute("lang", "zh-Hans")


def test_light_and_dark_follow_the_system_until_somebody_chooses(browser: Browser, pages: Pages, life: Seen) -> None:
    def ground(seen: Seen) -> str:
        return str(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    with opened(browser, pages.life, dark=True) as dark:
        dark_ground = ground(dark)
    light_ground = ground(life)
    life.page.get_by_role("button", name="Light / dark").click()

    assert light_ground != dark_ground
    assert ground(life) == dark_ground


def test_keys_alone_are_enough(life: Seen) -> None:
    life.page.keyboard.press("/")
    life.page.keyboard.type("Mara")
    life.page.keyboard.press("Enter")
    expect(life.page.locator("#panel")).to_be_focused()
    life.page.focus("#graph")
    names = {life.page.inner_text("#panel h2")}
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        life.page.keyboard.press(key)
        names.add(life.page.inner_text("#panel h2"))
    life.page.keyboard.press("Escape")

    assert len(names) > 1
    expect(life.page.locator("#panel h2")).to_have_count(0)


def test_everything_that_can_be_used_has_a_name(life: Seen) -> None:
    life.page.get_by_role("button", name="List").click()
    life.page.fill("#query", "Mara")

    nameless = life.page.evaluate(
        """[...document.querySelectorAll("button, input, [role=img]")].filter(
            (each) => !each.textContent.trim() && !each.getAttribute("aria-label") && !each.labels?.length
        ).map((each) => each.outerHTML)"""
    )

    assert nameless == []
    expect(life.page.get_by_role("img", name="Drawing of 5 entities and 6 facts")).to_have_count(0)  # inert behind it
    expect(life.page.get_by_role("search")).to_be_visible()
    expect(life.page.get_by_role("slider", name="Moment")).to_be_visible()


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_nothing_that_a_memory_says_can_run(number: int, browser: Browser, pages: Pages) -> None:
    with opened(browser, pages.hostile) as seen:
        own = seen.page.evaluate("document.scripts.length")
        panel = choose(seen, PAYLOADS[number].strip())
        shown = [seen.page.inner_text("#panel h2")]
        panel.locator("button.item").first.click()
        seen.page.get_by_role("button", name="List").click()
        seen.page.get_by_role("button", name="中文").click()
        shown += [seen.page.inner_text("#panel h2"), *quotes_in(panel)]

        assert shown[0].split() == PAYLOADS[number].split()
        assert PAYLOADS[1] in shown[-1]
        assert seen.page.title() == PAYLOADS[0]
        assert seen.page.evaluate("document.scripts.length") == own
        assert seen.page.locator("body img, body b, [onload], [onerror]").count() == 0
        assert seen.complaints == []
        assert seen.requests == [pages.hostile.as_uri()]


def test_a_script_that_gets_onto_the_page_is_not_run(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    inside = "<script>document.title = 'run'</script><img src='http://127.0.0.1:9/x'></body>"
    broken.write_text(pages.life.read_text(encoding="utf-8").replace("</body>", inside), encoding="utf-8")

    with opened(browser, broken) as seen:
        title = seen.page.title()

    assert title == "Mara"
    assert len([each for each in seen.complaints if "Content Security Policy" in each]) == 2


def test_a_large_graph_is_drawn_searched_and_slid_through(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages.town) as seen:
        panel = choose(seen, "Human 0")
        chosen = seen.page.inner_text("#panel h2")
        slide(seen, "Home")
        seen.page.get_by_role("button", name="List").click()
        rows = seen.page.locator("#list-entities button.item").count()
        seen.page.locator("#list-entities").get_by_role("button", name="more").click()

        assert chosen.startswith("Human ")
        expect(panel).to_be_visible()
        assert rows == 100
        assert seen.page.locator("#list-entities button.item").count() == 200
        assert seen.complaints == []


def test_a_large_graph_is_seen_before_it_is_arranged_and_drawn(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages.town) as seen:
        moments = [seen.milliseconds(mark) for mark in MARKS]
        sketches = seen.page.locator("#graph .sketch").count()

    assert moments == sorted(moments)
    assert sketches == 0
    assert seen.complaints == []


def test_a_reader_without_a_mouse_reaches_the_list_first(life: Seen) -> None:
    life.page.keyboard.press("Tab")
    expect(life.page.locator("#skip")).to_be_focused()

    life.page.keyboard.press("Enter")

    expect(life.page.locator("#list")).to_be_focused()
    expect(life.page.locator("#list")).to_contain_text(NOW_WORKS)
