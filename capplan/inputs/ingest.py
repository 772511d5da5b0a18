"""The reading of foreign files, by the name that scripts used before: see `capplan.ingest`."""

from capplan.ingest import FORMATS, Ingested, ingest, options_of

__all__ = ["FORMATS", "Ingested", "ingest", "options_of"]
