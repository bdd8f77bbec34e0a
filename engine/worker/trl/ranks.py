"""Ranks: the processes that train one model together, each on its share of every update.

Rank 0 decides, writes and reports; what it decides is told to the others, and what they alone know
is told to it. Every call here is made by all ranks, in the same order, and returns when all have
made it. A worker of one process is rank 0 of 1: it tells nobody, and needs no library for that.

Whoever waits for another for too long fails. What rank 0 does alone while the others wait, such as
saving, may take longer: they wait for it patiently.
"""

from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from engine.worker.trl.requests import Request, Requests
from engine.worker.trl.settings import ALONE, Place

T = TypeVar("T")

# Told by all, the strongest counts: a signal may reach one rank alone.
_REQUESTS: tuple[Request | None, ...] = (None, "pause", "end", "stop")

_PATIENCE = 12  # times as long as for each other do the others wait for what rank 0 does alone


def backend() -> str:
    """What carries messages between the ranks: NCCL between GPUs, gloo between CPUs."""
    return "nccl" if torch.cuda.is_available() else "gloo"


class Ranks:
    """This process among the others, once all of them have met."""

    def __init__(self, place: Place = ALONE) -> None:
        """Meet the others.

        Raises:
            RuntimeError: they are not as many as they should be.
        """
        self.rank, self.count, self.leads = place.rank, place.count, place.leads
        self.patience_seconds = place.patience_seconds
        self._patient: dist.ProcessGroup | None = None
        if place.count == 1:
            return
        if torch.cuda.is_available():
            torch.cuda.set_device(place.rank)
        dist.init_process_group(
            "cuda:nccl,cpu:gloo" if torch.cuda.is_available() else "gloo",
            init_method=f"file://{place.rendezvous}",
            rank=place.rank,
            world_size=place.count,
            timeout=timedelta(seconds=place.patience_seconds),
        )
        self._patient = dist.new_group(
            backend="gloo", timeout=timedelta(seconds=_PATIENCE * place.patience_seconds)
        )
        if dist.get_world_size() != place.count:
            raise RuntimeError(f"{place.count} ranks should train, {dist.get_world_size()} met")

    @property
    def are_several(self) -> bool:
        """Whether there are others."""
        return self.count > 1

    def agreed(self, requests: Requests) -> Requests:
        """What is asked of all of them, which every rank hears at the same call."""

        def ask() -> Request | None:
            return _REQUESTS[max(self.numbers(_REQUESTS.index(requests())))]

        return ask if self.are_several else requests

    def share(self, value: T) -> T:
        """What rank 0 has as ``value``; it may have worked alone for it."""
        if not self.are_several:
            return value
        told: list[Any] = [value if self.leads else None]
        dist.broadcast_object_list(told, src=0, device=torch.device("cpu"), group=self._patient)
        shared: T = told[0]
        return shared

    def gather(self, value: T) -> list[T]:
        """What each rank has as ``value``, in their order; on other ranks than 0 nothing."""
        if not self.are_several:
            return [value]
        found: list[Any] | None = [None] * self.count if self.leads else None
        dist.gather_object(value, found, dst=0)
        return found or []

    def numbers(self, value: int) -> list[int]:
        """The count that each rank has as ``value``, in their order, on all ranks."""
        if not self.are_several:
            return [value]
        found = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        dist.all_gather(found, torch.tensor([value], dtype=torch.int64))
        return [int(each) for each in found]

    def meet(self) -> None:
        """Wait until all are here; rank 0 may come from what it did alone."""
        self.share(None)
        self.numbers(0)

    def part(self) -> None:
        """Train together no more; whoever is done waits here for the others."""
        if self.are_several:
            self.meet()
            dist.destroy_process_group()
