"""Channels that carry frames between tasks, by websockets, on one host in shared memory; credentials; monitors.

Input: frames of bytes and an address. Output: frames in order, or an error that says why the channel ended. A channel
holds back a sender whose peer reads slowly. `monitor` tells a blocked process from a dead one. This folder never reads
the content of a frame.
"""
