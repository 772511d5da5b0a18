"""Fingerprints of arrays, by which a program knows whether what an earlier one left still fits."""

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
            # other calculations may sort the entries of a matrix in place
            ordered = part if part.has_sorted_indices else part.sorted_indices()
            for array in (ordered.indptr, ordered.indices, ordered.data):
                _feed(state, array)
    return state.hexdigest()


def _feed(state: hashlib.blake2b, array: Array) -> None:
    """Add type, shape and content of an array to a fingerprint."""
    state.update(f"{array.dtype}{array.shape}".encode())
    # without a copy: there may be gigabytes
    state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
