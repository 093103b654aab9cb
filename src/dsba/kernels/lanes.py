"""Explicit vector code for the short loops over modes, and for sweeps over dense rows.

LLVM leaves a loop of ten iterations scalar. These intrinsics emit vectors of ``LANES`` doubles
instead; widths are padded to a multiple of it. For long loops LLVM takes vectors of half a cache
line even where the machine has longer ones; here they are a whole line, ``LINE`` doubles. Each
intrinsic says in Python what it does.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 4
LINE = 8
_FUSE = ("contract",)  # a * b + c in one instruction where the machine has it


def padded(width: int) -> int:
    """The smallest multiple of LANES that holds ``width``."""
    return -(-width // LANES) * LANES


class _Emit:
    """The few vector instructions the kernels below are written with."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, size: int = LANES) -> None:
        self.context, self.builder = context, builder
        self.types, self.args = signature.args, args
        self.size, self.vector = size, ir.VectorType(ir.DoubleType(), size)

    def pointer(self, position: int, offset: Any) -> Any:
        """The data of the array argument at ``position``, from element ``offset`` on."""
        array = self.context.make_array(self.types[position])(self.context, self.builder, self.args[position])
        return self.builder.gep(array.data, [offset])

    def _at(self, pointer: Any, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())

    def load(self, pointer: Any, index: Any) -> Any:
        value = self.builder.load(self._at(pointer, index))
        value.align = 8
        return value

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        self.builder.store(value, self._at(pointer, index)).align = 8

    def splat(self, scalar: Any) -> Any:
        undefined = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(undefined, scalar, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.size), [0] * self.size)
        return self.builder.shuffle_vector(one, undefined, zeros)

    def mul(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FUSE)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.fadd(self.mul(a, b), c, flags=_FUSE)

    def sub(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b, flags=_FUSE)

    def lanes(self, width: Any) -> Any:
        """for i in range(0, width, size of a vector)."""
        return cgutils.for_range_slice(self.builder, width.type(0), width, width.type(self.size), width.type)

    def zeros(self) -> Any:
        """Where a sum of vectors is kept."""
        return cgutils.alloca_once_value(self.builder, ir.Constant(self.vector, [0.0] * self.size))

    def add_product(self, a: Any, b: Any, total: Any) -> None:
        self.builder.store(self.fma(a, b, self.builder.load(total)), total)

    def sum(self, total: Any) -> Any:
        """Of a vector's elements, neighbours first."""
        vector = self.builder.load(total)
        parts = [self.builder.extract_element(vector, ir.IntType(32)(i)) for i in range(self.size)]
        while len(parts) > 1:
            parts = [self.builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]


@intrinsic
def read_modes(typing: Any, state: Any, at: Any, powers: Any, power: Any, basis: Any, row: Any, width: Any) -> Any:
    """sum_m basis[row + m] (P_m z_m + Q_m v_m): one node's entry of one column, some iterations later.

    z, v = state[at:][:width], state[at + width:][:width];  P, Q likewise in powers from ``power``.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, signature, args)
        state, powers, basis = emit.pointer(0, args[1]), emit.pointer(2, args[3]), emit.pointer(4, args[5])
        width = args[6]
        total = emit.zeros()
        with emit.lanes(width) as (i, _):
            j = builder.add(i, width)
            z, v, P, Q = emit.load(state, i), emit.load(state, j), emit.load(powers, i), emit.load(powers, j)
            moved = emit.fma(P, z, emit.mul(Q, v))
            emit.add_product(emit.load(basis, i), moved, total)
        return emit.sum(total)

    return types.float64(state, at, powers, power, basis, row, width), code


@intrinsic
def move_modes(
    typing: Any, state: Any, at: Any, powers: Any, power: Any, c1: Any, dz: Any, dv: Any, group: Any, c2: Any, x: Any,
    width: Any,
) -> Any:  # fmt: skip
    """z, v <- P z + Q v + x dz,  P v - Q (c2 v + c1 z) + x dv: some iterations, then an injection.

    State and powers as in ``read_modes``; c1, dz, dv from their element ``group`` on.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, signature, args)
        state, powers = emit.pointer(0, args[1]), emit.pointer(2, args[3])
        c1, dz, dv = (emit.pointer(i, args[7]) for i in (4, 5, 6))
        c2, x, width = emit.splat(args[8]), emit.splat(args[9]), args[10]
        with emit.lanes(width) as (i, _):
            j = builder.add(i, width)
            z, v, P, Q = emit.load(state, i), emit.load(state, j), emit.load(powers, i), emit.load(powers, j)
            back = emit.fma(c2, v, emit.mul(emit.load(c1, i), z))
            new_z = emit.fma(P, z, emit.fma(Q, v, emit.mul(x, emit.load(dz, i))))
            new_v = emit.fma(P, v, emit.sub(emit.mul(x, emit.load(dv, i)), emit.mul(Q, back)))
            emit.store(new_z, state, i)
            emit.store(new_v, state, j)
        return context.get_dummy_value()

    return types.void(state, at, powers, power, c1, dz, dv, group, c2, x, width), code


@intrinsic
def dot_and_add_lines(typing: Any, x: Any, at: Any, z: Any, size: Any, a: Any, before: Any, out: Any) -> Any:
    """The product of z with the row of x at ``at``; on the way there out <- out + a times the row at ``before``.

    Both in their first ``size`` columns, a multiple of LINE.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, signature, args, LINE)
        size, zero = args[3], args[3].type(0)
        row, z, old, out = (emit.pointer(i, at) for i, at in ((0, args[1]), (2, zero), (0, args[5]), (6, zero)))
        a, total = emit.splat(args[4]), emit.zeros()
        with emit.lanes(size) as (j, _):
            emit.add_product(emit.load(row, j), emit.load(z, j), total)
            emit.store(emit.fma(a, emit.load(old, j), emit.load(out, j)), out, j)
        return emit.sum(total)

    return types.float64(x, at, z, size, a, before, out), code


@intrinsic
def prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Ask for array[at] before it is needed."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        pointer = builder.bitcast(_Emit(context, builder, signature, args).pointer(0, args[1]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [pointer, word(0), word(3), word(1)])  # for reading, keep, data
        return context.get_dummy_value()

    return types.void(array, at), code
