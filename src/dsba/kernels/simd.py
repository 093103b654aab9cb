"""Explicit vector code for the short loops over modes, and for sweeps over dense rows.

LLVM leaves a loop of ten iterations scalar. These intrinsics emit vectors of ``LANES`` doubles
instead; widths are padded to a multiple of it. For long loops LLVM takes vectors of half a cache
line even where the machine has longer ones; here they are a whole line, ``LINE_DOUBLES`` doubles. Each
intrinsic says in Python what it does.

The number of modes is a constant of the compiled code where it is small: ``lanes`` is then a tuple with one entry
for each vector of a column (``lanes_of``), and loops over modes are unrolled. An empty tuple stands for a number
known only when the code runs.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types
from numba.extending import intrinsic

from dsba.kernels.internals import binding, cgutils, ir

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


class _Argument(NamedTuple):
    """An argument of an intrinsic: its Numba type and its LLVM value."""

    kind: Any
    value: Any


class Emit:
    """The few instructions that intrinsics are written with."""

    def __init__(self, context: Any, builder: Any, size: int) -> None:
        self.context, self.builder = context, builder
        self.size, self.vector = size, ir.VectorType(ir.DoubleType(), size)

    def pointer(self, array: _Argument, offset: Any) -> Any:
        """The data of an array, from element ``offset`` on."""
        data = self.context.make_array(array.kind)(self.context, self.builder, array.value).data
        return self.builder.gep(data, [offset.value if isinstance(offset, _Argument) else offset])

    def item(self, argument: _Argument, place: int) -> _Argument:
        """One entry of a tuple."""
        return _Argument(argument.kind[place], self.builder.extract_value(argument.value, place))

    def pointer_in(self, argument: _Argument, place: int = 1) -> Any:
        """The data of a tuple's first entry, an array, from the offset on that is at ``place``."""
        return self.pointer(self.item(argument, 0), self.item(argument, place))

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
        """a b + c, fused explicitly: a compiler that may fuse chooses what, and rounding follows its choice."""
        if not _FUSED:
            return self.builder.fadd(self.mul(a, b), c)
        kind, name = ir.FunctionType(self.vector, [self.vector] * 3), f"llvm.fma.v{self.size}f64"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b, c])

    def lanes(self, width: Any) -> Any:
        """for i in range(0, width, size of a vector)."""
        return cgutils.for_range_slice(self.builder, width.type(0), width, width.type(self.size), width.type)

    def modes(self, width: _Argument, body: Callable[[Any, Any], None]) -> None:
        """``body`` (place of z, place of v) for each vector of a column; ``width`` is (lanes, number of modes)."""
        count, modes = width.kind[0].count, self.item(width, 1).value
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


def instructions(result: Any) -> Callable[[Callable[..., Any]], Any]:
    """Makes an intrinsic of a function that writes its instructions; the first argument is an ``Emit``.

    Where an argument is called ``width`` it is (lanes, number of modes), and vectors are those of a column.
    """

    def decorate(write: Callable[..., Any]) -> Any:
        names = list(inspect.signature(write).parameters)

        def typed(typing: Any, *kinds: Any) -> Any:
            wide = "width" not in names or not kinds[names.index("width") - 1][0].count

            def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                emit = Emit(context, builder, LINE_DOUBLES if wide else LANES)
                found = write(emit, *map(_Argument, signature.args, values))
                return context.get_dummy_value() if found is None else found

            return result(*kinds), code

        typed.__name__, typed.__doc__ = write.__name__, write.__doc__
        typed.__signature__ = inspect.signature(write)  # type: ignore[attr-defined]
        return intrinsic(typed)

    return decorate


@instructions(types.int64)
def width_of(emit: Emit, lanes: Any, otherwise: Any) -> Any:
    """The number of modes: a constant if ``lanes`` says it."""
    count = lanes.kind.count
    return otherwise.value.type(LANES * count) if count else otherwise.value


@instructions(types.float64)
def read_modes(emit: Emit, state: Any, at: Any, basis: Any, row: Any, width: Any) -> Any:
    """sum_m basis[row + m] z_m: one node's entry of one column, z = state[at:][:modes]; ``width`` is (lanes, modes)."""
    z, weights, total = emit.pointer(state, at), emit.pointer(basis, row), emit.zeros()
    emit.modes(width, lambda i, j: emit.add_product(emit.load_constant(weights, i), emit.load(z, i), total))
    return emit.sum(total)


@instructions(types.float64)
def read_ahead(emit: Emit, state: Any, at: Any, powers: Any, power: Any, basis: Any, width: Any) -> Any:
    """What ``read_modes`` would give after ``move_modes``; the column stays as it is. basis = (array, place).

    Basis and powers are multiplied first: columns with the same powers share the products.
    """
    column, P = emit.pointer(state, at), emit.pointer(powers, power)
    weights, total = emit.pointer_in(basis), emit.zeros()

    def body(i: Any, j: Any) -> None:
        weight = emit.load_constant(weights, i)
        emit.add_product(emit.mul(weight, emit.load_constant(P, i)), emit.load(column, i), total)
        emit.add_product(emit.mul(weight, emit.load_constant(P, j)), emit.load(column, j), total)

    emit.modes(width, body)
    return emit.sum(total)


@instructions(types.float64)
def scatter_modes(emit: Emit, state: Any, at: Any, powers: Any, power: Any, weights: Any, width: Any) -> Any:
    """sum_m weights_m (P_m z_m + Q_m v_m)^2: of one column, some iterations later; the column stays as it is."""
    column, table = emit.pointer(state, at), emit.pointer(powers, power)
    factors, total = emit.pointer(weights, at.value.type(0)), emit.zeros()

    def body(i: Any, j: Any) -> None:
        z, v = emit.load(column, i), emit.load(column, j)
        P, Q = emit.load_constant(table, i), emit.load_constant(table, j)
        moved = emit.fma(P, z, emit.mul(Q, v))
        emit.add_product(emit.mul(emit.load_constant(factors, i), moved), moved, total)

    emit.modes(width, body)
    return emit.sum(total)


@instructions(types.void)
def move_modes(emit: Emit, state: Any, at: Any, powers: Any, power: Any, c: Any, width: Any) -> None:
    """z, v <- P z + Q v,  P v - Q (c2 v + c1 z): some iterations at once.

    z, v = state[at:][:modes], state[at + modes:][:modes];  P, Q likewise in powers from ``power``.
    c = (array, place, c2): c1 is in the array from ``place`` on.
    """
    _move(emit, (state, at, powers, power, c, width), lambda i, z, v: (z, v))


@instructions(types.float64)
def move_and_read(emit: Emit, state: Any, at: Any, powers: Any, power: Any, c: Any, width: Any, basis: Any) -> Any:
    """``move_modes``, and what ``read_modes`` then gives; basis = (array, place)."""
    weights, total = emit.pointer_in(basis), emit.zeros()

    def read(i: Any, z: Any, v: Any) -> Any:
        emit.add_product(emit.load_constant(weights, i), z, total)
        return z, v

    _move(emit, (state, at, powers, power, c, width), read)
    return emit.sum(total)


@instructions(types.void)
def move_and_add(emit: Emit, state: Any, at: Any, powers: Any, power: Any, c: Any, width: Any, change: Any) -> None:
    """``move_modes``, and what ``add_modes`` then does; change = (array, place of dz, place of dv, x)."""
    dz, dv = emit.pointer_in(change), emit.pointer_in(change, 2)
    x = emit.splat(emit.item(change, 3).value)

    def add(i: Any, z: Any, v: Any) -> Any:
        return emit.fma(x, emit.load_constant(dz, i), z), emit.fma(x, emit.load_constant(dv, i), v)

    _move(emit, (state, at, powers, power, c, width), add)


def _move(emit: Emit, arguments: Any, then: Callable[[Any, Any, Any], Any]) -> None:
    """The instructions of ``move_modes``; ``then`` (place, z, v) gives what is stored."""
    state, at, powers, power, c, width = arguments
    column, table = emit.pointer(state, at), emit.pointer(powers, power)
    c1, c2 = emit.pointer_in(c), emit.splat(emit.item(c, 2).value)

    def body(i: Any, j: Any) -> None:
        z, v = emit.load(column, i), emit.load(column, j)
        P, Q = emit.load_constant(table, i), emit.load_constant(table, j)
        back = emit.fma(c2, v, emit.mul(emit.load_constant(c1, i), z))
        moved = emit.fma(P, z, emit.mul(Q, v)), emit.fma(P, v, emit.builder.fneg(emit.mul(Q, back)))
        for new, place in zip(then(i, *moved), (i, j), strict=True):
            emit.store(new, column, place)

    emit.modes(width, body)


@instructions(types.void)
def add_modes(emit: Emit, state: Any, at: Any, effect: Any, z: Any, v: Any, x: Any, width: Any) -> None:
    """z, v <- z + x dz, v + x dv, dz and dv in ``effect`` from its elements z and v on."""
    column, dz, dv = emit.pointer(state, at), emit.pointer(effect, z), emit.pointer(effect, v)
    factor = emit.splat(x.value)

    def body(i: Any, j: Any) -> None:
        emit.store(emit.fma(factor, emit.load_constant(dz, i), emit.load(column, i)), column, i)
        emit.store(emit.fma(factor, emit.load_constant(dv, i), emit.load(column, j)), column, j)

    emit.modes(width, body)


@instructions(types.float64)
def dot_and_add_lines(emit: Emit, x: Any, at: Any, z: Any, size: Any, a: Any, before: Any, out: Any) -> Any:
    """The product of z with the row of x at ``at``; on the way there out <- out + a times the row at ``before``.

    Both in their first ``size`` columns, a multiple of LINE.
    """
    zero = size.value.type(0)
    row, point, old, new = (emit.pointer(*where) for where in ((x, at), (z, zero), (x, before), (out, zero)))
    factor, total = emit.splat(a.value), emit.zeros()
    with emit.lanes(size.value) as (j, _):
        emit.add_product(emit.load(row, j), emit.load(point, j), total)
        emit.store(emit.fma(factor, emit.load(old, j), emit.load(new, j)), new, j)
    return emit.sum(total)


@instructions(types.void)
def prefetch(emit: Emit, array: Any, at: Any) -> None:
    """Ask for array[at] before it is needed."""
    _ask_for(emit, emit.pointer(array, at))


@instructions(types.void)
def prefetch_column(emit: Emit, state: Any, at: Any, width: Any) -> None:
    """Ask for a column's z and v before they are needed; of many modes, for the first ones."""
    count = width.kind[0].count or FIRST_LANES
    for line in range(0, 2 * count * LANES, LINE_DOUBLES):
        _ask_for(emit, emit.pointer(state, emit.builder.add(at.value, at.value.type(line))))


def _ask_for(emit: Emit, pointer: Any) -> None:
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = cgutils.get_or_insert_function(emit.builder.module, kind, "llvm.prefetch.p0i8")
    emit.builder.call(function, [emit.builder.bitcast(pointer, byte), word(0), word(3), word(1)])  # to read, keep, data
