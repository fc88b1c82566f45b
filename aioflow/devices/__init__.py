"""The devices that kernels run on: CPUs, GPUs, and simulated GPUs.

Input: kernels, arrays, and the `Config` of a session. Output: results on a device, futures of copies and of GPU work,
and accounts of memory. `device` makes the devices of a session, `cpu` runs kernels inline or on compute threads, `gpu`
enqueues them on streams, `moving` copies values between devices, `onednn` loads the library of fast CPU kernels. Only
this folder imports CuPy. It knows no plan or session.
"""
