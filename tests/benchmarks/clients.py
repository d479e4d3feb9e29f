"""A line about what a remembering client costs: the time to the first token beside the plain client's, in turns.

Runs an HTTP server, the local embedder and Milvus Lite in this process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from openai import AsyncOpenAI

from jiuwen_memory import AddMemStrategy, GraphConfig, GraphMemory, LocalEmbedding
from jiuwen_memory.integrations.findings import Kind
from jiuwen_memory.integrations.openai import remembering
from jiuwen_memory.testing import FakeLLM
from tests.benchmarks.measuring import milliseconds
from tests.benchmarks.report import Line
from tests.benchmarks.settings import Setting
from tests.benchmarks.texts import USER_ID
from tests.benchmarks.worlds import SPEAKER_RELATIONS, fill, queries
from tests.servers import Fault, OpenAIServer

EVERYTHING: tuple[Kind, ...] = ("fact", "entity", "episode")
MEASURED: tuple[tuple[float, tuple[Kind, ...]], ...] = ((0.3, EVERYTHING), (0.0, EVERYTHING), (0.0, ("fact",)))
"""How long the model of each line takes to its first token, and what is recalled before."""
WARM_UP = 4


@dataclass(frozen=True)
class Took:
    """What a first token took, in seconds: on the clock, and of this process's CPU."""

    wall: float
    cpu: float


async def first_tokens(setting: Setting) -> list[Line]:
    """(m) Time to the first token of a streamed answer, with a memory and without."""
    async with LocalEmbedding() as embedder:
        config = GraphConfig(uri=str(setting.folder / "clients.db"), embed_dim=embedder.dimension, timeout=120.0)
        # The model that learns is scripted to find nothing, so that the graph stays as large as it is.
        memory = GraphMemory(config, FakeLLM(), extraction_strategy=AddMemStrategy(chinese_entity=False), language="en")
        memory.attach_embedder(embedder)
        async with memory:
            print(f"  filling a graph of {setting.small} entities with the local embedder ...", flush=True)
            await fill(memory.db_backend, embedder, size=setting.small, degree=SPEAKER_RELATIONS)
            return [await _line(memory, setting, number=number) for number in range(len(MEASURED))]


async def _line(memory: GraphMemory, setting: Setting, *, number: int) -> Line:
    seconds, kinds = MEASURED[number]
    asked = queries(setting.searches + WARM_UP, setting.small, seed=number + 4)
    with OpenAIServer(replies=lambda body: "Noted, I will keep that in mind.") as server:
        async with (
            AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0) as plain,
            remembering(plain, memory, user_id=USER_ID, kinds=kinds) as remembered,
        ):
            pairs: list[tuple[Took, Took]] = []
            for turn, text in enumerate(asked):
                found: dict[bool, Took] = {}
                for is_remembered in (bool(turn % 2), not turn % 2):
                    server.fail(Fault("slow", seconds=seconds))
                    found[is_remembered] = await _first_token(remembered.client if is_remembered else plain, text)
                    # What is learnt is waited for between the calls.
                    await remembered.aclose()
                pairs.append((found[True], found[False]))
            failures = len(remembered.failures)
    return _told(pairs[WARM_UP:], seconds, kinds=kinds, failures=failures, size=setting.small)


async def _first_token(client: AsyncOpenAI, text: str) -> Took:
    wall, cpu = time.perf_counter(), time.process_time()
    stream = await client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": text}], stream=True
    )
    await anext(stream)
    took = Took(time.perf_counter() - wall, time.process_time() - cpu)
    async for _ in stream:
        pass
    return took


def _told(
    pairs: Sequence[tuple[Took, Took]], seconds: float, *, kinds: Sequence[Kind], failures: int, size: int
) -> Line:
    upper, lower = [pair[0].wall for pair in pairs], [pair[1].wall for pair in pairs]
    ratio = statistics.median(upper) / statistics.median(lower)
    added = statistics.median(upper) - statistics.median(lower)
    cpu = statistics.median(one.cpu for one, _ in pairs) - statistics.median(other.cpu for _, other in pairs)
    recalled = "all" if len(kinds) == len(EVERYTHING) else " and ".join(kinds)
    return Line(
        "m",
        f"first token with a memory / without, model of {1000 * seconds:.0f} ms, recalls {recalled} of {size} entities",
        "",
        f"{ratio:.2f} x: {milliseconds(upper)} / {milliseconds(lower)}; {1000 * added:.0f} ms added, "
        f"{1000 * cpu:.0f} ms of CPU" + (f"; {failures} recalls failed" if failures else ""),
        values={
            "ratio": ratio,
            "added": added,
            "added CPU": cpu,
            "failures": failures,
            "seconds": [(one.wall, other.wall) for one, other in pairs],
        },
    )
