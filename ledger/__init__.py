"""The append-only ledger: events, the rules that guard them, their storage and its audit.

This package imports nothing here, so that a worker may use ``ledger.plan`` and ``ledger.reports``
without paying for the rest.
"""
