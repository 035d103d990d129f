"""Imports flow one way, and nothing heavy stands on the way to --help."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "cudabench"

# Each may import those in the rows above it, and its own row's where it is a package's inside.
LAYERS = [
    {"__init__", "errors"},
    {"stats", "units"},
    {"records"},
    {"budget", "consensus", "ranges", "stopping", "trace"},
    {"device"},
    {"kernels", "pairs", "profiling", "report", "store"},
    {"placement", "timing"},
    {"estimate"},
    {"handover", "opinions"},
    {"profile", "runner"},
    {"api", "cli"},
    {"__main__"},
]
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The package's modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "cudabench":
                found |= {a.name for a in node.names if a.name in LEVEL}
            elif node.module.startswith("cudabench."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names]
            found |= {name[1] for name in names if name[0] == "cudabench" and len(name) > 1}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_imports_flow_one_way(path: Path) -> None:
    own = layer(path)
    if path == PACKAGE / "__init__.py":
        return  # it only hands on what others ask it for
    assert {m for m in imported(path) if m != own and LEVEL[m] >= LEVEL[own]} == set()


# What else may be imported, and where.
HOMES = {
    "rich": {"report", "cli"},
    "typer": {"cli"},
    "pandas": {"profiling", "report", "store", "trace"},
}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_libraries_are_imported_in_their_place(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            assert layer(path) in HOMES.get(name.split(".")[0], {layer(path)})


def modules_after(*arguments: str) -> str:
    code = (
        "import sys; sys.argv = ['cudabench', *sys.argv[1:]]\n"
        "from cudabench.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('loaded:', [m for m in ('torch', 'pandas', 'numpy') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()[-1]


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("run", "--n", "0")])
def test_nothing_heavy_is_loaded_for(arguments: tuple[str, ...]) -> None:
    assert modules_after(*arguments) == "loaded: []"
