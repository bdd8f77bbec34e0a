"""How fast 20,000 rows are tokenised, and how fast they are found when they were tokenised before.

Both ours and the library take the chat template and the tokenizer of SmolLM2 and as many processes;
ours also finds the targets. A cache hit is everything that a run has to do then: to read the rows,
to know them again and to read their tokens. A run on two devices does so in a job of its own before
it asks for them, which has to begin and to end.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.home import Home, until
from benchmarks.place import Place
from benchmarks.result import Figure, Result, p50, timed
from benchmarks.saving import DATA, MODEL
from engine.client import Reporter
from engine.prepare import preparation, rows, settings
from engine.prepare.preparation import Means, Recipe

ROWS = 20_000
LENGTH = 1024
ROUNDS = 5


def measure(place: Place) -> Result:
    """Ours and the library's in turns, then hits and misses of the cache."""
    settings.prepare_libraries()
    folder = place.folder / "preparing"
    folder.mkdir()
    path = _write_rows(folder / "rows.jsonl")
    recipe = Recipe(str(MODEL), LENGTH)
    found, mapped = rows.read(path), _library(path, recipe.tokenizer)
    theirs, ours = [], []
    for _ in range(ROUNDS):
        theirs.append(timed(mapped))
        ours.append(timed(lambda: preparation.tokens_of([found], recipe, _means(None))))
    preparation.tokens_of([found], recipe, _means(folder / "cache"))
    hits = [timed(lambda: _hit(path, folder / "cache")) for _ in range(ROUNDS)]
    reads = [timed(lambda: rows.read(path)) for _ in range(ROUNDS)]
    rate = ROWS / p50(ours)
    of_file, of_catalogue = _jobs(place.home, path)
    return Result(
        [
            Figure(f"{ROWS:,} rows tokenised", p50(ours), "s", p50(theirs), most_ratio=1 / 0.8),
            Figure("the same in a second", rate, "rows/s", ROWS / p50(theirs)),
            Figure("the same, found in the cache", p50(hits), "s", p50(reads)),
            Figure("what the cache adds to reading them", p50(hits) - p50(reads), "s", most=0.3),
            Figure("a preparation ahead that finds those of a file", p50(of_file), "s", p50(reads)),
            Figure("... of a data set of the catalogue", p50(of_catalogue), "s", most=0.3),
        ],
        "floor: datasets.map with the same template and tokenizer; of the cache, reading the rows",
    )


def _write_rows(path: Path) -> Path:
    """The demo's rows over and over, no two of them alike."""
    examples = _messages(DATA)
    with path.open("w") as file:
        for number in range(ROWS):
            made = [dict(each) for each in examples[number % len(examples)]]
            made[-2]["content"] += f" This is message {number}."
            file.write(json.dumps({"messages": made}) + "\n")
    return path


def _messages(path: Path) -> list[list[dict[str, str]]]:
    return [json.loads(line)["messages"] for line in path.read_text().splitlines()]


def _means(cache: Path | None) -> Means:
    """Nobody listens, nobody stops it."""
    return Means(Reporter(os.devnull), cache=cache, go_on=lambda: None)


def _hit(path: Path, cache: Path) -> None:
    preparation.tokens_of([rows.read(path)], Recipe(str(MODEL), LENGTH), _means(cache))


def _jobs(home: Home, path: Path) -> tuple[list[float], list[float]]:
    """How long preparations take that find their rows: in a file, and in the catalogue."""
    home.product.run("datasets", "create", str(path), "--name", "benchmarks")
    names = (str(path), "dataset:benchmarks")
    _job(home, names[0])  # which fills the cache
    of_file, of_catalogue = ([_job(home, name) for _ in range(ROUNDS)] for name in names)
    return of_file, of_catalogue


def _job(home: Home, dataset: str) -> float:
    """Seconds from the opening of a run's preparation to its end; the run goes no further."""
    run_id = home.submit(
        "trl",
        {"devices": 2},
        baseModel=str(MODEL),
        dataset=dataset,
        config={"sequencesPerUpdate": 2, "maxSeqLength": LENGTH},
    )
    until(lambda: home.record(run_id)["attempts"])
    home.request("POST", f"/v1/runs/{run_id}:cancel")
    (made,) = home.ended(run_id)["preparations"]
    return Home.seconds_between(made["openedAt"], made["closedAt"])


def _library(path: Path, tokenizer: Any) -> Callable[[], Any]:
    """The same rows as tokens, by the library."""
    import datasets  # noqa: PLC0415 - only this needs it, and it takes seconds

    datasets.disable_progress_bars()
    listed = datasets.Dataset.from_list([{"messages": each} for each in _messages(path)])

    def tokenize(batch: dict[str, Any]) -> dict[str, Any]:
        texts = tokenizer.apply_chat_template(batch["messages"], tokenize=False)
        return {"input_ids": tokenizer(texts, add_special_tokens=False)["input_ids"]}

    return lambda: listed.map(
        tokenize,
        batched=True,
        num_proc=len(os.sched_getaffinity(0)),
        remove_columns=["messages"],
        load_from_cache_file=False,
    )
