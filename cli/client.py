"""Requests to the service: answers as JSON, refusals and lost connections as CommandError.

Imports httpx2, which takes 0.2 s: load it late.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
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

    def post_and_wait(self, path: str, body: Json | None = None, **parameters: Any) -> Json:
        """The JSON answer to a POST that may take as long as it needs."""
        return _checked(self._request("POST", path, parameters=parameters, body=body, patient=True))

    def post_lines(self, path: str, lines: Sequence[str], **parameters: Any) -> Json:
        """The JSON answer to a POST of lines, which may take as long as it needs."""
        body = "\n".join(lines)
        return _checked(self._request("POST", path, parameters=parameters, body=body, patient=True))

    def info(self) -> Json:
        """What the service says about itself, ready or not."""
        answer = self._request("GET", "/v1/info", parameters={})
        said = _object(answer)
        if answer.status_code == 503 and said and "ready" in said:
            return said
        return _checked(answer)

    def lines(
        self,
        path: str,
        *,
        body: Json | None = None,
        silence: float | None = SILENCE_SECONDS,
        **parameters: Any,
    ) -> Iterator[str]:
        """Lines of a stream as they come; a last line without its end is not given.

        ``body`` and ``silence`` are as for ``download``.

        Raises:
            PassingError: the stream broke off, or was silent for too long.
            CommandError: the service refused.
        """
        accept = {"Accept": "application/jsonl"}
        with self._stream(path, parameters, accept, silence=silence, body=body) as answer:
            yield from _lines(answer.iter_bytes(), with_rest=False)

    def text(self, path: str, **parameters: Any) -> Iterator[str]:
        """Lines of a text as they come, however long none comes; the last may lack its end.

        Raises:
            PassingError: the text broke off.
            CommandError: the service refused.
        """
        with self._stream(path, parameters, {"Accept": "text/plain"}, silence=None) as answer:
            yield from _lines(answer.iter_bytes(), with_rest=True)

    @property
    def is_here(self) -> bool:
        """Whether the service is on this machine."""
        return is_loopback(self.url)

    @contextmanager
    def download(
        self,
        path: str,
        *,
        body: Json | None = None,
        accept: str = "*/*",
        silence: float | None = SILENCE_SECONDS,
        **parameters: Any,
    ) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        """The headers of an answer that is no JSON, and its parts as they come.

        ``body``: what is posted; None: the answer is that to a GET.
        ``silence``: seconds that one may take; None: as long as it needs.

        Raises:
            PassingError: the answer broke off, or was silent for too long.
            CommandError: the service refused.
        """
        headers = {"Accept": accept}
        with self._stream(path, parameters, headers, silence=silence, body=body) as answer:
            yield answer.headers, answer.iter_bytes()

    @contextmanager
    def _stream(
        self,
        path: str,
        parameters: Json,
        headers: dict[str, str],
        *,
        silence: float | None,
        body: Json | None = None,
    ) -> Iterator[httpx2.Response]:
        """An answer whose parts come as they are made, so many seconds apart at most."""
        method = "GET" if body is None else "POST"
        posted = {} if body is None else {"Content-Type": "application/json"}
        with (
            self._reach(method, path),
            self._http.stream(
                method,
                self.url + path,
                params=_stated(parameters),
                content=None if body is None else json.dumps(body, allow_nan=False),
                headers=self._headers() | headers | posted,
                timeout=httpx2.Timeout(self._settings.request_timeout, read=silence),
            ) as answer,
        ):
            if answer.status_code >= 400:
                answer.read()
                raise _refusal(answer)
            yield answer

    def _request(
        self,
        method: str,
        path: str,
        *,
        parameters: Json,
        body: Json | str | None = None,
        patient: bool = False,
    ) -> httpx2.Response:
        limit = self._settings.request_timeout
        content = json.dumps(body, allow_nan=False) if isinstance(body, dict) else body
        kind = "application/jsonl" if isinstance(body, str) else "application/json"
        with self._reach(method, path):
            return self._http.request(
                method,
                self.url + path,
                params=_stated(parameters),
                content=content,
                headers=self._headers() | {"Content-Type": kind},
                timeout=httpx2.Timeout(limit, read=None if patient else limit),
            )

    def _headers(self) -> dict[str, str]:
        settings = self._settings
        token = settings.token
        if token is None and settings.token_file is not None:
            token = _read(settings.token_file)
        is_ours = settings.url is None or is_loopback(self.url)
        if token is None and is_ours:  # the account's own token stays on its machine
            token = embedded.token(settings.home)
        if token and not token.isascii():
            raise CommandError("the token holds characters that no token has", Exit.USAGE)
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


def _read(file: Path) -> str:
    """The token in a file that a context names."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"the token file {file} of the context cannot be read: {error}", Exit.USAGE
        ) from None


def _stated(parameters: Json) -> Json:
    return {name: value for name, value in parameters.items() if value is not None}


def _lines(chunks: Iterator[bytes], *, with_rest: bool) -> Iterator[str]:
    """Lines by their line feed alone: text inside JSON may hold other separators as they are.

    ``with_rest``: also what stands after the last line feed.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if rest and with_rest:
        yield rest.decode(errors="replace")


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
    if problem.get("excerpt"):
        return "\n  ".join([sentence, *str(problem["excerpt"]).split("\n")])
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
