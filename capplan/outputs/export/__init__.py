"""Tables, charts and quotas as files for other systems."""
