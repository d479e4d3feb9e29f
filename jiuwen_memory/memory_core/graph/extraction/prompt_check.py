"""Checks a folder of the user's own prompts before a memory uses it. Only reads files.

`python -m jiuwen_memory.memory_core.graph.extraction.prompt_check FOLDER` prints what is found, and ends with 1 if
something would fail, with 2 if there is no such folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from jiuwen_memory.errors import PromptFilesMissingError
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.prompts import QUESTIONS, PromptLibrary, read_prompt, used_variables

PromptFaultKind = Literal["unknown_file", "unreadable", "unknown_variable", "missing_variable", "unused_variable"]

NEEDED: Final = frozenset({"text", "entities", "items", "groups", "new", "old", "query", "lines"})
"""Variables without which a question asks about nothing, where the built-in file has them."""


@dataclass(frozen=True)
class PromptFault:
    """Something about a prompt file; `detail` says what it is. An unused variable is a hint, the others are errors."""

    kind: PromptFaultKind
    file: str
    detail: str

    @property
    def is_error(self) -> bool:
        """The file would fail, never be read, or ask about nothing."""
        return self.kind != "unused_variable"

    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'hint'}: {self.file}: {self.detail}"


def check_prompts(folder: Path | str) -> list[PromptFault]:
    """Return what is wrong with a folder of prompts, file by file.

    Raises:
        PromptFilesMissingError: there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise PromptFilesMissingError(f"There is no folder {str(root)!r}; give the one that holds `en` and `cn`.")
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return [fault for path in files for fault in _faults(path, root)]


def _faults(path: Path, root: Path) -> Iterator[PromptFault]:
    file = path.relative_to(root).as_posix()
    language, _, name = file.removesuffix(".md").partition("/")
    if language not in get_args(Language) or name not in QUESTIONS or not file.endswith(".md"):
        known = f"{'|'.join(get_args(Language))}/NAME.md, where NAME is {', '.join(QUESTIONS)}"
        yield PromptFault("unknown_file", file, f"it is never read; files are {known}")
        return
    built_in = used_variables(PromptLibrary().source(name, language), file)
    try:
        used = used_variables(read_prompt(path), file, given=built_in)
    except PromptFilesMissingError as error:
        yield PromptFault("unreadable", file, str(error))
        return
    for variable in sorted(used - built_in):
        detail = f"there is no variable {variable!r} here; there are {', '.join(sorted(built_in))}"
        yield PromptFault("unknown_variable", file, detail)
    for variable in sorted(built_in - used):
        kind: PromptFaultKind = "missing_variable" if variable in NEEDED else "unused_variable"
        yield PromptFault(kind, file, f"{variable!r} is not used; see the built-in file for what it says")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a folder, print what is found, and return the exit code."""
    parser = argparse.ArgumentParser(prog="prompt_check", description="Checks a folder of prompts of your own.")
    parser.add_argument("folder", type=Path, help="the folder given as GraphMemory(prompts=...)")
    options = parser.parse_args(arguments)
    try:
        faults = check_prompts(options.folder)
    except PromptFilesMissingError as error:
        print(error)
        return 2
    for fault in faults:
        print(fault)
    errors = sum(fault.is_error for fault in faults)
    print(f"{errors} errors, {len(faults) - errors} hints")
    return 1 if errors else 0


if __name__ == "__main__":
    raise SystemExit(main())
