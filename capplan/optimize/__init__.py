"""Machinery the questions share; nothing of the subject in it."""
