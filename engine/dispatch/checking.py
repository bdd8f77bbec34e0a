"""Checking: what the preparation says of a file of rows, in a process of its own.

The process has no devices and a limited time. What it tokenises, it leaves in the cache of rows,
so that a run on the same rows finds them there.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import engine

LIMIT_SECONDS = 600.0


class CheckError(Exception):
    """There is no verdict, whatever the rows are."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Checker:
    """Checks one file at a time: each takes every core."""

    def __init__(
        self, cache: Path, datasets: Path, *, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        """``cache``: of rows that are tokenised already; ``datasets``: those of the catalogue."""
        self._cache = cache
        self._datasets = datasets
        self._limit_seconds = limit_seconds
        self._working = threading.Lock()

    def verdict(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The verdict on ``{"dataset", "baseModel", "maxSeqLength"}``.

        Raises:
            CheckError: the process failed or took too long, or others are checked before.
        """
        return self._answer("--check", question)

    def keep(self, file: str) -> dict[str, Any]:
        """Keep the rows of ``file``, and say what they are: identity, form, rows, sizeBytes.

        Raises:
            CheckError: as ``verdict`` says.
        """
        return self._answer("--keep", {"file": file, "folder": str(self._datasets)})

    def _answer(self, manner: str, question: Mapping[str, Any]) -> dict[str, Any]:
        if not self._working.acquire(timeout=self._limit_seconds):
            raise CheckError("other files are being checked", "try again later")
        try:
            said = self._said(manner, question)
        finally:
            self._working.release()
        try:
            verdict: dict[str, Any] = json.loads(said)
        except ValueError:
            raise CheckError(
                "the preparation failed before it had a verdict",
                "is the engine installed (pip install 'trainledger[engine]')? trainledger server "
                "logs says more",
            ) from None
        return verdict

    def _said(self, manner: str, question: Mapping[str, Any]) -> bytes:
        """What the process wrote to its output."""
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "engine.prepare", manner],
            cwd=Path(engine.__file__).parent.parent,  # where Python finds it
            env={
                **os.environ,  # noqa: TID251 - handed on, not read
                "TRAINLEDGER_CACHE": str(self._cache),
                "TRAINLEDGER_DATASETS": str(self._datasets),
                "CUDA_VISIBLE_DEVICES": "",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(json.dumps(question).encode(), self._limit_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with every process that it has started
            process.communicate()
            raise CheckError(
                f"the check took longer than {self._limit_seconds:g} seconds",
                "check a part of the rows, or start a run, which has no such limit",
            ) from None
        return said
