"""A digest of what decides a run's numbers: equal settings and data, equal digest."""

from collections.abc import Mapping
from typing import Any

from ledger import codec

DECIDING = ("method", "baseModel", "dataset", "validation", "config")


def config_sha256(plan: Mapping[str, Any]) -> str:
    """SHA-256 of a resolved plan's method, base model, rows and configuration.

    Ids, labels and how the run is carried out play no part, nor does the order of fields. A field
    without a value counts as absent, so that plans from before there was such a field say the same.
    """
    return codec.plan_digest({name: _said(plan.get(name)) for name in DECIDING})


def _said(value: Any) -> Any:
    """``value`` without the fields that say nothing."""
    if isinstance(value, Mapping):
        return {name: _said(each) for name, each in value.items() if each is not None}
    return value
