"""The decision judged on demand it has not seen."""
