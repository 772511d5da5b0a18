"""What must be served: classes, regions, points in time, and on what it may run."""
