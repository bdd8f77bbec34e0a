"""Read models: folds over the ledger that can be thrown away and rebuilt."""
