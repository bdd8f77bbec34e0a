"""How fast rows are tokenised, against ``datasets.map`` that tokenises the same rows.

Both take the chat template and the tokenizer of SmolLM2 and as many processes; ours also finds the
targets. ``make demo`` makes the model. Rounds take turns; the ratio is that of the medians, above 1
where ours is faster. ``python benchmarks/preparing.py``
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from engine.prepare import settings  # noqa: E402

settings.prepare_libraries()

import datasets  # noqa: E402

from engine.client import Reporter  # noqa: E402
from engine.prepare import preparation, rows  # noqa: E402
from engine.prepare.preparation import Means, Recipe  # noqa: E402

MODEL = ROOT / ".cache" / "models" / "smollm2-135m-instruct"
DATA = ROOT / "examples" / "triage" / "train.jsonl"


def main() -> None:
    """Print each round, then the medians."""
    options = parse_options()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        path = write_rows(folder / "rows.jsonl", options.rows)
        recipe = Recipe(str(MODEL), 1024)
        tokenizer = recipe.tokenizer
        found = rows.read(path)
        listed = datasets.Dataset.from_list([{"messages": each} for each in messages(path)])
        theirs, ours = [], []
        for number in range(1, options.rounds + 1):
            theirs.append(timed(lambda: mapped(listed, tokenizer)))
            ours.append(timed(lambda: preparation.tokens_of([found], recipe, means(None))))
            print(f"round {number}: datasets.map {theirs[-1]:.2f} s, ours {ours[-1]:.2f} s")
        preparation.tokens_of([found], recipe, means(folder / "cache"))
        hits = [
            timed(lambda: preparation.tokens_of([found], recipe, means(folder / "cache")))
            for _ in range(options.rounds)
        ]
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"speed, of that of datasets.map          {ratio:.2f}")
    print(f"a cache hit of {options.rows} rows takes     {statistics.median(hits):.2f} s")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000)
    return parser.parse_args()


def write_rows(path: Path, count: int) -> Path:
    """The demo's rows over and over, no two of them alike."""
    examples = messages(DATA)
    with path.open("w") as file:
        for number in range(count):
            made = [dict(each) for each in examples[number % len(examples)]]
            made[-2]["content"] += f" This is message {number}."
            file.write(json.dumps({"messages": made}) + "\n")
    return path


def messages(path: Path) -> list[list[dict[str, str]]]:
    """The chats of a file."""
    return [json.loads(line)["messages"] for line in path.read_text().splitlines()]


def means(cache: Path | None) -> Means:
    """Nobody listens, nobody stops it."""
    return Means(Reporter(os.devnull), cache=cache, go_on=lambda: None)


def mapped(listed: Any, tokenizer: Any) -> None:
    """The same rows as tokens, by the library."""

    def tokenize(batch: dict[str, Any]) -> dict[str, Any]:
        texts = tokenizer.apply_chat_template(batch["messages"], tokenize=False)
        return {"input_ids": tokenizer(texts, add_special_tokens=False)["input_ids"]}

    listed.map(
        tokenize,
        batched=True,
        num_proc=len(os.sched_getaffinity(0)),
        remove_columns=["messages"],
        load_from_cache_file=False,
    )


def timed(work: Callable[[], Any]) -> float:
    """Seconds that ``work`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    datasets.disable_progress_bars()
    main()
