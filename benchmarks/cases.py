"""The operators and sizes of benchmarks/accuracy.py and of its peers."""

from benchmarks.triton_add import TRITON_ADD
from cudabench.kernels import ADD2, ADD_OUT

EXPONENTS = (10, 14, 17, 19, 20, 21, 22, 24, 26, 28)
OPERATORS = (ADD2, TRITON_ADD, ADD_OUT)
