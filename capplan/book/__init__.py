"""What a plan is made from: the reader of a book's tables, their rules, its changes, and every assumption."""
