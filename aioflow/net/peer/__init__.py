"""A connected task: handshake, requests and answers, reconnecting, and the loss of a peer.

Input: messages to send, and frames of a channel. Output: answers, calls of the task's handlers, or one error that says
how the peer was lost. `handshake` agrees on identity and limits, `asking` numbers the requests, `link` resends frames
after a reconnect, `serving` answers. This folder knows no verb of a step.
"""
