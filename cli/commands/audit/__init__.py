"""Commands of ``trainledger audit``."""
