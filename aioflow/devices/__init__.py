"""The devices that run kernels: CPU and GPU, with their threads, streams and memory, and oneDNN.

Input: kernels as functions, and values to copy or swap. Output: arrays in the device's memory, and waits that hold no
thread. Only this folder imports CuPy and loads oneDNN, when a device or kernel first needs it. It never sees a graph's
plan, a session or the network.
"""
