"""The devices that kernels run on: CPU threads, GPUs through CuPy, and oneDNN.

Input: arrays, and functions to call on a thread or stream. Output: arrays in the memory of a device, and futures of
finished work. `memory` counts what each device holds and enforces its limit; `transfer` copies values between devices.
This is the only folder that imports CuPy, and it does so lazily. It never runs a kernel itself and never plans.
"""
