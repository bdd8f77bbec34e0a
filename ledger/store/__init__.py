"""Where events are kept: one contract, several databases."""
