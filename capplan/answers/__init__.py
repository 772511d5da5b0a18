"""What a question gets from a book, and what is remembered of it."""
