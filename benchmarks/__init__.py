"""Comparisons with other harnesses, and the figures that comments cite."""
