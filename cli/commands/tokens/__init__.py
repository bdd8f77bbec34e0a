"""Commands of ``trainledger tokens``."""
