"""Metric series of every run in a DuckDB file that one process owns."""

from projections.warehouse.store import Warehouse

__all__ = ["Warehouse"]
