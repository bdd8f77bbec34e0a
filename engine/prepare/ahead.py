"""Ahead: what a process without devices does, so that the worker finds every row in the cache.

A run whose rows are there already is to pass at once. So this asks the cache before it reads
anything that it need not read, and a library is loaded only where rows have to be tokenised.
"""

from collections.abc import Sequence

from engine.prepare import base_model, cache, keeping, preparation
from engine.prepare.fit import Facts
from engine.prepare.preparation import File, Means, Wanted
from engine.prepare.rows import ChatRows


def prepare_ahead(wanted: Wanted, means: Means) -> None:
    """Check the rows of a plan, and put their tokens where the worker will find them.

    What cannot be kept is checked as far as that takes no tokenizer, and left to the worker, which
    would have to do it again.

    Raises:
        RefusalError: a file, a row of it, or the base model is at fault.
        StoppedError: ``means.go_on`` said so.
    """
    identities = [keeping.identity_of(name) for name in wanted.datasets]
    known = _known(identities, wanted, means)
    if known is not None:
        means.reporter.stage("reading rows")
        preparation.tell_rows([len(each) for each in known], identities, wanted, means)
    else:
        files = preparation.read(wanted, means)
        known = _known([_identity(each) for each in files], wanted, means)
        if known is None:
            _make(files, wanted, means)
            return
    _tell_fit(known, wanted, means)


def _known(identities: Sequence[str | None], wanted: Wanted, means: Means) -> list[Facts] | None:
    """What the cache knows of each row of these data sets; None if it has not all of them."""
    base = base_model.revision(wanted.recipe.base_model)
    if means.cache is None or base is None:
        return None
    found = []
    for identity in identities:
        if identity is None:
            return None
        key = cache.key(identity, base, max_seq_length=wanted.recipe.max_seq_length)
        found.append(cache.facts(means.cache, key))
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def _identity(file: File) -> str | None:
    """Of rows that can be in the cache."""
    return file.identity() if isinstance(file, ChatRows) else None


def _tell_fit(known: Sequence[Facts], wanted: Wanted, means: Means) -> None:
    """Report how the rows fit.

    Raises:
        RefusalError: none is left.
    """
    training, apart = preparation.division(wanted, len(known[0]))
    length = wanted.recipe.max_seq_length
    fits = [known[0].fit(length, training)]
    if apart:
        fits.append(known[0].fit(length, apart))
    fits += [each.fit(length) for each in known[1:]]
    preparation.tell_fit(fits, [ChatRows.form] * len(fits), wanted, means)


def _make(files: Sequence[File], wanted: Wanted, means: Means) -> None:
    can_be_kept = (
        means.cache is not None and base_model.revision(wanted.recipe.base_model) is not None
    )
    if can_be_kept or not any(isinstance(each, ChatRows) for each in files):
        preparation.tokenized(files, wanted, means)
