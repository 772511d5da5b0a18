"""The only code that reads files: tables, assumptions, books, foreign formats."""
