"""``trainledger snapshots …``: what runs saved, and how long it is kept."""
