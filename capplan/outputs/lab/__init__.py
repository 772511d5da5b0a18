"""Sliders around a view."""
