"""Why this plan: alternatives, what binds, what was rejected, in sentences."""
