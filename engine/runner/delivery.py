"""Delivery: hands lines, beats and the exit of a worker to the server, wherever it is now."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from engine.runner.job import Job, read_json

ANSWER_SECONDS = 10.0  # until a server that does not answer counts as away


class AwayError(Exception):
    """The server could not be reached, or it could not take anything just now."""


class RefusedError(Exception):
    """The server knows no such job or no such token."""


@dataclass(frozen=True)
class Answer:
    """What the server said to a delivery."""

    taken: int | None  # number of the last line that it has; None where it said nothing about it
    request: str | None = None  # "stop", "pause" or nothing (any more)
    closed: bool = False  # the job is over for the ledger
    is_gap: bool = False  # nothing was taken: lines before these are missing there


class Delivery:
    """A connection that is kept open between deliveries, and opened again where it broke."""

    def __init__(self, job: Job) -> None:
        self._server_file = job.server_file
        self._path = f"/v1/runs/{job.run}/{job.kind}s/{job.number}/reports"
        self._headers = {
            "Authorization": f"Bearer {job.token}",
            "Content-Type": "application/json",
        }
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: dict[str, Any]) -> Answer:
        """Hand ``body`` over.

        Raises:
            AwayError: try again later.
            RefusedError: trying again helps only if the server forgot something for a while.
        """
        content = json.dumps(body, ensure_ascii=False).encode()
        was_open = self._connection is not None
        try:
            status, said = self._exchange(content)
        except (OSError, http.client.HTTPException):
            self.close()
            if not was_open:
                raise AwayError from None
            return self.post(body)  # the server had closed an idle connection, or moved
        return _answer(status, said)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, content: bytes) -> tuple[int, bytes]:
        """Status and body of the server's answer."""
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("POST", self._path, content, self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        """A connection to the server as its file names it at this moment."""
        try:
            said = read_json(self._server_file)
        except ValueError:
            said = None
        if said is None:
            raise AwayError
        return http.client.HTTPConnection(urlsplit(said["url"]).netloc, timeout=ANSWER_SECONDS)


def _answer(status: int, content: bytes) -> Answer:
    """What an answer means for the next delivery."""
    if status == 410:
        return Answer(taken=None, closed=True)
    if status in (401, 403, 404):
        raise RefusedError
    try:
        if status == 200:
            said = json.loads(content)
            return Answer(said["taken"], request=said["request"], closed=said["closed"])
        if status == 409:
            return Answer(json.loads(content)["taken"], is_gap=True)
    except (ValueError, KeyError, TypeError):
        pass  # something else than our server listens there
    raise AwayError
