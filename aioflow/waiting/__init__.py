"""Objects that steps wait for: the parts of queues, mutexes, barriers, staging areas, accumulators and batches.

Input: puts and takes by steps, on any event loop or thread of the process. Output: futures that complete in order.
`lines` holds the waiters: a waiter holds no thread, and cancelling it changes nothing. A change happens in one moment
under a lock, never across an `await`. `handover` keeps what a step took until its caller has the values. This folder
never runs kernels, and it knows no session or network.
"""
