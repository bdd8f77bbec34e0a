"""What happened to a run and who did it, and a receipt of it that fits on one page."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from api.service import Service
from api.wire import kind, to_camel_cached
from ledger import audit, codec
from ledger.events import (
    Job,
    Recorded,
    RunSubmitted,
    job_of,
    job_stream,
    run_stream,
)
from ledger.store.recorder import Stored

PLACES = {"originator_id", "originator_version", "timestamp", "reported_at", "principal"}
PAGE = 5_000
SNAPSHOT = ("snapshotId", "step", "status", "committedAt", "sizeBytes", "digests")

Answer = dict[str, Any]


def log(service: Service, run_id: str) -> Answer:
    """The life of a run, event by event: who, when, what, and where in the ledger."""
    told = _life(service, run_id)
    return {"runId": run_id, "position": told[-1].position, "events": list(map(_said, told))}


def receipt(service: Service, run_id: str) -> Answer:
    """What a run was, what it cost and who did what, with the digests that prove it."""
    record = service.record(run_id)
    told = _life(service, run_id)
    jobs = [
        *(Job(each["preparation"], "preparation") for each in record["preparations"]),
        *(Job(each["attempt"]) for each in record["attempts"]),
    ]
    heads = list(_heads(service, run_id, jobs))
    submitted = next(each.event for each in told if isinstance(each.event, RunSubmitted))
    return {
        **{name: record[name] for name in ("runId", "project", "name", "phase")},
        "submittedAt": record["submittedAt"],
        "endedAt": record["timing"]["endedAt"],
        "plan": {
            **{name: record[name] for name in ("method", "baseModel", "dataset")},
            "sha256": codec.plan_digest(submitted.plan),
        },
        "heads": [_head(each) for each in heads],
        "snapshots": [
            {name: each[name] for name in SNAPSHOT} for each in service.snapshots(run_id)[::-1]
        ],
        "model": record["results"]["model"],
        "bill": record["cost"],
        "principals": _principals(told, heads),
        "seal": _seal(service, max(each.position for each in heads)),
    }


def _life(service: Service, run_id: str) -> list[Recorded]:
    """Events of the run's own stream, of its submission and of those who held its snapshots."""
    streams = [run_stream(run_id), *audit.streams_beside(service.ledger, run_id)]
    stored = (each for stream in streams for each in _stream(service, stream))
    events = (Recorded(each.position, codec.decode(each.event())) for each in stored)
    return sorted(events, key=lambda each: each.position)


def _stream(service: Service, stream: str) -> Iterator[Stored]:
    after = 0
    while page := service.ledger.read_stream(stream, after, PAGE):
        yield from page
        after = page[-1].version


def _said(recorded: Recorded) -> Answer:
    position, event = recorded
    facts = event.model_dump(exclude=PLACES, exclude_none=True)
    return {
        "position": position,
        "stream": event.originator_id,
        "version": event.originator_version,
        "topic": event.TOPIC,
        "kind": kind(event),
        "at": event.at,
        "storedAt": event.timestamp,
        "principal": event.principal,
        "facts": {to_camel_cached(name): value for name, value in facts.items()},
    }


def _heads(service: Service, run_id: str, jobs: Iterable[Job]) -> Iterator[Stored]:
    """The newest event of every stream that tells of the run."""
    streams = [
        run_stream(run_id),
        *(job_stream(run_id, job) for job in jobs),
        *audit.streams_beside(service.ledger, run_id),
    ]
    for stream in streams:
        newest = service.ledger.newest(stream)
        if newest is not None:
            yield newest


def _head(newest: Stored) -> Answer:
    return {
        "stream": newest.stream,
        "version": newest.version,
        "position": newest.position,
        "digest": codec.digest(newest.event()).hex(),
    }


def _principals(told: Sequence[Recorded], heads: Sequence[Stored]) -> list[Answer]:
    """Who caused what, in the order in which they first did; what jobs said is counted."""
    did: dict[str, dict[str, int]] = {}
    for _, event in told:
        counts = did.setdefault(event.principal, {})
        counts[kind(event)] = counts.get(kind(event), 0) + 1
    for head in heads:
        job = job_of(head.stream)
        if job is not None:
            did.setdefault(job.principal, {})["reports"] = head.version
    return [{"principal": name, "did": counts} for name, counts in did.items()]


def _seal(service: Service, position: int) -> Answer | None:
    """The first seal that covers everything up to a position; None while there is none."""
    for seal in audit.seals(service.ledger):
        event = seal.event
        if event.upto >= position:
            return {
                "version": event.originator_version,
                "position": seal.position,
                "at": event.timestamp,
                **{name: getattr(event, name) for name in ("upto", "events", "digest")},
                "signature": event.signature,
                "publicKey": event.public_key,
            }
    return None
