"""Puts a page together from the files in `static/` and what it shows. Reads only those files.

Nothing that a memory says can run on the page: the content is JSON in which `<`, `>` and `&` are escaped, the page's
script puts it into text nodes only, and a Content-Security-Policy lets no script run but ours, told by their hashes.
The same policy forbids every request, so that the page cannot tell anybody what it shows.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from string import Template
from typing import Final

from pydantic import JsonValue

LIBRARIES: Final = ("d3-dispatch", "d3-quadtree", "d3-timer", "d3-force", "cytoscape")
"""In the order in which they are loaded."""
_APP: Final = ("model.js", "graph.js", "arrange.js", "panel.js", "sketch.js", "main.js")
_ESCAPED: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
# Cytoscape adds a style sheet of its own unless one with this id is there, and then needs no right to add any.
_CYTOSCAPE_STYLE: Final = ".__________cytoscape_container { position: relative; }"


@lru_cache
def read_static(name: str) -> str:
    """Return a file that comes with the viewer."""
    return resources.files("jiuwen_memory.viewer").joinpath("static", *name.split("/")).read_text(encoding="utf-8")


def render_page(content: Mapping[str, JsonValue], *, title: str, language: str) -> str:
    """Return the page; `language` is the one it opens in, the reader can change it."""
    library, app, style = _libraries(), _app(), read_static("page.css")
    words = json.loads(read_static("words.json"))
    policy = {
        "default-src": "'none'",
        "script-src": _hashes([library, app]),
        "style-src": _hashes([style, _CYTOSCAPE_STYLE]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return Template(read_static("page.html")).substitute(
        policy="; ".join(f"{name} {value}" for name, value in policy.items()),
        language=words[language]["tag"],
        title=html.escape(title),
        style=style,
        cytoscape_style=_CYTOSCAPE_STYLE,
        data=_as_json({**content, "title": title, "language": language, "words": words}),
        library=library,
        app=app,
    )


@lru_cache
def _libraries() -> str:
    parts = []
    for name in LIBRARIES:
        licence = read_static(f"vendor/{name}.LICENSE").strip()
        parts.append(f"/*! {name}\n{licence}\n*/\n{read_static(f'vendor/{name}.min.js').strip()}\n")
    return "\n".join(parts)


@lru_cache
def _app() -> str:
    source = "\n".join(read_static(name) for name in _APP)
    return f'(() => {{\n"use strict";\n{source}\n}})();\n'


def _as_json(value: Mapping[str, JsonValue]) -> str:
    """Return JSON in which nothing can be taken for markup, whatever stands in its texts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)


def _hashes(sources: Iterable[str]) -> str:
    digests = (hashlib.sha256(each.encode()).digest() for each in sources)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
