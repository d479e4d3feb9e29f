"""A memory from a configuration file: what counts, what is refused, and that it works against real endpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jiuwen_memory import APIReranker, EpisodeType
from jiuwen_memory.errors import SetupError
from jiuwen_memory.integrations.profile import load_profile, open_memory
from tests.servers import OpenAIServer

SECRET = "sk-do-not-show"


@pytest.fixture(autouse=True)
def empty_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "USER", "URI", "TOKEN"):
        monkeypatch.delenv(f"JIUWEN_MEMORY_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "any")


def written(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def full(server: OpenAIServer, folder: Path) -> str:
    return f"""
user = "ann"
language = "en"

[store]
uri = "{folder / "memory.db"}"
request_max_retries = 1

[llm]
model = "any"
api_base = "{server.base_url}"
api_key = "{SECRET}"
seed = 1

[embedding]
kind = "api"
model = "any"
base_url = "{server.base_url}"
api_key = "{SECRET}"

[reranker]
base_url = "{server.base_url}"

[strategy]
small_model = true
chunk_tokens = 500

[locks]
redis = "redis://127.0.0.1:6379/0"
"""


def test_without_a_file_everything_has_a_default() -> None:
    profile = load_profile()

    assert (profile.user, profile.language, profile.embedding.kind) == ("me", "en", "local")


def test_the_environment_wins_for_what_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, 'user = "ann"\n[store]\nuri = "one.db"\nname = "kept"\n')
    monkeypatch.setenv("JIUWEN_MEMORY_CONFIG", str(path))
    monkeypatch.setenv("JIUWEN_MEMORY_USER", "ben")
    monkeypatch.setenv("JIUWEN_MEMORY_URI", "two.db")

    profile = load_profile()

    assert (profile.user, profile.store) == ("ben", {"uri": "two.db", "name": "kept"})


async def test_a_memory_of_a_profile_adds_and_closes_over_real_endpoints(tmp_path: Path) -> None:
    with OpenAIServer(dim=48) as server:
        profile = load_profile(written(tmp_path, full(server, tmp_path)))

        async with open_memory(profile) as memory:
            strategy, reranker = memory.extraction_strategy, memory.reranker
            dimension = memory.config.embed_dim

        assert (strategy.judge_items, strategy.chunk_tokens) == (1, 500)
        assert isinstance(reranker, APIReranker)
        assert dimension == 48
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_further_fields_of_the_model_go_into_its_requests(tmp_path: Path) -> None:
    with OpenAIServer(dim=48) as server:
        text = full(server, tmp_path).split("[locks]")[0]

        async with open_memory(load_profile(written(tmp_path, text))) as memory:
            await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ann keeps bees.")

        assert {request.body["seed"] for request in server.chats} == {1}


async def test_by_default_the_memory_lies_in_the_home_folder(tmp_path: Path) -> None:
    async with open_memory(load_profile()) as memory:
        uri = memory.config.uri

    assert uri == str(tmp_path / "home" / ".jiuwen-memory" / "memory.db")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("user = ", "no TOML"),
        ('usr = "ann"', "usr"),
        ("[store]\ntimeout = -1", "timeout"),
        ("[strategy]\nchunk_token = 500", "chunk_token"),
        ('[embedding]\nkind = "local"\nmodel = "x"', "threads"),
        ('[embedding]\nkind = "remote"', "kind"),
        (f'[llm]\napi_key = "{SECRET}"\napi_base = "{SECRET}"', "api_base"),
    ],
    ids=["syntax", "unknown", "store", "strategy", "local", "kind", "llm"],
)
async def test_what_cannot_be_is_named_without_its_value(tmp_path: Path, text: str, named: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(SetupError, match=named) as caught:
        async with open_memory(load_profile(path)):
            pass

    assert SECRET not in str(caught.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"nowhere\.toml"):
        load_profile(tmp_path / "nowhere.toml")


def test_keys_show_in_no_repr(tmp_path: Path) -> None:
    path = written(tmp_path, f'[llm]\napi_key = "{SECRET}"\n[locks]\nredis = "redis://:{SECRET}@host/0"\n')

    assert SECRET not in repr(load_profile(path))


def test_paths_in_a_file_count_from_its_folder_and_not_from_where_the_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    text = 'prompts = "mine"\n[store]\nuri = "one.db"\n[embedding]\nkind = "onnx"\npath = "model"\n'

    profile = load_profile(written(tmp_path, text))

    assert profile.store["uri"] == str(tmp_path / "one.db")
    assert profile.prompts == tmp_path / "mine"
    assert (profile.embedding.model_extra or {})["path"] == str(tmp_path / "model")


@pytest.mark.parametrize(
    ("uri", "backend"),
    [
        ("http://localhost:19530", "milvus"),
        ("unix:/run/milvus.sock", "milvus"),
        ("one", "memory"),
        ("/a/b.db", "milvus"),
    ],
    ids=["server", "socket", "other", "absolute"],
)
def test_what_is_no_relative_path_stays_as_it_is(tmp_path: Path, uri: str, backend: str) -> None:
    profile = load_profile(written(tmp_path, f'[store]\nuri = "{uri}"\nbackend = "{backend}"\n'))

    assert profile.store["uri"] == uri


def test_a_path_in_the_home_folder_is_found(tmp_path: Path) -> None:
    profile = load_profile(written(tmp_path, 'prompts = "~/mine"\n[store]\nuri = "~/one.db"\n'))

    assert (profile.store["uri"], profile.prompts) == (str(tmp_path / "home/one.db"), tmp_path / "home/mine")


async def test_a_home_folder_that_cannot_be_is_a_setup_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    with pytest.raises(SetupError, match="cannot be made"):
        async with open_memory(load_profile()):
            pass


ONTOLOGY = """
[ontology]
closed = true

[ontology.entities.Company]
description = { en = "a company or firm", cn = "公司、企业" }
attributes.seat = "city of its head office"
attributes.name = { en = "full name", cn = "全称" }
attributes.founded = { description = "year of its foundation", kind = "integer", least = 1000 }
attributes.size = { description = "how large it is", choices = ["small", "large"] }

[ontology.entities.Human]
description = "a person"

[ontology.relations."works at"]
description = "somebody is employed"
lhs = ["Human"]
rhs = ["Company"]
attributes.position = "job title"
"""


async def test_types_of_a_file_are_asked_for_checked_and_filled(tmp_path: Path) -> None:
    attributes = {"seat": "Oslo", "name": "Basalt AS", "founded": "12", "size": "huge"}
    replies = {
        "EntityExtraction": {"entities": [{"name": "Ada", "type": "Human"}, {"name": "Basalt", "type": "Company"}]},
        "RelationExtraction": {
            "relations": [
                {
                    "fact": "Ada leads Basalt.",
                    "name": "works at",
                    "source": "Basalt",
                    "target": "Ada",
                    "attributes": {"position": "director"},
                }
            ]
        },
        "EntitySummaries": {"2": {"summary": "A firm.", "attributes": attributes}},
    }
    with OpenAIServer({name: json.dumps(reply) for name, reply in replies.items()}, dim=48) as server:
        text = full(server, tmp_path).split("[strategy]")[0] + ONTOLOGY
        async with open_memory(load_profile(written(tmp_path, text))) as memory:
            update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ada leads Basalt, a firm in Oslo.")
        asked = str([each.body["messages"] for each in server.chats])

    basalt = next(each for each in update.added_entity if each.name == "Basalt")
    (fact,) = update.added_relation
    assert "Company - a company or firm" in asked
    assert (basalt.obj_type, basalt.attributes) == ("Company", {"seat": "Oslo", "name": "Basalt AS"})
    assert (fact.name, fact.rhs, fact.qualifiers) == ("works at", basalt.uuid, {"position": "director"})
    assert sum("is refused" in warning for warning in update.warnings) == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[ontology.entities.Company]\nattributes.seat = 'x'", "description"),
        ("[ontology.entities.A]\ndescription = 'a'\nattributes.b = { description = 'b', kind = 'date' }", "kind"),
        ("[ontology.entities.A]\ndescription = 'a'\nattributes.b = { description = 'b', least = 1 }", "least"),
        ("[ontology.relations.a]\ndescription = 'a'\nlhs = ['Boat']", "Boat"),
    ],
    ids=["description", "kind", "limit", "end"],
)
async def test_a_type_that_cannot_be_is_refused(tmp_path: Path, text: str, named: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(SetupError, match=named):
        async with open_memory(load_profile(path), with_model=False):
            pass
