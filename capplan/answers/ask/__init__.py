"""Questions in plain words: read into typed what-ifs by a grammar over the book's own names, asked back where they are not understood."""
