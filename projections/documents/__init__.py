"""One folded document per run, in the event database: run detail, lists and timing."""

from projections.documents.store import Documents

__all__ = ["Documents"]
