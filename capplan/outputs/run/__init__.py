"""Headless runs: reports, notebooks, folders that appear whole or not at all."""
