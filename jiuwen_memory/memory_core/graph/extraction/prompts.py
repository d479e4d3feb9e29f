"""Prompt files: found in the package or a user's folder, split into messages, rendered once. Only reads files."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from jiuwen_memory.errors import PromptFilesMissingError
from jiuwen_memory.memory_core.config.graph import Language

if TYPE_CHECKING:
    import jinja2

logger = logging.getLogger("jiuwen_memory")

_PACKAGE: Final = "jiuwen_memory.memory_core.graph.extraction"
_ROLE: Final = re.compile(r"^[ \t]*=== *(system|user) *===[ \t]*(?:\n|\Z)", re.MULTILINE | re.IGNORECASE)
_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)
_CLOSING_TAG: Final = re.compile(r"</([A-Za-z][\w-]*)>")

QUESTIONS: Final = (
    "entities",
    "entity_duplicates",
    "entity_pair",
    "episodic",
    "gist_facts",
    "gists",
    "openie",
    "relation_conflict",
    "relation_filter",
    "relation_pair",
    "relation_verdicts",
    "relations",
    "rerank",
    "summaries",
    "temporal",
    "timezone",
)
"""Names of the prompt files, the same in every language."""

LANGUAGES: Final = get_args(Language)


@dataclass(frozen=True, slots=True)
class _Part:
    role: str
    template: jinja2.Template


class PromptLibrary:
    """Prompts by name and language; files in `folder/<language>/<name>.md` replace the built-in ones one by one.

    A file is text with jinja2 holes, divided by lines `=== system ===` and `=== user ===`. Values are put in once and
    are never read as a template; a closing tag that the file itself uses cannot be closed by a value.

    Raises:
        PromptFilesMissingError: the folder is not there, or no file in it would ever be read.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        # Files are read when they are needed: by then the program may work in another folder.
        self.folder = Path(folder).absolute() if folder is not None else None
        if self.folder is not None:
            _check_folder(self.folder)
        self._parts: dict[tuple[str, str], tuple[_Part, ...]] = {}

    def is_loaded(self, name: str, language: str) -> bool:
        """Tell whether a prompt can be rendered without reading a file."""
        return (name, language) in self._parts

    def load(self, name: str, language: str) -> None:
        """Read and compile a prompt, unless that was done before."""
        if self.is_loaded(name, language):
            return
        source = self.source(name, language)
        self._parts[(name, language)] = _compile(source, f"{language}/{name}.md")

    def source(self, name: str, language: str) -> str:
        """Return a prompt file's text."""
        places = [*([self.folder] if self.folder else []), *_built_in_folders()]
        for place in places:
            file = place / language / f"{name}.md"
            if file.is_file():
                return read_prompt(file)
        raise PromptFilesMissingError(
            f"The prompt file {language}/{name}.md is missing in {', '.join(str(place) for place in places)}; "
            "reinstall the package, or correct the folder given as `prompts`."
        )

    def render(self, name: str, language: str, **variables: object) -> list[dict[str, str]]:
        """Return the messages of a prompt, as dictionaries with `role` and `content`."""
        from jinja2 import TemplateError

        self.load(name, language)
        try:
            rendered = [(part.role, part.template.render(variables)) for part in self._parts[(name, language)]]
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise PromptFilesMissingError(
                f"The prompt file {language}/{name}.md cannot be rendered: {error}. Use only the variables that the "
                "built-in file of that name uses."
            ) from error
        return [{"role": role, "content": content.strip()} for role, content in rendered]


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise PromptFilesMissingError(
            f"The folder of prompts {str(folder)!r} is not there, or is no folder; give one laid out like ours, with "
            f"{LANGUAGES[0]}/{QUESTIONS[0]}.md and the like in it, or leave `prompts` out."
        )
    known = {f"{language}/{question}.md" for language in LANGUAGES for question in QUESTIONS}
    found = {str(path.relative_to(folder).as_posix()) for path in folder.glob("*/*.md")}
    if not found & known:
        raise PromptFilesMissingError(
            f"The folder of prompts {str(folder)!r} holds no file that would be read. The files are {{"
            f"{','.join(LANGUAGES)}}}/{{{','.join(QUESTIONS)}}}.md; name yours so, or leave `prompts` out."
        )
    for path in sorted(found - known):
        if path.split("/")[0] in LANGUAGES:
            logger.warning("The prompt file %s in %s is not read: no question is called so.", path, folder)


@lru_cache(maxsize=1)
def _built_in_folders() -> tuple[Traversable, ...]:
    package = resources.files(_PACKAGE)
    # An editable install has no copy inside the package: the files lie at the top of the checkout.
    checkout = Path(str(resources.files("jiuwen_memory"))).parent / "prompts"
    return (package / "prompts", checkout)


def read_prompt(file: Traversable) -> str:
    """Return the text of a prompt file, without the mark that editors put before UTF-8.

    Raises:
        PromptFilesMissingError: it cannot be read, or is no UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptFilesMissingError(f"The prompt file {file} cannot be read: {error}; save it as UTF-8.") from error


def used_variables(source: str, label: str, *, given: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the variables that the text of a prompt file uses; what it sets itself is none, unless it is `given` too.

    Raises:
        PromptFilesMissingError: it cannot be read as a prompt.
    """
    from jinja2 import meta, nodes

    _compile(source, label)
    used: set[str] = set()
    for _, tree in _trees(source, label, _environment(source)):
        # What is set inside a block counts as undeclared too.
        targets = [each.target for each in tree.find_all(nodes.Assign)]
        targets += [each.target for each in tree.find_all(nodes.AssignBlock)]
        names = [name for each in targets for name in (each, *each.find_all(nodes.Name))]
        own = {name.name for name in names if isinstance(name, nodes.Name)}
        used |= meta.find_undeclared_variables(tree) - (own - given)
    return frozenset(used)


def _environment(source: str) -> jinja2.Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_Neutraliser(frozenset(_CLOSING_TAG.findall(source))),
    )
    environment.filters["line"] = one_line
    return environment


def _compile(source: str, label: str) -> tuple[_Part, ...]:
    from jinja2 import TemplateError

    environment = _environment(source)
    try:
        trees = _trees(source, label, environment)
        return tuple(_Part(role, environment.from_string(tree)) for role, tree in trees)
    except TemplateError as error:
        raise PromptFilesMissingError(f"The prompt file {label} cannot be read: {error}.") from error


def _trees(source: str, label: str, environment: jinja2.Environment) -> list[tuple[str, jinja2.nodes.Template]]:
    """Return the role and the template of each message."""
    from jinja2 import TemplateError, meta

    before, *pieces = _ROLE.split(source)
    if not pieces:
        raise PromptFilesMissingError(f"The prompt file {label} needs a line `=== system ===` or `=== user ===`.")
    if lost := _COMMENT.sub("", before).strip():
        raise PromptFilesMissingError(
            f"The prompt file {label} begins with {lost[:40]!r}, which no message would hold; put it below a line "
            "`=== system ===` or `=== user ===`."
        )
    trees = [(role.lower(), environment.parse(text)) for role, text in zip(pieces[::2], pieces[1::2], strict=True)]
    if any(list(meta.find_referenced_templates(tree)) for _, tree in trees):
        raise TemplateError("a prompt is one file, and cannot include or import another")
    return trees


class _Neutraliser:
    """Changes `</tag>` in a value to `<\\/tag>`, for the tags of one file.

    Taking one backslash out again gives the value back.
    """

    def __init__(self, tags: frozenset[str]) -> None:
        names = "|".join(re.escape(tag) for tag in sorted(tags)) or r"(?!)"
        self.pattern = re.compile(rf"<(\\*\s*/\s*(?:{names})\b)", re.IGNORECASE)

    def __call__(self, value: object) -> object:
        return self.pattern.sub(r"<\\\1", value) if isinstance(value, str) else value


def one_line(value: object) -> str:
    """Return a value as one line, so that it cannot start a numbered item of its own."""
    return " ".join(str(value).split())
