"""Explicit vector code for the short loops over modes, and for sweeps over dense rows.

LLVM leaves a loop of ten iterations scalar. These intrinsics emit vectors of ``LANES`` doubles
instead; widths are padded to a multiple of it. For long loops LLVM takes vectors of half a cache
line even where the machine has longer ones; here they are a whole line, ``LINE_DOUBLES`` doubles. Each
intrinsic says in Python what it does.

The number of modes is a constant of the compiled code where it is small: ``lanes`` is then a tuple with one entry
for each vector of a column (``lanes_of``), and loops over modes are unrolled. An empty tuple stands for a number
known only when the code runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 4
LINE_DOUBLES = 8
_FUSED = binding.get_host_cpu_features().get("fma", True)  # a * b + c in one instruction: only old PCs have none
MOST_LANES = 6  # vectors of a column that kernels are compiled for, each number of them anew
FIRST_LANES = 3  # of a longer column, asked for ahead; the machine itself looks ahead for the rest


def padded(width: int) -> int:
    """Room for ``width`` modes: whole vectors where kernels are compiled for their number, otherwise whole lines."""
    size = LANES if width <= LANES * MOST_LANES else LINE_DOUBLES
    return -(-width // size) * size


def lanes_of(width: int) -> tuple[int, ...]:
    """One entry for each vector of ``width`` modes; none if they are too many for code of their own."""
    return (0,) * (width // LANES) if width <= LANES * MOST_LANES else ()


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

    def pointer_in(self, position: int, place: int = 1) -> Any:
        """The same of a tuple argument (array, offset, ...), whose offset is at ``place``."""
        array, offset = (self.builder.extract_value(self.args[position], i) for i in (0, place))
        data = self.context.make_array(self.types[position][0])(self.context, self.builder, array).data
        return self.builder.gep(data, [offset])

    def _at(self, pointer: Any, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())

    def load(self, pointer: Any, index: Any) -> Any:
        value = self.builder.load(self._at(pointer, index))
        value.align = 8
        return value

    def load_constant(self, pointer: Any, index: Any) -> Any:
        """Of a table that no kernel writes to, so that it may stay in a register while the state is written."""
        value = self.load(pointer, index)
        value.set_metadata("invariant.load", self.builder.module.add_metadata([]))
        return value

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        self.builder.store(value, self._at(pointer, index)).align = 8

    def splat(self, scalar: Any) -> Any:
        undefined = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(undefined, scalar, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.size), [0] * self.size)
        return self.builder.shuffle_vector(one, undefined, zeros)

    def mul(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c. Said in so many words: a compiler that may fuse chooses what, and rounding follows its choice."""
        if not _FUSED:
            return self.builder.fadd(self.mul(a, b), c)
        kind, name = ir.FunctionType(self.vector, [self.vector] * 3), f"llvm.fma.v{self.size}f64"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b, c])

    def negative(self, a: Any) -> Any:
        return self.builder.fneg(a)

    def lanes(self, width: Any) -> Any:
        """for i in range(0, width, size of a vector)."""
        return cgutils.for_range_slice(self.builder, width.type(0), width, width.type(self.size), width.type)

    def modes(self, width: int, body: Callable[[Any, Any], None]) -> None:
        """``body`` (place of z, place of v) for each vector of a column; ``width`` is the position of the argument
        (lanes, number of modes)."""
        count, modes = self.types[width][0].count, self.builder.extract_value(self.args[width], 1)
        if count:
            for i in range(0, count * LANES, LANES):
                body(modes.type(i), modes.type(i + count * LANES))
            return
        with self.lanes(modes) as (i, _):
            body(i, self.builder.add(i, modes))

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


def _columns(context: Any, builder: Any, signature: Any, args: Any, width: int) -> _Emit:
    """For columns of modes; ``width`` is the position of the argument (lanes, number of modes)."""
    return _Emit(context, builder, signature, args, LANES if signature.args[width][0].count else LINE_DOUBLES)


@intrinsic
def width_of(typing: Any, lanes: Any, otherwise: Any) -> Any:
    """The number of modes: a constant if ``lanes`` says it."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = signature.args[0].count
        return args[1].type(LANES * count) if count else args[1]

    return types.int64(lanes, types.int64), code


@intrinsic
def read_modes(typing: Any, state: Any, at: Any, basis: Any, row: Any, width: Any) -> Any:
    """sum_m basis[row + m] z_m: one node's entry of one column, z = state[at:][:modes]; ``width`` is (lanes, modes)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _columns(context, builder, signature, args, 4)
        state, basis = emit.pointer(0, args[1]), emit.pointer(2, args[3])
        total = emit.zeros()
        emit.modes(4, lambda i, j: emit.add_product(emit.load_constant(basis, i), emit.load(state, i), total))
        return emit.sum(total)

    return types.float64(state, at, basis, row, width), code


@intrinsic
def read_ahead(typing: Any, state: Any, at: Any, powers: Any, power: Any, basis: Any, width: Any) -> Any:
    """What ``read_modes`` would give after ``move_modes``; the column stays as it is. basis = (array, place).

    Basis and powers are multiplied first: columns with the same powers share the products.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _columns(context, builder, signature, args, 5)
        state, powers = emit.pointer(0, args[1]), emit.pointer(2, args[3])
        basis, total = emit.pointer_in(4), emit.zeros()

        def body(i: Any, j: Any) -> None:
            weight = emit.load_constant(basis, i)
            emit.add_product(emit.mul(weight, emit.load_constant(powers, i)), emit.load(state, i), total)
            emit.add_product(emit.mul(weight, emit.load_constant(powers, j)), emit.load(state, j), total)

        emit.modes(5, body)
        return emit.sum(total)

    return types.float64(state, at, powers, power, basis, width), code


@intrinsic
def scatter_modes(typing: Any, state: Any, at: Any, powers: Any, power: Any, weights: Any, width: Any) -> Any:
    """sum_m weights_m (P_m z_m + Q_m v_m)^2: of one column, some iterations later; the column stays as it is."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _columns(context, builder, signature, args, 5)
        state, powers = emit.pointer(0, args[1]), emit.pointer(2, args[3])
        weights, total = emit.pointer(4, args[1].type(0)), emit.zeros()

        def body(i: Any, j: Any) -> None:
            z, v = emit.load(state, i), emit.load(state, j)
            P, Q = emit.load_constant(powers, i), emit.load_constant(powers, j)
            moved = emit.fma(P, z, emit.mul(Q, v))
            emit.add_product(emit.mul(emit.load_constant(weights, i), moved), moved, total)

        emit.modes(5, body)
        return emit.sum(total)

    return types.float64(state, at, powers, power, weights, width), code


@intrinsic
def move_modes(typing: Any, state: Any, at: Any, powers: Any, power: Any, c: Any, width: Any) -> Any:
    """z, v <- P z + Q v,  P v - Q (c2 v + c1 z): some iterations at once.

    z, v = state[at:][:modes], state[at + modes:][:modes];  P, Q likewise in powers from ``power``.
    c = (array, place, c2): c1 is in the array from ``place`` on.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _columns(context, builder, signature, args, 5)
        _move(emit, lambda i, z, v: (z, v))
        return context.get_dummy_value()

    return types.void(state, at, powers, power, c, width), code


@intrinsic
def move_and_read(typing: Any, state: Any, at: Any, powers: Any, power: Any, c: Any, width: Any, basis: Any) -> Any:
    """``move_modes``, and what ``read_modes`` then gives; basis = (array, place)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _columns(context, builder, signature, args, 5)
        basis, total = emit.pointer_in(6), emit.zeros()

        def read(i: Any, z: Any, v: Any) -> Any:
            emit.add_product(emit.load_constant(basis, i), z, total)
            return z, v

        _move(emit, read)
        return emit.sum(total)

    return types.float64(state, at, powers, power, c, width, basis), code


@intrinsic
def move_and_add(typing: Any, state: Any, at: Any, powers: Any, power: Any, c: Any, width: Any, change: Any) -> Any:
    """``move_modes``, and what ``add_modes`` then does; change = (array, place of dz, place of dv, x)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _columns(context, builder, signature, args, 5)
        dz, dv = emit.pointer_in(6), emit.pointer_in(6, 2)
        x = emit.splat(builder.extract_value(args[6], 3))

        def add(i: Any, z: Any, v: Any) -> Any:
            return emit.fma(x, emit.load_constant(dz, i), z), emit.fma(x, emit.load_constant(dv, i), v)

        _move(emit, add)
        return context.get_dummy_value()

    return types.void(state, at, powers, power, c, width, change), code


def _move(emit: _Emit, then: Callable[[Any, Any, Any], Any]) -> None:
    """The code of ``move_modes``, whose arguments come first; ``then`` (place, z, v) gives what is stored."""
    args, builder = emit.args, emit.builder
    state, powers = emit.pointer(0, args[1]), emit.pointer(2, args[3])
    c1, c2 = emit.pointer_in(4), emit.splat(builder.extract_value(args[4], 2))

    def body(i: Any, j: Any) -> None:
        z, v = emit.load(state, i), emit.load(state, j)
        P, Q = emit.load_constant(powers, i), emit.load_constant(powers, j)
        back = emit.fma(c2, v, emit.mul(emit.load_constant(c1, i), z))
        moved = emit.fma(P, z, emit.mul(Q, v)), emit.fma(P, v, emit.negative(emit.mul(Q, back)))
        for new, place in zip(then(i, *moved), (i, j), strict=True):
            emit.store(new, state, place)

    emit.modes(5, body)


@intrinsic
def add_modes(typing: Any, state: Any, at: Any, effect: Any, z: Any, v: Any, x: Any, width: Any) -> Any:
    """z, v <- z + x dz, v + x dv, dz and dv in ``effect`` from its elements z and v on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _columns(context, builder, signature, args, 6)
        state, dz, dv = emit.pointer(0, args[1]), emit.pointer(2, args[3]), emit.pointer(2, args[4])
        x = emit.splat(args[5])

        def body(i: Any, j: Any) -> None:
            emit.store(emit.fma(x, emit.load_constant(dz, i), emit.load(state, i)), state, i)
            emit.store(emit.fma(x, emit.load_constant(dv, i), emit.load(state, j)), state, j)

        emit.modes(6, body)
        return context.get_dummy_value()

    return types.void(state, at, effect, z, v, x, width), code


@intrinsic
def dot_and_add_lines(typing: Any, x: Any, at: Any, z: Any, size: Any, a: Any, before: Any, out: Any) -> Any:
    """The product of z with the row of x at ``at``; on the way there out <- out + a times the row at ``before``.

    Both in their first ``size`` columns, a multiple of LINE.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, signature, args, LINE_DOUBLES)
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
        emit = _Emit(context, builder, signature, args)
        _ask_for(emit, emit.pointer(0, args[1]))
        return context.get_dummy_value()

    return types.void(array, at), code


@intrinsic
def prefetch_column(typing: Any, state: Any, at: Any, width: Any) -> Any:
    """Ask for a column's z and v before they are needed; of many modes, for the first ones."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, signature, args)
        count = signature.args[2][0].count or FIRST_LANES
        for line in range(0, 2 * count * LANES, LINE_DOUBLES):
            _ask_for(emit, emit.pointer(0, builder.add(args[1], args[1].type(line))))
        return context.get_dummy_value()

    return types.void(state, at, width), code


def _ask_for(emit: _Emit, pointer: Any) -> None:
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = cgutils.get_or_insert_function(emit.builder.module, kind, "llvm.prefetch.p0i8")
    emit.builder.call(function, [emit.builder.bitcast(pointer, byte), word(0), word(3), word(1)])  # to read, keep, data
