"""What a person sees of an answer: one view a question."""
