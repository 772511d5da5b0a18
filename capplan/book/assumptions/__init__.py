"""The assumptions of each question: one small frozen model a question, every default with its unit, bounds and source."""
