"""The rules of the house: which way imports run, how large rooms get, that the docs name what exists."""

import ast
import graphlib
import importlib
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "cavity"
THEORY = ROOT / "docs" / "theory.md"

# Rooms from the ground up: a module imports from its own room and from rooms before it.
ORDER = [
    "types",
    "numerics",
    "model",
    "ep",
    "result",
    "distributed",
    "datasets",
    "tables",
    "plots",
    "progress",
    "estimators",
    "report",
    "cli",
    "__init__",
    "__main__",
]

MAX_LINES = 400

# Every numbered equation that the paper's source labels.
EQUATIONS = """
    eq_fx_mlp eq_gx eq_prw eq_pruw eq_prv eq_prth eq_MLP_post eq_fx_vec eq_tiltedz_gen eq_tz eq_ttheta
    eq_tvk eq_twk eq_qep eq_qep_z eq_qep_theta eq_tz_fact eq_qep_fact eq_qep_w eq_qep_v eq_EP_cavity
    eq_EP_tilted eq_EP_moment_matching eq_cavity_pw eq_tilted_pw eq_mm_pw eq_qphi_tilted eq_qwj_tilted
    eq_cavity_w eq_cavity_v eq_tilted_v eq_qf_fact eq_qf_cond eq_qh_tilted eq_qtheta_tilted
    eq_mq_tilted_v2 eq_Sq_tilted_v2 eq_qh_tilted_2d eq_qh_tilted2 eq_sites_tauv eq_sites_nuv
    eq_siteupdate_tauv eq_siteupdate_nuv eq_sites_w eq_pred eq_marg_likelih
""".split()

# Character classes keep this file from matching itself.
ADDRESS = re.compile(
    r"python[h]osted|py[p]i\.[o]rg|test\.py[p]i|registry\.np[m]|deb\.deb[i]an|index[-_]ur[l]"
)
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root|home|Users|opt|tmp|mnt)/\w|[A-Z]:\\Users|fil[e]://")


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room(module):
    return module.split(".")[1] if "." in module else "__init__"


def imports(module):
    """Every module that one module imports, wherever in the file the import stands."""
    path = MODULES[module]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                base = ".".join(parts[: len(parts) - node.level + 1] + ([base] if base else []))
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found.update(inner & MODULES.keys() or {base})
    return found


def own_imports(module):
    return {name for name in imports(module) if name.split(".")[0] == "cavity"}


def text_files():
    """Files git knows, or would after ``git add``, that read as text."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout, so there is no list of tracked files")
    for name in filter(None, listing.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            yield name, content.decode("utf-8")


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_one_way(module):
    assert room(module) in ORDER, f"{module} is in a room that ORDER does not place"
    upward = {name for name in own_imports(module) if ORDER.index(room(name)) > ORDER.index(room(module))}
    assert not upward, f"{module} imports {sorted(upward)}, which stand above it"


def test_imports_have_no_cycle():
    graph = {module: own_imports(module) - {module} for module in MODULES}
    tuple(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("package", "rooms"),
    [
        ("sklearn", ["types", "numerics", "ep"]),
        ("matplotlib", ["types", "numerics", "ep"]),
        ("pandas", ["types", "numerics", "ep"]),
        ("numba", [name for name in ORDER if name != "numerics"]),
        ("llvmlite", [name for name in ORDER if name != "numerics"]),
    ],
)
def test_rooms_stay_free_of(package, rooms):
    guilty = [
        module
        for module in MODULES
        if room(module) in rooms and any(name.split(".")[0] == package for name in imports(module))
    ]
    assert not guilty, f"{package} does not belong in {guilty}"


@pytest.mark.parametrize("module", MODULES)
def test_rooms_are_small(module):
    lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{module} has {lines} lines: split it"


def test_no_index_addresses_or_machine_paths():
    guilty = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, content in text_files()
        for number, line in enumerate(content.splitlines(), start=1)
        if ADDRESS.search(line) or MACHINE_PATH.search(line)
    ]
    assert not guilty, "\n".join(guilty)


def exists(dotted):
    """Whether a dotted name is a module, or an attribute reached from one."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not error.name or not dotted.startswith(error.name):
                raise  # the module is there, but something that it needs is not
            continue
        for name in parts[cut:]:
            if name in getattr(found, "__annotations__", {}):
                return True  # a field without a default
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def names_in(path):
    return sorted(set(re.findall(r"`(cavity(?:\.\w+)+)(?:\(\))?`", path.read_text(encoding="utf-8"))))


def documents():
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_exists_can_say_no():
    assert exists("cavity.types.Gaussian.mean")
    assert not exists("cavity.types.Gaussian.median")
    assert not exists("cavity.types.Poisson")
    assert not exists("cavity.no_such_room.thing")


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_documents_name_what_exists(path):
    missing = [name for name in names_in(path) if not exists(name)]
    assert not missing, f"{path.name} names {missing}, which do not exist"


def test_documents_point_to_files_that_exist():
    missing = [
        f"{path.name}: {name}"
        for path in documents()
        for name in re.findall(
            r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]+)`", path.read_text("utf-8")
        )
        if name != "benchmarks/results/" and not (ROOT / name).exists()
    ]
    assert not missing, missing


def test_theory_maps_equations_to_functions():
    rows = re.findall(
        r"^\|.*\beq_\w+.*\|.*`cavity\.[\w.]+.*$", THEORY.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows, "docs/theory.md has no row of the form | eq_label | ... | `cavity.module.function` |"


def test_theory_names_every_equation():
    named = set(re.findall(r"\beq_\w+", THEORY.read_text(encoding="utf-8")))
    assert not set(EQUATIONS) - named, f"not in theory.md: {sorted(set(EQUATIONS) - named)}"
    assert not named - set(EQUATIONS), f"not in the paper: {sorted(named - set(EQUATIONS))}"


@pytest.mark.parametrize("module", MODULES)
def test_code_cites_equations_of_the_paper(module):
    text = MODULES[module].read_text(encoding="utf-8")
    cited = {f"eq_{name.removeprefix('eq_')}" for name in re.findall(r"\beq\.\s+`*([A-Za-z]\w*)", text)}
    cited |= set(re.findall(r"\beq_[A-Za-z]\w*", text))
    assert not cited - set(EQUATIONS), f"{module} cites equations that the paper does not have"


def test_one_version_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE).group(1) == version
    init = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    literal = re.search(r"^__version__ = \"(.*)\"$", init, re.MULTILINE)
    assert literal is None or literal.group(1) == version


def test_constraints_pin_one_version_each():
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    names = [line.split("==")[0].lower().replace("_", "-") for line in lines]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    assert len(set(names)) == len(names)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    in_dev = ["plot", "report", "cli", "parquet", "arviz"]
    assert f"cavity[{','.join(in_dev)}]" in extras["dev"]
    wanted = [*project["dependencies"], *extras["dev"][1:]]
    wanted += [line for name in in_dev for line in extras[name]]
    unpinned = {re.match(r"[\w-]+", line).group().lower() for line in wanted} - set(names)
    assert not unpinned, f"constraints.txt does not pin {sorted(unpinned)}"
