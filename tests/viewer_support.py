"""Graphs to draw, and a real Chromium to look at the page with.

python -m tests.viewer_support FOLDER    write the pictures of docs/viewer.md, and print what the page costs
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    GraphConfig,
    GraphMemory,
)
from jiuwen_memory.testing import fake_memory
from tests.memory_support import MAY, Taught, all_entities, taught
from tests.stores import DIM, entity, episode, relation

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MARKS = ("interactive", "sketched", "arranged", "drawn")
"""What a page marks when: it answers, shows where everything is so far, where it will be, and can be clicked into."""
JOINED = "Mara joined Lumen Labs in 2019."
LEFT = "Mara left Lumen Labs and has worked for the Harbour Museum since March 2024."
NOW_WORKS = "Mara works for the Harbour Museum."
WORKED = "Mara works for Lumen Labs."


async def told_life() -> Taught:
    """Return a memory of one person: a job that another replaced, a friend under two names, a fact about herself."""
    mind = taught()
    await mind.learn(
        JOINED + " She lives in Rotterdam and keeps two cats.",
        types={"Mara": "Human", "Lumen Labs": "Entity", "Rotterdam": "Entity"},
        said=[
            ("Mara", "works for", "Lumen Labs", WORKED, "2019"),
            ("Mara", "lives in", "Rotterdam", "Mara lives in Rotterdam.", "2015"),
            ("Mara", "pets", "Mara", "Mara keeps two cats."),
        ],
        summaries={"Mara": "An engineer in Rotterdam with two cats.", "Lumen Labs": "A maker of lamps."},
        reference_time=MAY,
        source="diary",
    )
    await mind.learn(
        LEFT + " 她和许文（Wen Xu）一起修灯塔。",
        types={"Mara": "Human", "Lumen Labs": "Entity", "Harbour Museum": "Entity", "许文": "Human", "Wen Xu": "Human"},
        said=[
            ("Mara", "works for", "Harbour Museum", NOW_WORKS, "2024-03"),
            ("许文", "修理", "Harbour Museum", "许文为港口博物馆修灯塔。", "2025"),
            ("Wen Xu", "knows", "Mara", "Wen Xu is a friend of Mara."),
        ],
        same={"Mara": ["Mara"], "Lumen Labs": ["Lumen Labs"]},
        contradicts={NOW_WORKS.removesuffix("."): [WORKED.removesuffix(".")]},
        reference_time=MAY + timedelta(days=3),
        session_id="walk",
        source="chat",
    )
    people = await all_entities(mind.memory)
    await mind.memory.merge("ann", people["许文"].uuid, people["Wen Xu"].uuid, dry_run=False)
    return mind


def wide_memory() -> GraphMemory:
    """Return a memory into whose store objects of `tests.stores` can be put."""
    return fake_memory(config=GraphConfig(uri=f"wide-{uuid4().hex}", backend="memory", embed_dim=DIM))


async def town(people: int = 2_000, *, facts: int = 3_500) -> GraphMemory:
    """Return a memory of a town: circles of fifty round whoever many know, some ties between them, dates of years."""
    source = random.Random(7)
    kinds = ("Human", "Place", "Company", "Project", "Event", "Topic")
    nodes = [
        entity(f"{kind} {number}", obj_type=kind, content=f"What is known of number {number}.", mention_count=1)
        for number in range(people)
        for kind in [kinds[min(int(source.expovariate(0.8)), 5)]]
    ]
    talks = [episode(f"Talk {number}: a longer text about what happened.", valid_since=0) for number in range(200)]
    edges = []
    for number in range(facts):
        later = number % people
        circle = later - later % 50 if source.random() < 0.93 else 50 * source.randrange(people // 50)
        earlier = min(circle + int(50 * source.random() ** 3), people - 1)
        begun = int(datetime(1995, 1, 1, tzinfo=UTC).timestamp()) + source.randrange(30 * 365) * 86_400
        ended = begun + 86_400 * source.randrange(100, 4_000) if source.random() < 0.3 else None
        sentence = f"{nodes[later].name} is linked with {nodes[earlier].name} ({number})."
        edges.append(
            relation(
                sentence,
                lhs=nodes[later].uuid,
                rhs=nodes[earlier].uuid,
                episodes=[source.choice(talks).uuid],
                valid_since=begun,
                precision_since="month",
                valid_until=ended,
                precision_until="day",
            )
        )
    memory = wide_memory()
    for collection, objects in ((ENTITY_COLLECTION, nodes), (RELATION_COLLECTION, edges), (EPISODE_COLLECTION, talks)):
        await memory.db_backend.upsert(collection, objects)
    return memory


@dataclass
class Seen:
    """A page that is open, and everything it complained of or asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Write down what the page says, throws, pops up and asks for from now on."""
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def milliseconds(self, mark: str) -> float:
        """Return when, after the navigation began, the page set this mark."""
        return float(self.page.evaluate("name => performance.getEntriesByName(name)[0].startTime", mark))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a Chromium for a while; without one, skip the test."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium (Debian: apt-get install chromium)")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, path: Path, *, dark: bool = False, width: int = 1280) -> Iterator[Seen]:
    """Open a page from its file and wait until everything has found its place."""
    context = browser.new_context(
        color_scheme="dark" if dark else "light", viewport={"width": width, "height": 760}, reduced_motion="reduce"
    )
    try:
        seen = Seen(context.new_page())
        seen.listen()
        seen.page.goto(path.as_uri())
        seen.page.wait_for_selector('#graph[aria-busy="false"]', timeout=120_000)
        yield seen
    finally:
        context.close()


async def _write_pages(folder: Path) -> dict[str, Path]:
    pages = {"life": folder / "life.html", "town": folder / "town.html"}
    life, many = await told_life(), await town()
    for memory, path, title in ((life.memory, pages["life"], "Mara"), (many, pages["town"], "A town")):
        print(await memory.to_html(path, "ann", title=title))
        await memory.close()
    return pages


def take_pictures(folder: Path, *, times: int = 3) -> None:
    """Write the pictures of the documentation, and print when a page answers and is drawn, and what that costs."""
    pages = asyncio.run(_write_pages(folder))
    with chromium() as browser:
        for name, dark, query in (("light", False, "Mara"), ("dark", True, "works for Lumen")):
            with opened(browser, pages["life"], dark=dark) as seen:
                seen.page.fill("#query", query)
                seen.page.keyboard.press("Enter")
                seen.page.wait_for_timeout(600)
                seen.page.screenshot(path=folder / f"viewer-{name}.png")
        for _ in range(times):
            before = _processor_seconds(browser)
            with opened(browser, pages["town"]) as seen:
                spent = _processor_seconds(browser) - before
                marks = {mark: f"{seen.milliseconds(mark):.0f} ms" for mark in MARKS}
                print(f"{marks}, {spent:.1f} s of processor time in all of Chromium")
                seen.page.wait_for_timeout(600)
                seen.page.screenshot(path=folder / "viewer-town.jpg", type="jpeg", quality=60)


def _processor_seconds(browser: Browser) -> float:
    info = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
    return float(sum(each["cpuTime"] for each in info["processInfo"]))


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
