"""Where scripts found the reading of foreign files before it had a folder of its own; the same names lead there."""
