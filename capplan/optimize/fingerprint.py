"""Fingerprints of arrays, by which a program knows whether what an earlier one left still fits."""

from __future__ import annotations

import hashlib

import numpy as np
from scipy import sparse

Array = np.ndarray


def digest(*parts: str | Array | sparse.csr_matrix) -> str:
    """Return a fingerprint of arrays, sparse matrices and texts."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, str):
            state.update(part.encode())
        elif isinstance(part, np.ndarray):
            _feed(state, part)
        else:
            for array in (part.indptr, part.indices, part.data):
                _feed(state, array)
    return state.hexdigest()


def _feed(state: hashlib.blake2b, array: Array) -> None:
    """Add type, shape and content of an array to a fingerprint."""
    state.update(f"{array.dtype}{array.shape}".encode())
    state.update(np.ascontiguousarray(array).tobytes())
