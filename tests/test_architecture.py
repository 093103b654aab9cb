"""Contracts instead of type checks: what the sources must not say."""

from __future__ import annotations

import ast

import pytest
from conftest import ROOT

SOURCES = sorted((ROOT / "src" / "dsba").rglob("*.py"))
NETWORKS = {"Simulator", "MessageSimulator", "MPINetwork", "Network", "Group", "Alone"}
OPERATORS = {"AUC", "ScalarOperator", "Ridge", "Logistic", "Softmax", "Poisson", "Huber", "SquaredHinge", "ScaledHuber"}


def names(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def offences(tree, within_operators):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            asked = names(node.args[1])
            if asked & NETWORKS or (asked & OPERATORS and not within_operators):
                yield node.lineno
        if isinstance(node, ast.Compare) and not within_operators:
            sides = [node.left, *node.comparators]
            texts = {s.value for s in sides if isinstance(s, ast.Constant)}
            if "auc" in texts or any("__name__" in names(s) for s in sides if texts & OPERATORS):
                yield node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_nobody_asks_for_the_class_of_a_network_or_an_operator(path):
    lines = list(offences(ast.parse(path.read_text()), "operators" in path.parts))
    assert not lines, f"{path.name}, lines {lines}"


def test_the_check_finds_what_it_looks_for():
    for text in (
        "isinstance(net, Simulator)",
        "isinstance(p.component, (AUC, X))",
        'x.operator != "auc"',
        'type(c).__name__ == "AUC"',
    ):
        assert list(offences(ast.parse(text), False)), text


def compiled_functions(path, decorators=frozenset({"njit", "part"})):
    """Functions under ``@njit`` or ``@part``, with the number of their arguments."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and any(names(d) & decorators for d in node.decorator_list):
            yield node.name, len(node.args.args)


def taken_from_kernels(tree):
    """The names that a file uses of the kernels' modules."""
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and "dsba.kernels" in (n.module or "")]
    modules = {a.asname or a.name for n in imports if n.module == "dsba.kernels" for a in n.names}
    attributes = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and names(n.value) & modules)
    return {a.name for n in imports for a in n.names} | {n.attr for n in attributes}


def test_parts_of_kernels_are_called_by_kernels_only():
    """A call from Python would end the process: parts are compiled without a way in."""
    kernels = [path for path in SOURCES if path.parent.name == "kernels"]
    parts = {name for path in kernels for name, _ in compiled_functions(path, {"part"})}
    assert "sample_delta" in parts
    for path in set(SOURCES) - set(kernels):
        assert not taken_from_kernels(ast.parse(path.read_text())) & parts, path.name


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_compiled_functions_live_in_kernels_and_take_few_arguments(path):
    found = dict(compiled_functions(path))
    assert not found or path.parent.name == "kernels"
    assert not {name: count for name, count in found.items() if count > 8}


# Text is for people: no branch depends on the words of a message --------------------------------------------------

MESSAGES = {"message", "reason", "refusal", "sentence", "complaint", "unfit", "why", "why_not", "msg"}
TAKING_APART = {
    "startswith", "endswith", "removeprefix", "removesuffix", "strip", "rstrip", "lstrip", "partition", "rpartition",
    "split", "find", "index", "replace", "match", "fullmatch", "search",
}  # fmt: skip
THIRD_PARTY_WORDS = {
    ("network/tls/pinned.py", "openssl"): "OpenSSL's reasons are names in a string, and it gives nothing else",
    ("network/tls/pinned.py", "reason"): "the same: an alert is known by its reason",
}


def called(node):
    """The name of what is looked at: ``reason``, ``result.message``, ``found["msg"]``; of ``str(error)``, the error."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("str", "repr", "getattr") and node.args:
        inner = node.args[-2] if node.func.id == "getattr" and len(node.args) > 2 else node.args[-1]
        return called(inner)
    if isinstance(node, ast.Subscript):
        return called(node.slice)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return getattr(node, "id", getattr(node, "attr", ""))


def is_message(node, raised):
    """Whether an expression is the text of a message, or of an error that was caught."""
    if isinstance(node, ast.Constant):
        return False
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("str", "repr"):
        return called(node) in MESSAGES | raised
    return called(node) in MESSAGES | {"openssl"}


def is_wording(node):
    """A text in the source, or a constant by name."""
    text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    return text or (isinstance(node, ast.Name) and node.id.isupper())


def decided_by_words(tree):
    """Where the text of a message is compared with words, searched, or taken apart."""
    handlers = [node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    raised = {"error", "exc", *filter(None, handlers)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKING_APART:
            looked_at = [node.func.value, *(node.args if node.func.attr in ("match", "fullmatch", "search") else [])]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            sought = isinstance(node.ops[0], (ast.In, ast.NotIn)) or any(map(is_wording, sides))
            looked_at = sides if sought else []
        else:
            continue
        yield from ((called(side), node.lineno) for side in looked_at if is_message(side, raised))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_no_branch_depends_on_the_words_of_a_message(path):
    where = path.relative_to(ROOT / "src" / "dsba").as_posix()
    found = decided_by_words(ast.parse(path.read_text()))
    assert not [(name, line) for name, line in found if (where, name) not in THIRD_PARTY_WORDS]


def test_every_exception_for_third_party_words_is_needed():
    found = {
        (path.relative_to(ROOT / "src" / "dsba").as_posix(), name)
        for path in SOURCES
        for name, _ in decided_by_words(ast.parse(path.read_text()))
    }
    assert found == THIRD_PARTY_WORDS.keys()


def test_the_check_of_messages_finds_what_it_looks_for():
    for text in (
        'if reason.startswith("the data"): pass',
        'message.removesuffix(".")',
        'found["msg"].removeprefix("Value error, ")',
        '"wanted" in str(error)',
        'repr(key) in first["msg"]',
        'if result.message == "done": pass',
        "try: pass\nexcept ValueError as problem:\n    if 'full' in str(problem): pass",
        're.search("words", sentence)',
    ):
        assert list(decided_by_words(ast.parse(text))), text
    for text in (
        "if reason is not None: pass",
        "if said.get(name) != sentence: pass",
        'f"{message}."',
        "if reason: pass",
    ):
        assert not list(decided_by_words(ast.parse(text))), text


NESTING = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def body_lines(function):
    """The lines of a function's body without its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def depth(node, of_elif=False):
    """How deep blocks lie in each other; a function inside of a function is measured by itself."""
    inner = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.FunctionDef | ast.ClassDef)]
    elifs = node.orelse if isinstance(node, ast.If) and len(node.orelse) == 1 else []
    return (isinstance(node, NESTING) and not of_elif) + max((depth(n, n in elifs) for n in inner), default=0)


def test_a_function_fits_on_a_screen():
    nodes = ((path.name, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text())))
    functions = [(file, node) for file, node in nodes if isinstance(node, ast.FunctionDef)]
    assert not [(file, f.name) for file, f in functions if body_lines(f) > 40 or depth(f) > 4]


def test_long_and_deep_functions_are_found():
    (long,) = ast.parse("def f():\n    'Text.'\n" + "    x = 1\n" * 41).body
    deep = "if a:\n  pass\n elif b:\n  for c in d:\n   while e:\n    with f:\n     if g:\n      pass"
    (nested,) = ast.parse(f"def f():\n {deep}").body
    assert (body_lines(long), depth(nested), depth(long)) == (41, 5, 0)


def test_few_modules_stand_at_the_top():
    assert len(list((ROOT / "src" / "dsba").glob("*.py"))) <= 5
