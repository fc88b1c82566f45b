"""Gradients: operations that compute the derivatives of tensors with respect to other tensors.

Input: tensors ys and xs of one graph. Output: one gradient tensor for each x, made of ordinary operations [P15
section 4.1]. Each op declares its own gradient: `rules` finds it, `backward` walks from ys to xs, and `aggregate`
adds several gradients of one tensor. This folder builds operations. It never computes a value.
"""
