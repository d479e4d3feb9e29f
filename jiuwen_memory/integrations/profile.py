"""A memory described by a TOML file and the environment, for programs that are started rather than imported."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jiuwen_memory.errors import SetupError
from jiuwen_memory.foundation import settings
from jiuwen_memory.foundation.files import home_path
from jiuwen_memory.foundation.llm.model import Model
from jiuwen_memory.foundation.llm.schema.config import ModelClientConfig, ModelRequestConfig
from jiuwen_memory.foundation.locks import UserLocks
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.redis_locks import RedisUserLocks
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.integrations.ontology_section import OntologySection
from jiuwen_memory.memory_core.config.graph import AddMemStrategy, Language
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.retrieval.common.config import EmbeddingConfig, RerankerConfig
from jiuwen_memory.retrieval.embedding.api_embedding import APIEmbedding
from jiuwen_memory.retrieval.embedding.local_embedding import LocalEmbedding
from jiuwen_memory.retrieval.embedding.onnx_embedding import OnnxEmbedding
from jiuwen_memory.retrieval.embedding.onnx_folder import Pooling
from jiuwen_memory.retrieval.reranker.api_reranker import APIReranker

HOME = Path("~/.jiuwen-memory")
Section = TypeVar("Section", bound=BaseModel)
SECTION = ConfigDict(extra="allow", hide_input_in_errors=True)


class EmbeddingSection(BaseModel):
    """Which embedding model: `local` runs in this process, `onnx` too, from the folder `path`; `api` is an endpoint.

    Further fields are the arguments of `LocalEmbedding` and `OnnxEmbedding`, or the fields of `EmbeddingConfig`.
    """

    model_config = SECTION

    kind: Literal["local", "onnx", "api"] = "local"


class OnnxSection(BaseModel):
    """The arguments of `OnnxEmbedding`."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, protected_namespaces=())

    path: Path
    model_file: str | None = None
    model_name: str | None = None
    max_tokens: int | None = Field(default=None, ge=3)
    pooling: Pooling | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    threads: int = Field(default=1, ge=1)


class StrategySection(BaseModel):
    """How texts are taken in; further fields are `AddMemStrategy`'s."""

    model_config = SECTION

    small_model: bool = False


class LockSection(BaseModel):
    """Where writers of several processes meet; without a Redis, one process at a time may write."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    redis: str | None = Field(default=None, repr=False)


class Profile(BaseModel):
    """What a configuration file says; every part of it may be left out.

    Args:
        user: whose memory it is, unless a command says otherwise.
        language: of prompts and summaries.
        source: what is kept as the source of everything learnt through this profile.
        prompts: a folder of prompts of one's own.
        store: fields of `GraphConfig`; by default a Milvus Lite file in the home folder.
        llm: fields of `ModelRequestConfig` and `ModelClientConfig`.
        embedding, reranker, strategy, locks, ontology: see the classes.

    Paths in a file count from the folder that the file is in.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    user: str = "me"
    language: Language = "en"
    source: str | None = None
    prompts: Path | None = None
    store: dict[str, Any] = Field(default_factory=dict, repr=False)
    llm: dict[str, Any] = Field(default_factory=dict, repr=False)
    embedding: EmbeddingSection = Field(default_factory=EmbeddingSection, repr=False)
    reranker: dict[str, Any] | None = Field(default=None, repr=False)
    strategy: StrategySection = Field(default_factory=StrategySection)
    locks: LockSection = Field(default_factory=LockSection)
    ontology: OntologySection = Field(default_factory=OntologySection)


def profile_path(path: Path | None = None) -> Path:
    """Return where the configuration file is looked for: as given, by `JIUWEN_MEMORY_CONFIG`, or in the home folder."""
    return home_path(path or settings.CONFIG.read() or HOME / "config.toml")


def load_profile(path: Path | None = None) -> Profile:
    """Read a configuration file; without one, everything has its default. The environment wins for what it names.

    Raises:
        SetupError: a file that was named is not there, or a file does not say what it should.
        InvalidInputError: a path lies in a home folder that is not known.
    """
    wanted = profile_path(path)
    is_named = path is not None or bool(settings.CONFIG.read())
    values: dict[str, Any] = {}
    if wanted.is_file():
        try:
            values = tomllib.loads(wanted.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SetupError(f"{wanted} is no TOML file: {error}.") from error
        except OSError as error:
            raise SetupError(f"The configuration file {wanted} cannot be read: {error.strerror}.") from error
    elif is_named:
        raise SetupError(f"There is no configuration file {wanted}; make it, or name another.")
    profile = _located(_checked(Profile, values, what=str(wanted)), wanted.absolute().parent)
    given = {"uri": settings.URI.read(), "token": settings.TOKEN.read()}
    store = profile.store | {name: value for name, value in given.items() if value}
    return profile.model_copy(update={"store": store, "user": settings.USER.read() or profile.user})


@asynccontextmanager
async def open_memory(profile: Profile, *, with_model: bool = True) -> AsyncIterator[GraphMemory]:
    """Open the memory that a profile describes, with model, embedder and reranker; all are closed at the end.

    An endpoint's embedder whose `dimension` is not given is asked for one vector to learn it. `with_model=False` leaves
    the language model out, and then needs no key for it: what only reads does without.

    Raises:
        SetupError: the profile does not fit together; the message names the section.
    """
    async with AsyncExitStack() as stack:
        embedder = make_embedder(profile)
        await stack.enter_async_context(embedder)
        dimension = embedder.dimension or len(await embedder.embed_query("dimension"))
        model = await stack.enter_async_context(make_model(profile)) if with_model else None
        reranker = make_reranker(profile)
        if reranker is not None:
            await stack.enter_async_context(reranker)
        own = profile.ontology.own_types()
        memory = GraphMemory(
            make_store_config(profile, dimension=dimension, embedder=embedder),
            model,
            reranker=reranker,
            extraction_strategy=_strategy(profile.strategy),
            language=profile.language,
            locks=make_locks(profile),
            prompts=profile.prompts,
            entity_types=own.entity_types,
            relation_types=own.relation_types,
            closed_types=own.is_closed,
        )
        yield await stack.enter_async_context(memory)


def make_model(profile: Profile) -> Model:
    """Return the profile's language model.

    Raises:
        SetupError: the section says something that cannot be, or the key is missing.
    """
    of_client = {name: value for name, value in profile.llm.items() if name in ModelClientConfig.model_fields}
    of_request = {name: value for name, value in profile.llm.items() if name not in of_client}
    return Model(
        _checked(ModelRequestConfig, of_request, what="[llm]"), _checked(ModelClientConfig, of_client, what="[llm]")
    )


def make_embedder(profile: Profile) -> LocalEmbedding | OnnxEmbedding | APIEmbedding:
    """Return the profile's embedding model.

    Raises:
        SetupError: the section says something that cannot be, or the key is missing.
    """
    section = profile.embedding
    given = dict(section.model_extra or {})
    if section.kind == "api":
        return APIEmbedding(_checked(EmbeddingConfig, given, what="[embedding]"))
    if section.kind == "onnx":
        folder = _checked(OnnxSection, given, what="[embedding]")
        return OnnxEmbedding(home_path(folder.path), **folder.model_dump(exclude={"path"}))
    if unknown := sorted(given.keys() - {"threads"}):
        raise SetupError(f'[embedding] of kind "local" knows "threads" alone, not {", ".join(unknown)}.')
    return LocalEmbedding(**given)


def make_reranker(profile: Profile) -> APIReranker | None:
    """Return the profile's reranker, if it has one.

    Raises:
        SetupError: the section says something that cannot be.
    """
    if profile.reranker is None:
        return None
    return APIReranker(_checked(RerankerConfig, profile.reranker, what="[reranker]"))


def make_store_config(profile: Profile, *, dimension: int, embedder: Embedding | None = None) -> GraphConfig:
    """Return where and how the profile's graph is stored; what the profile says of the dimension counts.

    Raises:
        SetupError: the section says something that cannot be.
    """
    store = {"uri": _default_uri(profile), "embed_dim": dimension, "embedding_model": embedder, **profile.store}
    return _checked(GraphConfig, store, what="[store]")


def make_locks(profile: Profile) -> UserLocks | None:
    """Return where the profile's writers meet; None is in this process alone."""
    return RedisUserLocks(profile.locks.redis) if profile.locks.redis else None


def _located(profile: Profile, folder: Path) -> Profile:
    """Return the profile with its paths as seen from a folder: a server or an assistant starts anywhere."""
    store, embedding = dict(profile.store), profile.embedding
    uri = store.get("uri")
    is_path = isinstance(uri, str) and uri and "://" not in uri and not uri.startswith("unix:")
    if is_path and store.get("backend", "milvus") == "milvus":
        store["uri"] = str(folder / home_path(str(uri)))
    path = (embedding.model_extra or {}).get("path")
    if embedding.kind == "onnx" and isinstance(path, str):
        embedding = embedding.model_copy(update={"path": str(folder / home_path(path))})
    prompts = profile.prompts and folder / home_path(profile.prompts)
    return profile.model_copy(update={"store": store, "embedding": embedding, "prompts": prompts})


def _default_uri(profile: Profile) -> str:
    if "uri" in profile.store:
        return str(profile.store["uri"])
    folder = home_path(HOME)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"The folder {folder} cannot be made ({error.strerror}); give [store] a uri.") from error
    return str(folder / "memory.db")


def _strategy(section: StrategySection) -> AddMemStrategy:
    given = {"chinese_entity": False, **(section.model_extra or {})}
    try:
        return AddMemStrategy.small_model(**given) if section.small_model else AddMemStrategy.model_validate(given)
    except ValidationError as error:
        raise _setup_error(error, what="[strategy]") from error


def _checked(kind: type[Section], values: Mapping[str, Any], *, what: str) -> Section:
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise _setup_error(error, what=what) from error


def _setup_error(error: ValidationError, *, what: str) -> SetupError:
    """Name what is wrong and where, without the values: one of them may be a key."""
    faults = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors())
    return SetupError(f"The configuration ({what}) cannot be used: {faults}.")
