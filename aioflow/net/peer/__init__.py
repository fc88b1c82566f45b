"""A connected task: handshake, requests and answers, reconnecting, and errors that say how it was lost."""
