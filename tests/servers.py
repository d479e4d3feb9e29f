"""A real HTTP server on a loopback address that speaks OpenAI's protocol, with faults on demand.

    with OpenAIServer(replies={"EntityExtraction": '{"extracted_entities": []}'}) as server:
        Model(model_client_config=ModelClientConfig(api_base=server.base_url, api_key="any"))

Without a scripted reply, the server answers with the smallest JSON that fits the schema of the request.
"""

from __future__ import annotations

import array
import base64
import contextlib
import json
import math
import re
import socket
import ssl
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Self

Body = dict[str, object]
Reply = Callable[[Body], str]
Embed = Callable[[str], list[float]]


@dataclass(frozen=True)
class Request:
    """One request that the server got, and when, by a clock that only goes forward."""

    path: str
    headers: Mapping[str, str]
    body: Body
    at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request, instead of or before its answer."""

    kind: Literal["status", "reset", "malformed", "truncated", "slow", "trickle", "answer"]
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "made to fail"
    seconds: float = 0.0
    answer: object = None


class OpenAIServer:
    """Chat, embeddings and reranking over HTTP, in threads of this process.

    `tools_called` names tools; the next answers call one each, after their words.

    Args:
        replies: the text of each answer, by the request's body or by the name of its JSON schema.
        embed: the vector of a text; without it, hashed character n-grams of `dim` numbers.
        api_key: if given, requests must carry it.
        tls: serve HTTPS with this context.
    """

    def __init__(
        self,
        replies: Reply | Mapping[str, str] | None = None,
        *,
        embed: Embed | None = None,
        dim: int = 64,
        api_key: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.replies = replies or {}
        self.dim = dim
        self.embed = embed or self._hashed
        self.api_key = api_key
        self.refuse_json_schema = False
        self.refuse_json_object = False
        self.refused_fields: dict[str, str] = {}
        self.tools_called: list[str] = []
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.stopping = threading.Event()
        self.first_request = threading.Event()
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = _Server(self, tls)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def base_url(self) -> str:
        """The endpoint's address, ending in /v1."""
        return f"{self._server.scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def chats(self) -> list[Request]:
        """The chat requests so far."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    @property
    def connections(self) -> int:
        """Connections that were opened so far."""
        return self._server.accepted

    def fail(self, *faults: Fault) -> None:
        """Let the next requests go wrong, one fault each."""
        self.faults.extend(faults)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    def arrived(self, request: Request) -> Fault | None:
        """Note a request, and return what shall go wrong with it."""
        with self._lock:
            self.requests.append(request)
            self.first_request.set()
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return self.faults.pop(0) if self.faults else None

    def left(self) -> None:
        """Note that a request was answered."""
        with self._lock:
            self._at_once -= 1

    def answer(self, request: Request) -> tuple[int, object]:
        """Return status and JSON of the answer to a request."""
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return 401, _error(f"Incorrect API key: {request.headers.get('authorization')}")
        if request.path.endswith("/chat/completions"):
            return self._chat(request.body)
        if request.path.endswith("/responses"):
            return 200, self._response(request.body)
        if request.path.endswith("/embeddings"):
            return self._embeddings(request.body)
        if request.path.endswith("/rerank"):
            return self._scores(request.body)
        return 404, _error(f"There is nothing at {request.path}")

    def _chat(self, body: Body) -> tuple[int, object]:
        form = body.get("response_format")
        kind = form.get("type") if isinstance(form, dict) else None
        if (kind == "json_schema" and self.refuse_json_schema) or (kind == "json_object" and self.refuse_json_object):
            return 400, _error(f"Invalid parameter: 'response_format' of type '{kind}' is not supported")
        for name, message in self.refused_fields.items():
            if name in body:
                return 400, _error(message)
        text = self.replies(body) if callable(self.replies) else self._scripted(body)
        prompt = json.dumps(body.get("messages"))
        function = {"name": self.tools_called.pop(0), "arguments": "{}"} if self.tools_called else None
        called = {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]} if function else {}
        said = {"role": "assistant", "content": text, **called}
        return 200, {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model"),
            "choices": [{"index": 0, "finish_reason": "tool_calls" if called else "stop", "message": said}],
            "usage": {
                "prompt_tokens": len(prompt) // 4,
                "completion_tokens": len(text) // 4,
                "total_tokens": len(prompt) // 4 + len(text) // 4,
            },
        }

    def _response(self, body: Body) -> Body:
        text = self.replies(body) if callable(self.replies) else "Hello."
        part = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        answer = {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": body.get("model"),
            "status": "completed",
        }
        more = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        names = [self.tools_called.pop(0)] if self.tools_called else []
        calls = [{"type": "function_call", "call_id": "call_1", "name": name, "arguments": "{}"} for name in names]
        return {**answer, **more, "output": [message, *calls]}

    def _scripted(self, body: Body) -> str:
        name, schema = wanted_form(body)
        if isinstance(self.replies, Mapping) and name in self.replies:
            return self.replies[name]
        return json.dumps(smallest_answer(schema, schema), ensure_ascii=False) if schema else "Hello."

    def _embeddings(self, body: Body) -> tuple[int, object]:
        given = body.get("input")
        texts = given if isinstance(given, list) else [given]
        vectors = [self.embed(str(text)) for text in texts]
        as_text = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": encoded(vector) if as_text else vector}
            for index, vector in enumerate(vectors)
        ]
        tokens = sum(len(str(text)) for text in texts) // 4
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return 200, {"object": "list", "data": data, "model": body.get("model"), "usage": usage}

    def _scores(self, body: Body) -> tuple[int, object]:
        documents = body.get("documents", body.get("texts"))
        query = set(str(body.get("query")).lower().split())
        scored = [
            {"index": index, "relevance_score": len(query & set(str(document).lower().split())) / len(query)}
            for index, document in enumerate(documents if isinstance(documents, list) else [])
        ]
        return 200, {"results": sorted(scored, key=lambda item: -item["relevance_score"])}

    def _hashed(self, text: str) -> list[float]:
        return hashed_vector(text, self.dim)


def events_of(answer: Body) -> list[Body]:
    """Return the events in which a chat completion or a response is streamed, a word at a time."""
    if answer["object"] == "response":
        return _response_events(answer)
    choice = answer["choices"][0]  # type: ignore[index]
    shared = {"id": answer["id"], "object": "chat.completion.chunk", "created": 0, "model": answer["model"]}
    chunks: list[Body] = [{"content": word} for word in _words(choice["message"]["content"])]
    chunks += [{"tool_calls": [{"index": 0, **call}]} for call in choice["message"].get("tool_calls", [])]
    return [
        *({**shared, "choices": [{"index": 0, "delta": chunk, "finish_reason": None}]} for chunk in chunks),
        {**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]


def _response_events(answer: Body) -> list[Body]:
    output = answer["output"]
    assert isinstance(output, list)
    message, *calls = output
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    [part] = message["content"]
    events: list[Body] = [
        {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**message, "content": []}},
        {"type": "response.content_part.added", "part": {**part, "text": ""}, **place},
    ]
    events += [
        {"type": "response.output_text.delta", "delta": word, "logprobs": [], **place} for word in _words(part["text"])
    ]
    events += [{"type": "response.output_item.added", "output_index": 1, "item": item} for item in calls]
    events.append({"type": "response.completed", "response": answer})
    return [{**each, "sequence_number": number} for number, each in enumerate(events)]


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def wanted_form(body: Body) -> tuple[str, dict[str, object]]:
    """Return name and JSON schema of the wanted answer, from the request's format or else from its prompt."""
    form = body.get("response_format")
    wanted = form.get("json_schema") if isinstance(form, dict) else None
    if isinstance(wanted, dict):
        return str(wanted.get("name")), wanted["schema"]
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    found = re.search(r"JSON schema, called (\w+):\n(\{.*\})", str(last.get("content")), re.DOTALL)
    return (found[1], json.loads(found[2])) if found else ("", {})


def smallest_answer(schema: Mapping[str, object], root: Mapping[str, object]) -> object:
    """Return the smallest JSON value that fits a JSON schema."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target: object = root
        for step in reference.removeprefix("#/").split("/"):
            target = target[step] if isinstance(target, Mapping) else {}
        return smallest_answer(target if isinstance(target, Mapping) else {}, root)
    for choices in (schema.get("enum"), schema.get("anyOf"), schema.get("oneOf"), schema.get("allOf")):
        if isinstance(choices, list) and choices:
            return smallest_answer(choices[0], root) if isinstance(choices[0], Mapping) else choices[0]
    if "const" in schema:
        return schema["const"]
    return _smallest_of_type(schema, root)


def _smallest_of_type(schema: Mapping[str, object], root: Mapping[str, object]) -> object:
    kinds = schema.get("type", "object")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind == "array":
        items = schema.get("items")
        count = schema.get("minItems", 0)
        one = smallest_answer(items if isinstance(items, Mapping) else {}, root)
        return [one] * count if isinstance(count, int) else []
    if kind == "object":
        properties = schema.get("properties")
        required = schema.get("required")
        known = properties if isinstance(properties, Mapping) else {}
        return {
            name: smallest_answer(known.get(name, {}), root)
            for name in (required if isinstance(required, list) else ())
        }
    shortest = schema.get("minLength", 0)
    lowest = schema.get("minimum", 0)
    texts = {"string": "x" * shortest if isinstance(shortest, int) else ""}
    plain: dict[str, object] = {"integer": lowest, "number": lowest, "boolean": False, "null": None}
    return texts.get(str(kind), plain.get(str(kind)))


def hashed_vector(text: str, dim: int) -> list[float]:
    """Return a vector of length one from the character n-grams of a text; texts with common n-grams are near."""
    sums = [0.0] * dim
    folded = f" {' '.join(text.casefold().split())} "
    for size in (1, 2, 3):
        for start in range(len(folded) - size + 1):
            code = zlib.crc32(folded[start : start + size].encode("utf-8", "replace"))
            sums[code % dim] += 1.0 if code & 0x10000 else -1.0
    length = math.hypot(*sums)
    return [value / length for value in sums] if length else [1.0] + [0.0] * (dim - 1)


def encoded(vector: list[float]) -> str:
    """Return a vector as base64 text, as OpenAI sends it."""
    numbers = array.array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def _error(message: str) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, owner: OpenAIServer, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner
        self.scheme = "https" if tls else "http"
        self.accepted = 0
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def process_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self.accepted += 1
            self._open.add(request)
        super().process_request(request, client_address)

    def finish_request(self, request: object, client_address: object) -> None:
        # The handshake runs in the connection's own thread.
        assert isinstance(request, socket.socket)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        try:
            with self._tls.wrap_socket(request, server_side=True) as wrapped:
                self._open.add(wrapped)
                super().finish_request(wrapped, client_address)
                self._open.discard(wrapped)
        except (ssl.SSLError, ConnectionError):
            return

    def shutdown_request(self, request: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Say nothing of clients that hang up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """End every open connection."""
        with self._lock:
            for connection in list(self._open):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        """Answer one request, or let it go wrong."""
        owner = self.server.owner
        length = int(self.headers.get("content-length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(self.rfile.read(length)))
        fault = owner.arrived(request)
        try:
            if fault and fault.kind not in ("slow", "trickle"):
                self._go_wrong(fault)
                return
            if fault and fault.kind == "slow":
                owner.stopping.wait(fault.seconds)
            status, answer = owner.answer(request)
            pause = fault.seconds if fault and fault.kind == "trickle" else 0.0
            if request.body.get("stream") and status == 200 and isinstance(answer, dict):
                lines = [f"data: {json.dumps(event)}\n\n" for event in events_of(answer)]
                self._send(status, "".join([*lines, "data: [DONE]\n\n"]).encode(), kind="text/event-stream")
                return
            self._send(status, json.dumps(answer, ensure_ascii=False).encode(), pause=pause)
        finally:
            owner.left()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""

    def _go_wrong(self, fault: Fault) -> None:
        if fault.kind == "reset":
            # A linger time of zero sends RST in place of FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif fault.kind == "malformed":
            self._send(200, b"<html>not JSON</html>")
        elif fault.kind == "truncated":
            self._send(200, b'{"choices": [{"mess', missing=1000)
            self.close_connection = True
        elif fault.kind == "answer":
            self._send(200, json.dumps(fault.answer).encode())
        else:
            self._send(fault.status, json.dumps(_error(fault.message)).encode(), headers=fault.headers)

    def _send(
        self,
        status: int,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        missing: int = 0,
        pause: float = 0.0,
        kind: str = "application/json",
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) + missing))
        self.end_headers()
        # With a pause, a byte at a time: always something on its way, and never all of it.
        for piece in (body[index : index + 1] for index in range(len(body))) if pause else (body,):
            self.wfile.write(piece)
            if pause and self.server.owner.stopping.wait(pause):
                return
