"""Records to what a person reads: tables, words, messages."""
