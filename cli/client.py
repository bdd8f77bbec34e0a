"""Requests to the service: answers as JSON, refusals and lost connections as CommandError.

Imports httpx2, which takes 0.2 s: load it late.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from cli import embedded, terminal
from cli.errors import CommandError, Exit, PassingError
from cli.settings import Settings
from cli.transport import is_loopback, options
from cli.wire import Json

SILENCE_SECONDS = 30.0  # a followed stream sends a sign of life every 10 s
GATEWAY = {502, 503, 504}  # not now: the service is not ready, or a proxy does not reach it


class Client:
    """One call's connection to the service."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.url = _address(settings)
        self._http = httpx2.Client(timeout=settings.request_timeout, **options(self.url))

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def relocate(self) -> None:
        """Look where the embedded server is now: a restarted one may have another port."""
        if self._settings.url is None:
            server = embedded.described(self._settings.home)
            self.url = server["url"] if server else self.url

    def get(self, path: str, **parameters: Any) -> Json:
        """The JSON answer to a GET; parameters that are None are left out."""
        return _checked(self._request("GET", path, parameters=parameters))

    def post(self, path: str, body: Json | None = None, **parameters: Any) -> Json:
        """The JSON answer to a POST."""
        return _checked(self._request("POST", path, parameters=parameters, body=body))

    def post_and_wait(self, path: str) -> Json:
        """The JSON answer to a POST that may take as long as it needs."""
        return _checked(self._request("POST", path, parameters={}, patient=True))

    def info(self) -> Json:
        """What the service says about itself, ready or not."""
        answer = self._request("GET", "/v1/info", parameters={})
        said = _object(answer)
        if answer.status_code == 503 and said and "ready" in said:
            return said
        return _checked(answer)

    def lines(self, path: str, **parameters: Any) -> Iterator[str]:
        """Lines of a stream as they come; a last line without its end is not given.

        Raises:
            PassingError: the stream broke off, or was silent for too long.
            CommandError: the service refused.
        """
        timeout = httpx2.Timeout(self._settings.request_timeout, read=SILENCE_SECONDS)
        with (
            self._reach("GET", path),
            self._http.stream(
                "GET",
                self.url + path,
                params=_stated(parameters),
                headers=self._headers() | {"Accept": "application/jsonl"},
                timeout=timeout,
            ) as answer,
        ):
            if answer.status_code >= 400:
                answer.read()
                raise _refusal(answer)
            yield from _whole_lines(answer.iter_bytes())

    def _request(
        self,
        method: str,
        path: str,
        *,
        parameters: Json,
        body: Json | None = None,
        patient: bool = False,
    ) -> httpx2.Response:
        limit = self._settings.request_timeout
        with self._reach(method, path):
            return self._http.request(
                method,
                self.url + path,
                params=_stated(parameters),
                content=None if body is None else json.dumps(body, allow_nan=False),
                headers=self._headers() | {"Content-Type": "application/json"},
                timeout=httpx2.Timeout(limit, read=None if patient else limit),
            )

    def _headers(self) -> dict[str, str]:
        settings = self._settings
        token = settings.token
        is_ours = settings.url is None or is_loopback(self.url)
        if token is None and is_ours:  # the account's own token stays on its machine
            token = embedded.token(settings.home)
        return {"Authorization": f"Bearer {token}"} if token else {}

    @contextmanager
    def _reach(self, method: str, path: str) -> Iterator[None]:
        """Say each request where that is wanted, and turn a lost connection into its sentence."""
        started = time.monotonic()
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise _unreachable(self.url, error, sent=False) from None
        except httpx2.RequestError as error:
            raise _unreachable(self.url, error, sent=True) from None
        except httpx2.InvalidURL as error:
            raise CommandError(f"{self.url} is no URL: {error}", Exit.USAGE) from None
        finally:
            if self._settings.verbose:
                taken = (time.monotonic() - started) * 1000
                terminal.say(f"{method} {self.url}{path} ({taken:.0f} ms)")


def _address(settings: Settings) -> str:
    """Where the service is; an embedded one is started when it is not there."""
    if settings.url is not None:
        return settings.url

    def announce(sentence: str) -> None:
        if not settings.quiet:
            terminal.say(sentence)

    url: str = embedded.ensure(settings.home, announce)["url"]
    return url


def _stated(parameters: Json) -> Json:
    return {name: value for name, value in parameters.items() if value is not None}


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Lines by their line feed alone: text inside JSON may hold other separators as they are."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")


def _checked(answer: httpx2.Response) -> Json:
    """The JSON of an answer that is no refusal."""
    if answer.status_code >= 400:
        raise _refusal(answer)
    said = _object(answer)
    if said is None:
        raise CommandError(
            f"{answer.url.host} answered {answer.status_code} with something that is not JSON",
            Exit.REFUSED,
            hint="is there a trainledger server at this address?",
        )
    return said


def _object(answer: httpx2.Response) -> Json | None:
    try:
        said = json.loads(answer.content)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _refusal(answer: httpx2.Response) -> CommandError:
    """What a problem document says, as a sentence with its faults below it."""
    problem = _object(answer) or {}
    message = _message(problem) or f"{answer.url.host} answered {answer.status_code}"
    hint = problem.get("hint")
    if answer.status_code in GATEWAY:
        return PassingError(message, Exit.REFUSED, hint=hint, sent=True)
    code = Exit.NOT_FOUND if answer.status_code == 404 else Exit.REFUSED
    return CommandError(message, code, hint=hint)


def _message(problem: Json) -> str:
    """The problem's sentence; several faults or candidates stand on lines of their own."""
    sentence = str(problem.get("detail") or problem.get("title") or "")
    items = [str(each) for each in problem.get("faults") or problem.get("candidates") or []]
    if all(each in sentence for each in items):
        if len(items) < 2:
            return sentence
        sentence = str(problem.get("title") or sentence)
    return "\n".join([sentence, *(f"  {each}" for each in items)])


def _unreachable(url: str, error: Exception, *, sent: bool) -> PassingError:
    return PassingError(
        f"could not reach the service at {url}: {str(error) or type(error).__name__}",
        hint="check --url and TRAINLEDGER_URL, or `trainledger server status`",
        sent=sent,
    )
