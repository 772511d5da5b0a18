"""The plan as one page."""
