"""Pure functions, one module a question: tables and assumptions in, an answer out."""
