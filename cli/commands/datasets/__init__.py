"""Commands of ``trainledger datasets``."""
