"""Charts, views, widgets, notebooks and files."""
