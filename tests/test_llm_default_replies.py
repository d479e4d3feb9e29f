"""What the loopback server answers unasked fits each of our answer models."""

from __future__ import annotations

import json

import pytest

from jiuwen_memory.foundation.llm import Model, ModelClientConfig, ModelRequestConfig
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction import extraction_models as answers
from jiuwen_memory.memory_core.graph.extraction.base import MultilingualBaseModel
from tests.servers import OpenAIServer, hashed_vector

ANSWERS: list[type[MultilingualBaseModel]] = [
    answers.EntityExtraction,
    answers.TimezonePredictions,
    answers.EntityDuplication,
    answers.RelationExtraction,
    answers.EntitySummaries,
    answers.RelationVerdicts,
    answers.RelevantFacts,
]


@pytest.mark.parametrize("refused", [0, 1, 2])
@pytest.mark.parametrize("language", ["en", "cn"])
@pytest.mark.parametrize("answer", ANSWERS)
async def test_every_answer_model_gets_a_valid_answer_in_whatever_form_it_is_asked_for(
    answer: type[MultilingualBaseModel], language: Language, refused: int
) -> None:
    with OpenAIServer() as server:
        server.refuse_json_schema, server.refuse_json_object = refused > 0, refused > 1
        client = ModelClientConfig(api_base=server.base_url)
        async with Model(ModelRequestConfig(model="small"), client) as model:
            reply = await model.invoke("Hi", response_format=answer.response_format(language))

    assert answer.model_validate(json.loads(reply.content))
    assert len(server.chats) == refused + 1


async def test_scripted_replies_are_found_by_the_name_of_the_schema() -> None:
    scripted = '{"extracted_entities": []}'

    with OpenAIServer(replies={"EntityExtraction": scripted}) as server:
        async with Model(ModelRequestConfig(model="small"), ModelClientConfig(api_base=server.base_url)) as model:
            reply = await model.invoke("Hi", response_format=answers.EntityExtraction.response_format("en"))

    assert reply.content == scripted


def test_texts_with_common_characters_have_near_vectors() -> None:
    ann, anna, bob = (hashed_vector(text, 64) for text in ("Ann sings", "Anna sings", "Bob is out"))

    assert sum(a * b for a, b in zip(ann, anna, strict=True)) > sum(a * b for a, b in zip(ann, bob, strict=True)) + 0.2
