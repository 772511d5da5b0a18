"""The tables a book may have, each column with its meaning, unit and bounds."""
