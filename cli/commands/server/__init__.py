"""``trainledger server …``: the server of this account's own home."""
