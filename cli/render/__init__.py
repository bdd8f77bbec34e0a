"""Text for people: pure functions from the server's answers to lines."""
