"""The parts of Numba and llvmlite that are not their documented interface, each tried by itself.

If a new version of Numba breaks kernels, the names of the tests that fail say what it changed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys

import numba
import numpy as np
import pytest
from conftest import ROOT

from dsba.kernels import internals
from dsba.kernels.cache import part
from dsba.kernels.internals import cgutils, ir

SOURCES = sorted((ROOT / "src" / "dsba").rglob("*.py"))
HOME = ROOT / "src" / "dsba" / "kernels" / "internals.py"
PRIVATE_MODULES = ("numba.core", "numba.np", "numba.typed", "numba.cpython", "llvmlite")
PRIVATE_NAMES = {
    "_cache", "_cache_file", "_source_stamp", "_index_path", "_compile_for_args", "typeof_pyval", "_dynamic_modname",
    "_dynamic_module", "_finalize_final_module", "_finalize_dynamic_globals", "_finalized",
}  # fmt: skip
NAMES = [
    "numba.core.cgutils.alloca_once_value", "numba.core.cgutils.create_struct_proxy",
    "numba.core.cgutils.for_range_slice", "numba.core.cgutils.get_or_insert_function", "numba.core.cgutils.is_not_null",
    "numba.core.codegen.JITCodeLibrary", "numba.core.codegen.JITCodeLibrary._finalize_dynamic_globals",
    "numba.core.codegen.JITCodeLibrary._finalize_final_module", "numba.core.codegen.JITCodeLibrary.codegen",
    "numba.core.codegen.JITCPUCodegen.set_env", "numba.core.compiler.Compiler", "numba.core.event.Listener",
    "numba.core.event.register", "numba.core.typing.templates.AttributeTemplate", "numba.core.utils._dynamic_modname",
    "numba.core.utils._dynamic_module", "llvmlite.binding.get_host_cpu_features", "llvmlite.ir.Constant",
    "llvmlite.ir.DoubleType", "llvmlite.ir.FunctionType", "llvmlite.ir.IntType", "llvmlite.ir.Undefined",
    "llvmlite.ir.VectorType", "llvmlite.ir.VoidType",
    *(
        f"llvmlite.ir.IRBuilder.{name}"
        for name in (
            "add", "bitcast", "call", "ctlz", "extract_element", "extract_value", "fadd", "fmul", "fneg", "gep",
            "insert_element", "load", "load_atomic", "shuffle_vector", "store", "store_atomic",
        )
    ),
]  # fmt: skip


def attributes(tree):
    """The names after a point, and texts that could be names, as in getattr(x, "_cache")."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{one.name}" for one in node.names)


def trespasses(source):
    """What a file has of the private parts of Numba and llvmlite."""
    tree = ast.parse(source)
    inside = (name for name in imported(tree) if re.match(rf"({'|'.join(PRIVATE_MODULES)})\b|numba\._", name))
    asks_numba = any(name.split(".")[0] == "numba" for name in imported(tree))
    return {*inside, *(PRIVATE_NAMES & {*attributes(tree)} if asks_numba else ())}


def test_only_one_module_knows_them():
    assert trespasses("import numba\nfrom numba.core import event\nf._cache._index_path") == {
        "numba.core.event", "_cache", "_index_path",
    }  # fmt: skip
    found = {path.name: trespasses(path.read_text()) for path in SOURCES}
    assert {name for name, private in found.items() if private} == {HOME.name}
    assert len(found[HOME.name]) > 8


@pytest.mark.parametrize("path", NAMES)
def test_the_name_is_there(path):
    assert pkgutil.resolve_name(path) is not None


def test_a_compiler_is_made_of_these_arguments():
    wanted = ["self", "typingctx", "targetctx", "library"]
    assert [*inspect.signature(internals.PartCompiler.__mro__[1].__init__).parameters][:4] == wanted


def test_the_copies_of_a_cached_function_have_a_stamp(tmp_path, monkeypatch):
    """Were the attributes of another name, edited kernels would go on running in their old form."""
    (tmp_path / "stamped.py").write_text("def double(x):\n    return x + x\n")
    monkeypatch.syspath_prepend(tmp_path)
    double = importlib.import_module("stamped").double
    compiled = numba.njit(cache=True)(double)
    index = internals.stamp_cache(compiled, b"one")
    assert index is not None
    assert index.suffix == ".nbi"
    assert compiled(2.0) == 4.0
    assert index.exists()

    def hits(stamp):
        fresh = numba.njit(cache=True)(double)
        internals.stamp_cache(fresh, stamp)
        assert fresh(2.0) == 4.0
        return sum(fresh.stats.cache_hits.values())

    assert [hits(b"one"), hits(b"two")] == [1, 0]


def test_a_function_that_cannot_be_compiled_gets_the_reason_of_its_argument():
    compiled = numba.njit(lambda x: x.nothing)
    internals.explain_failures(compiled)
    with pytest.raises(numba.TypingError):  # a number gives no reason
        compiled(1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(numba.float64), "refusal", lambda kind: ValueError(f"the reason of {kind}"), raising=False)
        with pytest.raises(ValueError, match="the reason of float64"):
            compiled(1.0)


def test_compiling_is_an_event_that_names_the_function():
    with internals.event.install_recorder("numba:compile") as recorder:
        numba.njit(lambda x: x + 1)(1)
    assert [one.data["dispatcher"].py_func.__name__ for _, one in recorder.buffer][:1] == ["<lambda>"]


def test_code_of_no_module_is_found_again():
    internals.keep_dynamic_code()
    assert sys.modules[numba.core.utils._dynamic_modname] is numba.core.utils._dynamic_module


def test_a_part_goes_into_the_code_that_calls_it():
    twice = part()(lambda x: 2.0 * x)
    assert numba.njit(lambda x: twice(x) + 1.0)(3.0) == 7.0


@numba.extending.intrinsic
def sum_of_two(typing, array):
    def code(context, builder, signature, values):
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        total = cgutils.alloca_once_value(builder, ir.Constant(ir.DoubleType(), 0.0))
        size = ir.IntType(64)
        with cgutils.for_range_slice(builder, size(0), size(2), size(1), size) as (i, _):
            builder.store(builder.fadd(builder.load(total), builder.load(builder.gep(data, [i]))), total)
        return builder.load(total)

    return numba.float64(array), code


def test_an_intrinsic_can_write_a_loop():
    assert numba.njit(lambda x: sum_of_two(x))(np.array([1.0, 4.0])) == 5.0
