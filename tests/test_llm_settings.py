"""Settings of models, and the environment behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from jiuwen_memory.errors import SetupError
from jiuwen_memory.foundation import settings
from jiuwen_memory.foundation.llm import Model, ModelClientConfig, ModelRequestConfig
from jiuwen_memory.foundation.llm.model import register_provider
from jiuwen_memory.foundation.llm.openai_chat import OpenAIChat
from jiuwen_memory.retrieval.common.config import EmbeddingConfig, RerankerConfig

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in settings.SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)


def test_the_environment_gives_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")
    monkeypatch.setenv("JIUWEN_MEMORY_MODEL", "small")
    monkeypatch.setenv("JIUWEN_MEMORY_TIMEOUT", "7")
    monkeypatch.setenv("JIUWEN_MEMORY_SSL_CERT", "/certificates.pem")

    client = ModelClientConfig()
    embedding = EmbeddingConfig()

    assert (client.api_base, client.timeout, client.ssl_cert) == (
        "http://127.0.0.1:1/v1",
        7.0,
        Path("/certificates.pem"),
    )
    assert client.key == embedding.key == KEY
    assert (embedding.base_url, embedding.model_name) == ("http://127.0.0.1:1/v1", "text-embedding-3-small")
    assert ModelRequestConfig().model == "small"


def test_embeddings_may_live_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one/v1")
    monkeypatch.setenv("JIUWEN_MEMORY_EMBEDDING_BASE_URL", "http://two/v1/embeddings")

    assert EmbeddingConfig().base_url == "http://two/v1"


def test_a_reranker_is_never_sent_the_key_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    assert RerankerConfig(base_url="http://one").key == ""


def test_without_anything_the_endpoint_is_openai_over_checked_tls() -> None:
    client = ModelClientConfig(api_key=KEY)

    assert (client.api_base, client.verify_ssl, client.ssl_cert) == ("https://api.openai.com/v1", True, None)
    assert ModelRequestConfig().model == "gpt-4.1-mini"


def test_a_limit_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIUWEN_MEMORY_TIMEOUT", "soon")

    with pytest.raises(SetupError, match="JIUWEN_MEMORY_TIMEOUT"):
        ModelClientConfig()


def test_every_setting_explains_itself_and_has_its_own_name() -> None:
    names = [setting.name for setting in settings.SETTINGS]

    assert len(set(names)) == len(names)
    assert all(setting.meaning for setting in settings.SETTINGS)


def test_the_key_shows_in_no_repr_and_no_validation_error() -> None:
    config = ModelClientConfig(api_key=KEY, headers={"api-key": KEY})

    with pytest.raises(ValidationError) as caught:
        ModelClientConfig(api_key=KEY + "…", headers={"a": KEY}, timeout=-1)

    assert KEY not in f"{config!r} {config} {config.model_dump(exclude={'headers'})} {caught.value}"


@pytest.mark.parametrize("field", ["api_key", "headers"])
def test_what_no_header_can_hold_is_refused_early(field: str) -> None:
    values = {"api_key": "sk-…", "headers": {"x": "ü"}}

    with pytest.raises(ValidationError, match="no HTTP header can"):
        ModelClientConfig.model_validate({field: values[field]})


@pytest.mark.parametrize("address", ["", "localhost:8000/v1", "ftp://host/v1", "https:///v1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="not an address"):
        ModelClientConfig(api_base=address)


def test_a_misspelt_setting_is_refused_and_an_older_one_accepted() -> None:
    with pytest.raises(ValidationError):
        ModelClientConfig.model_validate({"api_bsae": "http://host/v1"})

    assert ModelClientConfig(client_id="one", max_retries=3).client_provider == "OpenAI"


def test_a_model_has_two_names_for_its_name_and_any_further_field() -> None:
    config = ModelRequestConfig.model_validate({"model_name": "small", "seed": 1})

    assert (config.model, config.model_name, config.model_dump()["seed"]) == ("small", "small", 1)


def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SetupError, match=r"'Nosuch'.*openai"):
        Model(model_client_config=ModelClientConfig(client_provider="Nosuch", api_key=KEY))


def test_no_key_for_openai_is_noticed_before_the_first_request() -> None:
    with pytest.raises(SetupError, match="OPENAI_API_KEY"):
        Model(model_config=ModelRequestConfig(model="small"))


def test_providers_are_registered_once_unless_forced() -> None:
    register_provider("Mine", OpenAIChat, force=True)

    with pytest.raises(SetupError, match="already"):
        register_provider("mine", OpenAIChat)
    with pytest.raises(SetupError, match="name"):
        register_provider(" ", OpenAIChat)

    Model(model_client_config=ModelClientConfig(client_provider="MINE", api_key=KEY))
