"""A memory from a configuration file: what counts, what is refused, and that it works against real endpoints."""

from __future__ import annotations

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
