"""Connections to endpoints with OpenAI's protocol; the only module that imports openai.

The SDK sends the requests and keeps the connections; its own retries are off, because the one retry loop is
GraphMemory's. Errors of the SDK leave here as errors of this library, without keys.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from jiuwen_memory.errors import ServiceError, SetupError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.llm.schema.config import ConnectionConfig
from jiuwen_memory.foundation.retry import is_transient_status, retry_after_seconds

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 5.0
ADVICE = {
    400: "Compare the request with what the endpoint and the model accept.",
    401: "Check api_key (or the environment variable that gives it).",
    403: "Check that this key may use this model.",
    404: "Check the endpoint's address (does it end in /v1?) and the name of the model.",
    413: "Send less at a time: lower batch sizes or AddMemStrategy.chunk_tokens.",
    422: "Compare the request with what the endpoint and the model accept.",
    429: "Wait, or lower GraphConfig.max_concurrent; if the message speaks of a quota, raise the quota.",
}


class Connection:
    """Requests to one endpoint, with a pool of connections of its own for each event loop.

    `close` lets go of all connections; a later request opens new ones.
    """

    def __init__(self, base_url: str, config: ConnectionConfig, *, error: type[ServiceError]) -> None:
        if urlsplit(base_url).hostname == "api.openai.com" and not config.key:
            raise SetupError(
                "There is no API key for api.openai.com. Set OPENAI_API_KEY or pass api_key; for another endpoint, set "
                "OPENAI_BASE_URL."
            )
        self.base_url = base_url
        self._config = config
        self._error = error
        # Connections belong to the loop they were opened in.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()
        self._opening = threading.Lock()

    async def post(
        self,
        path: str,
        body: Mapping[str, object],
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, object] | None = None,
        seconds: float | None = None,
    ) -> object:
        """Send one request and return the JSON of the answer.

        Raises:
            ServiceError: of the class given at construction; tells whether to try again, and when.
        """
        client = await self._client()
        from openai import APIError, Omit

        # Without a key there is no authorization at all: some servers refuse a made-up one.
        own_headers = {} if self._config.key else {"Authorization": Omit()}
        limit = seconds or self._config.timeout
        try:
            # The SDK's limit counts from byte to byte; an endpoint that trickles would never end.
            async with asyncio.timeout(limit):
                text = await client.post(
                    path,
                    cast_to=str,
                    body=dict(body),
                    options={
                        "headers": {**own_headers, **self._config.headers, **(headers or {})},
                        "params": dict(query or {}),
                        "timeout": limit,
                    },
                )
        except TimeoutError as error:
            raise self._slow(limit) from error
        except APIError as error:
            failure = self._translated(error, limit)
            # The SDK's own text repeats the endpoint's, and some endpoints repeat the key.
            raise failure from (None if self.clean(str(error)) != str(error) else error)
        return self._parsed(text)

    async def close(self) -> None:
        """Close every connection."""
        with self._opening:
            clients = list(self._clients.items())
            self._clients.clear()
        for loop, client in clients:
            if loop is asyncio.get_running_loop():
                await client.close()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(client.close(), loop)
                await asyncio.wait([asyncio.wrap_future(closing)], timeout=CLOSE_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _client(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        # Importing the SDK and reading the certificates takes half a second.
        return client if client is not None else await off_loop(None, self._open, loop)

    def _open(self, loop: asyncio.AbstractEventLoop) -> AsyncOpenAI:
        with self._opening:
            for other in list(self._clients):
                if other.is_closed():
                    del self._clients[other]
            client = self._clients.get(loop)
            if client is None:
                client = self._clients[loop] = self._new_client()
            return client

    def _new_client(self) -> AsyncOpenAI:
        import openai

        config = self._config
        verify: bool | ssl.SSLContext = config.verify_ssl
        if config.verify_ssl and config.ssl_cert:
            verify = _trusting(config.ssl_cert)
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
            max_connections=config.max_connections, max_keepalive_connections=config.max_connections
        )
        # A proxy named in the environment cannot reach this machine's loopback addresses.
        through_proxy = urlsplit(self.base_url).hostname not in LOOPBACK
        return openai.AsyncOpenAI(
            base_url=self.base_url,
            # The SDK insists on a key, also where none is sent.
            api_key=config.key or "none",
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=verify, limits=limits, trust_env=through_proxy),
        )

    def _parsed(self, text: str) -> object:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._error(
                f"{self._place()} answered with something that is not JSON: {self.clean(text)[:200]!r}. "
                "Check the endpoint's address (does it end in /v1?)."
            ) from error

    def _translated(self, error: APIError, seconds: float) -> ServiceError:
        from openai import APIStatusError, APITimeoutError

        if isinstance(error, APITimeoutError):
            return self._slow(seconds)
        if not isinstance(error, APIStatusError):
            return self._unreachable(error)
        status = error.status_code
        advice = ADVICE.get(status, "Try again later." if status >= 500 else "")
        return self._error(
            f"{self._place()} answered with status {status}: {self._said(error)} {advice}".rstrip(),
            retryable=is_transient_status(status),
            retry_after=retry_after_seconds(error.response.headers),
            status=status,
        )

    def _said(self, error: APIError) -> str:
        # Cut last: half a key would not be known for one.
        return self.clean(_words_of(error))[:500].strip().rstrip(".") + "."

    def _unreachable(self, error: APIError) -> ServiceError:
        causes = list(_causes(error))
        reason = self.clean(str(causes[-1]) or type(causes[-1]).__name__)
        if any(
            isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY" in str(cause) for cause in causes
        ):
            return self._error(
                f"The certificate of {self._place()} is not trusted: {reason}. "
                "Give the authority's PEM file as ssl_cert (or JIUWEN_MEMORY_SSL_CERT).",
                retryable=False,
            )
        return self._error(f"{self._place()} cannot be reached: {reason}. Check the address and that the server runs.")

    def _slow(self, seconds: float) -> ServiceError:
        return self._error(f"{self._place()} did not answer within {seconds:g} s. Raise timeout if it needs longer.")

    def _place(self) -> str:
        parts = urlsplit(self.base_url)
        port = f":{parts.port}" if parts.port else ""
        return f"The endpoint {parts.scheme}://{parts.hostname}{port}{parts.path}"

    def clean(self, text: str) -> str:
        """Return a foreign text without what may be a secret."""
        for secret in (self._config.key, *self._config.headers.values()):
            if len(secret) > 3:
                text = text.replace(secret, "***")
        return text


def _trusting(ssl_cert: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ssl_cert)
    except OSError as error:
        raise SetupError(
            f"ssl_cert={str(ssl_cert)!r} cannot be read: {error}. Give a PEM file of certificates."
        ) from error


def _words_of(error: APIError) -> str:
    """Return what an endpoint says about its refusal, in whatever form it says it."""
    said: object = error.body
    for key in ("error", "message", "detail"):
        if isinstance(said, Mapping) and said.get(key):
            said = said[key]
    text = (
        said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str) if said else error.message
    )
    return text


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
