"""The server: HTTP over the ledger and its projections, composed in one process."""
