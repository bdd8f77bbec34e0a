"""``trainledger runs …``: start, follow, read and cancel runs."""
