"""The code in the README and in `docs/` is run as it is printed, page by page, against real servers on loopback.

A block that cannot run here has `<!-- no-run: the reason -->` on the line above it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.servers import OpenAIServer
from tests.services import DIMENSION

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NO_RUN = re.compile(r"<!--\s*no-run:?(?P<reason>.*?)-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of Python on a page; `line` is that of its first statement, `no_run` the reason why it is not run."""

    page: Path
    line: int
    source: str
    no_run: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def read_blocks(page: Path, text: str) -> Iterator[Block]:
    no_run: str | None = None
    for token in MarkdownIt().parse(text):
        if token.type == "html_block" and (comment := NO_RUN.search(token.content)):
            no_run = comment["reason"].strip()
            continue
        if token.type == "fence" and token.map and token.info.split()[:1] == ["python"]:
            yield Block(page, token.map[0] + 2, token.content, no_run)
        no_run = None


def blocks_of(page: Path) -> list[Block]:
    return list(read_blocks(page, page.read_text(encoding="utf-8")))


def run_page(blocks: list[Block]) -> dict[str, object]:
    """Run a page's blocks in order in one namespace, as a reader would in `python -m asyncio`."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block in blocks:
            # The empty lines make a traceback name the page's own lines.
            source = "\n" * (block.line - 1) + block.source
            code = compile(source, str(block.page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            outcome = eval(code, namespace)
            if inspect.iscoroutine(outcome):
                runner.run(outcome)
    return namespace


def release_databases(folder: Path) -> None:
    """Stop the Milvus Lite servers of all databases in a folder: closing a client leaves them running."""
    if "milvus_lite" not in sys.modules:
        return
    from milvus_lite.server_manager import server_manager_instance

    for lock in folder.rglob("LOCK"):
        server_manager_instance.release_server(str(lock.parent))


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, and an endpoint with the OpenAI protocol in the environment."""
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "JIUWEN_MEMORY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with OpenAIServer(dim=DIMENSION) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("JIUWEN_MEMORY_RERANK_BASE_URL", server.base_url)
        monkeypatch.setenv("JIUWEN_MEMORY_RERANK_MODEL", "test")
        yield tmp_path
    release_databases(tmp_path)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_the_code_on_a_page_runs_as_printed(page: Path, laptop: Path) -> None:
    run_page([block for block in blocks_of(page) if block.no_run is None])


def test_the_readme_has_code_that_runs() -> None:
    assert any(block.no_run is None for block in blocks_of(ROOT / "README.md"))


def test_a_block_that_is_not_run_says_why() -> None:
    silent = [
        str(block) for page in PAGES for block in blocks_of(page) if block.no_run is not None and len(block.no_run) < 10
    ]

    assert not silent


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    tokens = [child for token in MarkdownIt().parse(page.read_text(encoding="utf-8")) for child in token.children or []]
    targets = [str(token.attrGet("href") or token.attrGet("src") or "") for token in tokens]
    inside = [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:", target)]

    assert [target for target in inside if not (page.parent / target).exists()] == []


PAGE = """\
Some words.

```python
import asyncio

seen = [await asyncio.sleep(0, "one")]
```

<!-- no-run: needs a cluster, which a laptop has not -->

```python
raise SystemExit
```

```bash
exit 1
```

- A list:

  ```python
  async def main():
      seen.append("two")

  if __name__ == "__main__":
      asyncio.run(main())
  ```
"""


def test_blocks_share_a_namespace_and_may_await_or_run_a_loop() -> None:
    blocks = list(read_blocks(ROOT / "page.md", PAGE))

    namespace = run_page([block for block in blocks if block.no_run is None])

    assert [block.line for block in blocks] == [4, 12, 22]
    assert blocks[1].no_run == "needs a cluster, which a laptop has not"
    assert namespace["seen"] == ["one", "two"]


def test_a_failing_block_names_its_line_of_the_page() -> None:
    blocks = list(read_blocks(ROOT / "page.md", "Words.\n\n```python\nfirst = 1\nfirst / 0\n```\n"))

    with pytest.raises(ZeroDivisionError) as failure:
        run_page(blocks)

    assert Path(failure.traceback[-1].path) == ROOT / "page.md"
    assert failure.traceback[-1].lineno + 1 == 5
