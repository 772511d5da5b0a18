"""Serving: how many accelerators serve this traffic within its latency target."""
