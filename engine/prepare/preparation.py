"""Preparation: the rows of a plan as tokens, from the cache where they were tokenised before.

A worker that holds its devices calls ``prepare``; a process without devices does the same work,
with the same refusals, ahead of it (``ahead.py``). A library is loaded where rows have to be
tokenised, or their tokens are wanted.
"""

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.client import Reporter
from engine.errors import RefusalError
from engine.prepare import base_model, cache, keeping, prepared, rows
from engine.prepare.base_model import Revision
from engine.prepare.faults import Fault
from engine.prepare.fit import Fit
from engine.prepare.rows import ChatRows, PreparedRows

if TYPE_CHECKING:
    from engine.prepare.tokenizing import Tokenizing
    from engine.prepare.tokens import TokenRows
    from ledger.plan import Plan

PARTS = 20  # progress lines of one tokenising

File = ChatRows | PreparedRows


@dataclass(frozen=True)
class Means:
    """What a preparation works with."""

    reporter: Reporter
    cache: Path | None  # None: nothing is kept
    go_on: Callable[[], None]  # raises where the work is to stop


@dataclass(frozen=True)
class Recipe:
    """What decides the tokens beside the rows."""

    base_model: str
    max_seq_length: int

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the base model, loaded once where it is needed.

        Raises:
            RefusalError: it does not load.
        """
        return base_model.load_tokenizer(self.base_model)


class Wanted(NamedTuple):
    """What a plan says of its rows."""

    dataset: str
    validation_dataset: str | None  # to measure on
    fraction: float | None  # of the data set, kept apart to measure on
    seed: int  # chooses which
    recipe: Recipe

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> "Wanted":
        """As a resolved plan has it."""
        validation, settings = plan["validation"] or {}, plan["config"]
        dataset = validation.get("dataset")
        return cls(
            dataset=plan["dataset"],
            validation_dataset=dataset,
            fraction=(validation.get("fraction") or 0.1) if validation and not dataset else None,
            seed=settings["seed"],
            recipe=Recipe(plan["baseModel"], settings["maxSeqLength"]),
        )

    @property
    def datasets(self) -> list[str]:
        """Those to be read: one or two."""
        return [each for each in (self.dataset, self.validation_dataset) if each is not None]


@dataclass(frozen=True)
class Prepared:
    """What is trained on, and what is kept apart to measure on."""

    training: "TokenRows"
    validation: "TokenRows | None"
    fit: Fit  # of the rows to train on, before any was dropped
    recipe: Recipe


def prepare(plan: "Plan", means: Means) -> Prepared:
    """The rows of the plan as tokens.

    Raises:
        RefusalError: a file, a row of it, or the base model is at fault.
        StoppedError: ``means.go_on`` said so.
    """
    wanted = Wanted.of(plan.model_dump(mode="json", by_alias=True))
    return tokenized(read(wanted, means), wanted, means)


def read(wanted: Wanted, means: Means) -> list[File]:
    """The data set of the plan, and the file of its validation where it has one."""
    means.reporter.stage("reading rows")
    files = [keeping.read(name) for name in wanted.datasets]
    counts, identities = [len(each) for each in files], [each.identity() for each in files]
    tell_rows(counts, identities, wanted, means)
    return files


def tell_rows(
    counts: Sequence[int], identities: Sequence[str | None], wanted: Wanted, means: Means
) -> None:
    """Report how many rows there are of which data set.

    Raises:
        RefusalError: none is left to train on.
    """
    _, apart = division(wanted, counts[0])
    validation_rows = counts[1] if len(counts) > 1 else len(apart)
    means.reporter.dataset(
        counts[0],
        validation_rows=validation_rows or None,
        identity=identities[0],
        validation_identity=identities[1] if len(identities) > 1 else None,
    )
    means.go_on()


def tokenized(files: Sequence[File], wanted: Wanted, means: Means) -> Prepared:
    """The files divided as the plan says, without what teaches nothing; reports how they fit."""
    tokens = tokens_of(files, wanted.recipe, means)
    training, apart = division(wanted, len(files[0]))
    if apart:
        tokens = [tokens[0].take(training), tokens[0].take(apart)]
    fits = [each.fit(wanted.recipe.max_seq_length) for each in tokens]
    tell_fit(fits, [files[0].form, files[-1].form], wanted, means)
    kept = [each.kept() for each in tokens]
    return Prepared(kept[0], kept[1] if len(kept) > 1 else None, fits[0], wanted.recipe)


def tell_fit(fits: Sequence[Fit], forms: Sequence[str], wanted: Wanted, means: Means) -> None:
    """Report how the rows to train on fit; each fit is that of rows of such a form.

    Raises:
        RefusalError: none is left to train on, or to measure on.
    """
    names = (wanted.datasets[0], wanted.datasets[-1])
    purposes = ("train on", "measure the validation loss on")
    for name, form, fit, purpose in zip(names, forms, fits, purposes, strict=False):
        refuse_empty(name, form, fit, wanted.recipe.max_seq_length, to=purpose)
    means.reporter.data_fit(
        rows=fits[0].rows,
        reached=fits[0].reached,
        lost_end=fits[0].lost_end,
        dropped=fits[0].dropped,
    )


def refuse_empty(file: str, form: str, fit: Fit, length: int, *, to: str) -> None:
    """Refuse rows of which none has a target left.

    Raises:
        RefusalError: so it is.
    """
    if fit.dropped < fit.rows:
        return
    why = (
        f"the answer begins after the first {length} tokens"
        if form == ChatRows.form
        else f"no label is a target within the first {length} tokens"
    )
    raise RefusalError(
        f"nothing left to {to}: in {fit.dropped} of {fit.rows} rows of {file} {why} (the "
        f"longest row has {fit.longest}); raise config.maxSeqLength or shorten the prompts"
    )


def tokens_of(files: Sequence[File], recipe: Recipe, means: Means) -> "list[TokenRows]":
    """Every row of every file as tokens, the dropped ones too.

    Raises:
        RefusalError: a row, or the base model, is at fault.
    """
    keys = _keys(files, recipe, means)
    found = [None if key is None else cache.get(_folder(means), key) for key in keys]
    missing = [place for place, each in enumerate(found) if each is None]
    if missing:
        made = _made([files[place] for place in missing], recipe, means)
        _keep({keys[place]: each for place, each in zip(missing, made, strict=True)}, means)
        for place, each in zip(missing, made, strict=True):
            found[place] = each
    return [each for each in found if each is not None]


def division(wanted: Wanted, count: int) -> tuple[list[int], list[int]]:
    """Places in a data set of ``count`` rows to train on, and to measure on where it is divided.

    Raises:
        RefusalError: none is left to train on.
    """
    if wanted.fraction is None:
        return list(range(count)), []
    return rows.divide(wanted.dataset, count, wanted.fraction, seed=wanted.seed)


# -- the cache


def _keys(files: Sequence[File], recipe: Recipe, means: Means) -> list[str | None]:
    """Under which key each file's tokens are kept; None: nowhere."""
    revision = base_model.revision(recipe.base_model) if means.cache is not None else None
    return [_key(file, revision, recipe.max_seq_length) for file in files]


def _key(file: File, revision: Revision | None, max_seq_length: int) -> str | None:
    if revision is None or isinstance(file, PreparedRows):
        return None
    return cache.key(file.identity(), revision, max_seq_length=max_seq_length)


def _folder(means: Means) -> Path:
    assert means.cache is not None  # else there are no keys
    return means.cache


def _keep(made: "dict[str | None, TokenRows]", means: Means) -> None:
    """Cache what has a key. A disk that does not take it costs the next run its time, not this."""
    kept = {key: each for key, each in made.items() if key is not None}
    if kept:
        means.reporter.stage("caching the tokenised rows")
    for key, each in kept.items():
        try:
            cache.put(_folder(means), key, each)
        except OSError as error:
            traceback.print_exception(error, file=sys.stderr)


# -- the work


def _made(files: Sequence[File], recipe: Recipe, means: Means) -> "list[TokenRows]":
    from engine.prepare.tokenizing import Tokenizing  # noqa: PLC0415 - not where rows are there

    means.reporter.stage("loading the tokenizer")
    step = Tokenizing(recipe.tokenizer, recipe.max_seq_length)
    means.go_on()
    total = sum(len(file) for file in files if isinstance(file, ChatRows))
    done = _counter(total, means)
    return [
        _tokenized(file, step, done) if isinstance(file, ChatRows) else _checked(file, recipe)
        for file in files
    ]


def _counter(total: int, means: Means) -> Callable[[int], None]:
    """Counts rows that are done, with a progress line for each twentieth part of them."""
    done = said = 0

    def count(more: int) -> None:
        nonlocal done, said
        means.go_on()
        done += more
        if not more or done == total or done - said >= total / PARTS:
            said = done
            means.reporter.stage("tokenizing", completed=done, total=total)

    if total:
        count(0)
    return count


def _tokenized(file: ChatRows, step: "Tokenizing", done: Callable[[int], None]) -> "TokenRows":
    """The rows of a file of chats as tokens."""
    from engine.prepare import tokenizing  # noqa: PLC0415 - as above
    from engine.prepare.tokens import TokenRows  # noqa: PLC0415 - as above

    batches: list[Any] = []
    faults: dict[int, Fault] = {}
    number = 1
    for chunk in tokenizing.tokenize(
        file.rows, step, processes=tokenizing.processes_for(file.rows)
    ):
        faults |= {number + place: fault for place, fault in chunk.faults.items()}
        number += chunk.batch.num_rows
        batches.append(chunk.batch)
        done(chunk.batch.num_rows)
    if faults:
        raise file.refusal(faults)
    return TokenRows.joined(batches)


def _checked(file: PreparedRows, recipe: Recipe) -> "TokenRows":
    """The rows of a file of tokens, which must be the base model's."""
    from engine.prepare.tokens import TokenRows, cut  # noqa: PLC0415 - as above

    known = base_model.vocabulary(recipe.base_model, recipe.tokenizer)
    found: dict[int, Fault | None] = {
        number: prepared.mismatch(row, known) for number, row in enumerate(file.rows, 1)
    }
    faults = {number: fault for number, fault in found.items() if fault is not None}
    if faults:
        raise file.refusal(faults)
    return TokenRows.of(
        [cut(row.input_ids, row.labels, recipe.max_seq_length) for row in file.rows]
    )
