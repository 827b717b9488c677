"""A stand-in for torch, made of lists: the functions that answers to this book's exercises use.

A page runs a reader's answer in Pyodide, where neither torch nor NumPy can be had without another
server. Here a tensor is a flat list with a shape; all arithmetic is Python's, in double precision
whatever the dtype says. A part such as x[0] writes through to x; other views do not share memory,
and a change of one in place is refused. What no natural answer
needs is not here, and asking for it raises a sentence that names what is.
tests/test_torch_of_lists.py holds every operation against torch.
"""

import functools
import itertools
import math
import operator
from typing import Any

Size = tuple
inf, nan, pi = math.inf, math.nan, math.pi


class NotHere(AttributeError):
    """A missing function; the message lists what the stand-in has, and where all of torch is."""

    def __init__(self, name, known):
        super().__init__(
            f"the stand-in for torch on this page has no {name!r}; it has "
            f"{', '.join(sorted(known))}; JupyterLab has all of torch"
        )


# -- dtypes: names only -------------------------------------------------------------------------
class dtype:
    """The number type that a tensor reports."""

    def __init__(self, name, rank):
        self.name, self.rank = name, rank
        self.is_floating_point = rank > 1

    def __repr__(self):
        return f"torch.{self.name}"


bool_, int64, float32, float64 = (
    dtype(name, rank) for rank, name in enumerate(("bool", "int64", "float32", "float64"))
)
long, double = int64, float64
KINDS = {"bool": bool_, "float": float32}  # names that in this file are Python's own
MAKERS = {bool_: bool, int64: int, float32: float, float64: float}


def promote_types(a, b):
    """Return the wider of two dtypes."""
    return a if a.rank >= b.rank else b


def _kind_of(value):
    return bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else float32


# -- one number -----------------------------------------------------------------------------------
def _guard(function, wrong=nan):
    """Return the result of IEEE arithmetic where Python raises an error."""

    def guarded(*values):
        try:
            return function(*values)
        except (ValueError, ZeroDivisionError):
            return nan if any(v != v for v in values) else wrong
        except OverflowError:
            return inf

    return guarded


def _divide(a, b):
    if b == 0:
        return nan if a == 0 or a != a else math.copysign(inf, a) * math.copysign(1, b)
    return a / b


def _power(a, b):
    if a == 0 and b < 0:
        return inf
    result = _guard(lambda: a**b)()
    return nan if isinstance(result, complex) else result


def _sigmoid(a):
    return 1 / (1 + math.exp(-a)) if a > -700 else 0.0


def _extreme(better):
    def choose(a, b):
        return a if a != a else b if b != b else better(a, b)

    return choose


_largest, _smallest = _extreme(max), _extreme(min)
FLOATS = {  # of one number; the result is a float
    "sqrt": _guard(math.sqrt), "exp": _guard(math.exp, inf),
    "rsqrt": lambda a: _divide(1.0, _guard(math.sqrt)(a)), "reciprocal": lambda a: _divide(1.0, a),
    "tanh": math.tanh, "sigmoid": _sigmoid, "erf": math.erf,
    "sin": _guard(math.sin), "cos": _guard(math.cos),
}  # fmt: skip
SAME = {  # the result keeps the dtype
    "abs": abs,
    "square": lambda a: a * a,
    "relu": lambda a: a if a > 0 or a != a else type(a)(0),
}


# -- shapes ---------------------------------------------------------------------------------------
def _count(shape):
    return math.prod(shape)


def _strides(shape):
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return steps[::-1]


def _offsets(shape, strides, start=0):
    """List the offsets of all entries, row by row."""
    places = [start]
    for size, stride in zip(shape, strides, strict=True):
        places = [place + i * stride for place in places for i in range(size)]
    return places


def broadcast_shapes(*shapes):
    """Return the shape to which shapes broadcast, or raise RuntimeError."""
    count = max(map(len, shapes), default=0)
    padded = [(1,) * (count - len(shape)) + tuple(shape) for shape in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise RuntimeError(
                "shapes do not fit: " + " and ".join(str(tuple(shape)) for shape in shapes)
            )
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def _stretch(tensor, shape):
    """List a tensor's entries as if it had a larger shape."""
    own = (1,) * (len(shape) - tensor.ndim) + tensor.shape
    strides = [0 if size == 1 else step for size, step in zip(own, _strides(own), strict=True)]
    return [tensor._data[place] for place in _offsets(shape, strides)]


def _read(value):
    """Read shape and entries from nested lists, which may contain tensors."""
    if isinstance(value, Tensor):
        return value.shape, value._data
    if not isinstance(value, list | tuple | range):
        if not isinstance(value, bool | int | float):
            raise TypeError(f"a tensor must contain numbers, got {type(value).__name__}")
        return (), [value]
    rows = [_read(row) for row in value]
    if len({shape for shape, _ in rows}) > 1:
        raise ValueError("all rows of a tensor must have the same length")
    return (len(rows), *(rows[0][0] if rows else ())), [v for _, row in rows for v in row]


def _given(sizes):
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes


# -- methods alike --------------------------------------------------------------------------------
def _arithmetic(function, kind=None, floats=False, swap=False):
    """Make the method of an operator; its result has a dtype of floats, or another kind."""

    def method(self, other):
        return self._combine(other, function, self._floats(other) if floats else kind, swap)

    return method


def _in_place(function):
    def method(self, *args):
        return self._become(function(self, *args))

    return method


class Tensor:
    """A tensor of nested lists, with torch's arithmetic."""

    __hash__ = object.__hash__
    requires_grad, grad, device = False, None, "cpu"
    _is_view, _home = False, []  # _home: the tensor of which this is a part, and the places

    def __init__(self, data, shape, kind=float32):
        self._data, self.shape, self.dtype = list(data), Size(shape), kind

    # -- looking at it
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        known = {key for key in dir(Tensor) if not key.startswith("_")}
        raise NotHere(f"Tensor.{name}", known)

    def __repr__(self):
        def write(value):
            if isinstance(value, list):
                return f"[{', '.join(map(write, value))}]"
            return f"{value:.4f}" if isinstance(value, float) else str(value)

        return f"tensor({write(self.tolist())})"

    def __format__(self, spec):
        return format(self.item(), spec) if spec and not self.shape else repr(self)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def T(self):
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self):
        return self.transpose(-1, -2)

    def dim(self):
        return self.ndim

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        return len(self._data)

    def __len__(self):
        if not self.shape:
            raise TypeError("len() needs a tensor with an axis, got a single number")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def item(self):
        if len(self._data) != 1:
            raise RuntimeError(f"item() needs a tensor of one number, got shape {self.shape}")
        return self._data[0]

    def tolist(self) -> Any:
        def nest(data, shape):
            if not shape:
                return data[0]
            step = _count(shape[1:])
            return [nest(data[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]

        return nest(self._data, self.shape)

    def __bool__(self):
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __index__(self):
        if self.dtype.is_floating_point:
            raise TypeError(f"an index must be a whole number, got {self.dtype}")
        return int(self.item())

    # -- the same numbers, otherwise
    def _like(self, data, kind=None):
        return Tensor(data, self.shape, kind or self.dtype)

    def _as_view(self):
        self._is_view = True
        return self

    def to(self, *args, dtype=None, **_):
        for arg in args:
            dtype = arg if arg in MAKERS else arg.dtype if isinstance(arg, Tensor) else dtype
        if dtype is None or dtype is self.dtype:
            return self
        make = MAKERS[dtype]
        return self._like([make(value) for value in self._data], dtype)

    def double(self):
        return self.to(float64)

    def float(self):
        return self.to(float32)

    def clone(self):
        return self._like(self._data)

    def detach(self):
        return self

    def contiguous(self):
        return self

    # -- shapes
    def reshape(self, *sizes):
        sizes = list(_given(sizes))
        if sizes.count(-1) == 1:
            rest = _count(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = len(self._data) // rest if rest else 0
        if _count(sizes) != len(self._data):
            raise RuntimeError(
                f"reshape must keep the number of values, got {self.shape} and {tuple(sizes)}"
            )
        return Tensor(self._data, sizes, self.dtype)._as_view()

    view = reshape

    def _axis(self, dim, more=0):
        count = self.ndim + more
        if not -count <= dim < max(count, 1):
            raise IndexError(f"a tensor of {self.ndim} axes has no axis {dim}")
        return dim % max(count, 1)

    def flatten(self, start_dim=0, end_dim=-1):
        if not self.shape:
            return self.reshape(1)
        start, end = self._axis(start_dim), self._axis(end_dim)
        merged = _count(self.shape[start : end + 1])
        return self.reshape(*self.shape[:start], merged, *self.shape[end + 1 :])

    def permute(self, *dims):
        dims = [self._axis(dim) for dim in _given(dims)]
        strides = _strides(self.shape)
        shape = [self.shape[dim] for dim in dims]
        places = _offsets(shape, [strides[dim] for dim in dims])
        return Tensor([self._data[i] for i in places], shape, self.dtype)._as_view()

    def transpose(self, dim0, dim1):
        dims = list(range(self.ndim))
        a, b = self._axis(dim0), self._axis(dim1)
        dims[a], dims[b] = dims[b], dims[a]
        return self.permute(*dims)

    swapaxes = transpose

    def t(self):
        return self.T

    def movedim(self, source, destination):
        source, destination = self._axis(source), self._axis(destination)
        dims = [dim for dim in range(self.ndim) if dim != source]
        return self.permute(*dims[:destination], source, *dims[destination:])

    def unsqueeze(self, dim):
        dim = self._axis(dim, 1)
        return self.reshape(*self.shape[:dim], 1, *self.shape[dim:])

    def squeeze(self, dim=None):
        gone = range(self.ndim) if dim is None else [self._axis(dim)]
        return self.reshape([s for i, s in enumerate(self.shape) if i not in gone or s != 1])

    def expand(self, *sizes):
        sizes = _given(sizes)
        own = (1,) * (len(sizes) - self.ndim) + self.shape
        shape = [a if b == -1 else b for a, b in zip(own, sizes, strict=True)]
        return Tensor(_stretch(self, shape), shape, self.dtype)._as_view()

    def expand_as(self, other):
        return self.expand(other.shape)

    def repeat_interleave(self, repeats, dim=None):
        source = self.flatten() if dim is None else self
        dim = source._axis(dim or 0)
        counts = repeats._data if isinstance(repeats, Tensor) else [repeats]
        counts = counts * source.shape[dim] if len(counts) == 1 else counts
        chosen = [i for i, count in enumerate(counts) for _ in range(count)]
        return source.index_select(dim, chosen)

    def index_select(self, dim, index):
        chosen = index._data if isinstance(index, Tensor) else index
        parts = [self[(slice(None),) * self._axis(dim) + (slice(i, i + 1),)] for i in chosen]
        return cat(parts, dim)

    def flip(self, *dims):
        out = self
        for dim in _given(dims):
            axis = self._axis(dim)
            out = out.index_select(axis, list(reversed(range(self.shape[axis]))))
        return out

    def chunk(self, chunks, dim=0):
        return self.split(-(-self.shape[self._axis(dim)] // chunks), dim)

    def split(self, split_size, dim=0):
        axis = self._axis(dim)
        size = self.shape[axis]
        if isinstance(split_size, int):
            split_size = [min(split_size, size - i) for i in range(0, size, split_size)]
        starts = [sum(split_size[:i]) for i in range(len(split_size))]
        before = (slice(None),) * axis
        return tuple(
            self[(*before, slice(start, start + length))]
            for start, length in zip(starts, split_size, strict=True)
        )

    # -- indices
    def _find(self, index: Any):
        """Return the offsets of the entries that an index selects, and their shape."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) == 1 and isinstance(index[0], Tensor) and index[0].dtype is bool_:
            mask = index[0]
            if mask.shape != self.shape[: mask.ndim]:
                raise IndexError(
                    f"a mask must have the shape of the leading axes of {self.shape}, got "
                    f"{mask.shape}"
                )
            step = _count(self.shape[mask.ndim :])
            rows = [i for i, kept in enumerate(mask._data) if kept]
            places = [row * step + i for row in rows for i in range(step)]
            return places, (len(rows), *self.shape[mask.ndim :])
        used = sum(one is not None and one is not Ellipsis for one in index)
        if used > self.ndim:
            raise IndexError(
                f"a tensor of {self.ndim} axes needs at most {self.ndim} indices, got {used}"
            )
        left = [slice(None)] * (self.ndim - used)
        if Ellipsis in [one if one is Ellipsis else 0 for one in index]:
            at = next(i for i, one in enumerate(index) if one is Ellipsis)
            index = (*index[:at], *left, *index[at + 1 :])
        else:
            index = (*index, *left)
        parts: list[Any] = [*index]
        axes, shape, axis = [], [], 0
        strides = _strides(self.shape)
        lists = 0
        for one in parts:
            if one is None:
                axes.append([0])
                shape.append(1)
                continue
            size, step = self.shape[axis], strides[axis]
            axis += 1
            if isinstance(one, Tensor) and one.dtype is bool_:
                one = [i for i, kept in enumerate(one.tolist()) if kept]
            if isinstance(one, Tensor) and one.shape:
                one = one.tolist()
            if isinstance(one, slice):
                if (one.step or 1) < 0:
                    raise ValueError(
                        f"a step must be positive, got {one.step}; use flip to reverse an axis"
                    )
                chosen = list(range(size)[one])
                shape.append(len(chosen))
            elif isinstance(one, list | tuple):
                lists += 1
                chosen = [range(size)[int(i)] for i in one]
                shape.append(len(chosen))
            else:
                chosen = [range(size)[int(one.__index__())]]
            axes.append([i * step for i in chosen])
        if lists > 1:
            raise NotHere("indexing with two lists", {"one list at a time"})
        return [sum(steps) for steps in itertools.product(*axes)], tuple(shape)

    def __getitem__(self, index):
        places, shape = self._find(index)
        part = Tensor([self._data[i] for i in places], shape, self.dtype)
        part._home = [(self, places)]
        return part

    def __setitem__(self, index, value):
        self._refuse_view()
        places, shape = self._find(index)
        make = MAKERS[self.dtype]
        for place, one in zip(places, _stretch(as_tensor(value), shape), strict=True):
            self._data[place] = make(one)
        self._write_through()

    def _write_through(self):
        if self._home:
            ((whole, places),) = self._home
            for place, value in zip(places, self._data, strict=True):
                whole._data[place] = value
            whole._write_through()

    # -- arithmetic
    def _combine(self, other, function, kind=None, swap=False):
        if not isinstance(other, Tensor):
            if not isinstance(other, bool | int | float):
                return NotImplemented
            made = _kind_of(other)
            # A plain number widens a tensor of whole numbers, and no tensor of floats.
            wide = made if made.is_floating_point and not self.dtype.is_floating_point else None
            other = Tensor([other], (), wide or min((made, self.dtype), key=lambda d: d.rank))
        shape = broadcast_shapes(self.shape, other.shape)
        pairs = zip(_stretch(self, shape), _stretch(other, shape), strict=True)
        data = [function(b, a) if swap else function(a, b) for a, b in pairs]
        kind = kind or promote_types(self.dtype, other.dtype)
        if kind is bool_ and data and not isinstance(data[0], bool):
            kind = int64
        return Tensor(data, shape, kind)

    def _floats(self, other=None):
        kinds = [t.dtype for t in (self, other) if isinstance(t, Tensor)]
        wide = max(kinds, key=lambda kind: kind.rank)
        return wide if wide.is_floating_point else float32

    __add__ = __radd__ = add = _arithmetic(operator.add)
    __sub__ = sub = _arithmetic(operator.sub)
    __rsub__ = _arithmetic(operator.sub, swap=True)
    __mul__ = __rmul__ = mul = _arithmetic(operator.mul)
    __truediv__ = div = _arithmetic(_divide, floats=True)
    __rtruediv__ = _arithmetic(_divide, floats=True, swap=True)
    __pow__ = pow = _arithmetic(_power)
    __rpow__ = _arithmetic(_power, swap=True)
    __and__, __or__ = _arithmetic(operator.and_), _arithmetic(operator.or_)
    __eq__, __ne__ = _arithmetic(operator.eq, bool_), _arithmetic(operator.ne, bool_)
    __lt__, __le__ = _arithmetic(operator.lt, bool_), _arithmetic(operator.le, bool_)
    __gt__, __ge__ = _arithmetic(operator.gt, bool_), _arithmetic(operator.ge, bool_)

    def __neg__(self):
        return self._like([-value for value in self._data])

    def __abs__(self):
        return self._like([abs(value) for value in self._data])

    def __matmul__(self, other):
        a = self if self.ndim > 1 else self.unsqueeze(0)
        b = other if other.ndim > 1 else other.unsqueeze(1)
        (rows, inner), (inner_b, columns) = a.shape[-2:], b.shape[-2:]
        if inner != inner_b:
            raise RuntimeError(
                f"{self.shape} @ {other.shape} needs equal inner sizes, got {inner} and {inner_b}"
            )
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        left = _stretch(a, (*batch, rows, inner))
        right = _stretch(b, (*batch, inner, columns))
        data = []
        for number in range(_count(batch)):
            one = left[number * rows * inner :][: rows * inner]
            two = right[number * inner * columns :][: inner * columns]
            turned = [two[j::columns] for j in range(columns)] if inner else [[]] * columns
            for i in range(rows):
                row = one[i * inner : (i + 1) * inner]
                data += [sum(map(float.__mul__, map(float, row), map(float, column)), 0.0)
                         for column in turned]  # fmt: skip
        shape = [*batch, *([rows] if self.ndim > 1 else []), *([columns] if other.ndim > 1 else [])]
        kind = promote_types(self.dtype, other.dtype)
        return Tensor(map(MAKERS[kind], data), shape, kind)

    def matmul(self, other):
        return self @ other

    mm = matmul

    def clamp(self, min=None, max=None):
        out = self
        out = out if min is None else out._combine(min, _largest)
        return out if max is None else out._combine(max, _smallest)

    clip = clamp

    def clamp_min(self, min):
        return self.clamp(min=min)

    def clamp_max(self, max):
        return self.clamp(max=max)

    def lerp(self, end, weight):
        return self + weight * (end - self)

    # -- sums and the like
    def _reduce(self, function, dim, keepdim, kind=None):
        if dim is None or (isinstance(dim, list | tuple) and not dim):
            dims = set(range(self.ndim))
        else:
            dims = {self._axis(one) for one in (dim if isinstance(dim, list | tuple) else [dim])}
        kept = [i for i in range(self.ndim) if i not in dims]
        gone = [i for i in range(self.ndim) if i in dims]
        strides = _strides(self.shape)
        starts = _offsets([self.shape[i] for i in kept], [strides[i] for i in kept])
        inner = _offsets([self.shape[i] for i in gone], [strides[i] for i in gone])
        data = [function([self._data[start + i] for i in inner]) for start in starts]
        shape = [1 if i in dims else size for i, size in enumerate(self.shape)]
        shape = shape if keepdim else [self.shape[i] for i in kept]
        return Tensor(data, shape, kind or self.dtype)

    def sum(self, dim=None, keepdim=False, *, axis=None):
        kind = self.dtype if self.dtype.is_floating_point else int64
        start = 0.0 if kind.is_floating_point else 0
        dim = axis if dim is None else dim
        return self._reduce(lambda values: sum(values, start), dim, keepdim, kind)

    def mean(self, dim=None, keepdim=False, *, axis=None):
        if not self.dtype.is_floating_point:
            raise RuntimeError(f"a mean needs floats, got {self.dtype}; call .double() first")
        dim = axis if dim is None else dim
        return self._reduce(lambda v: sum(v) / len(v) if v else nan, dim, keepdim)

    def var(self, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        less = (1 if unbiased in (None, True) else 0) if correction is None else correction

        def spread(values):
            mean = sum(values) / len(values)
            return _divide(sum((v - mean) ** 2 for v in values), max(0, len(values) - less))

        return self._reduce(spread, axis if dim is None else dim, keepdim)

    def std(self, *args, **more):
        return self.var(*args, **more).sqrt()

    def norm(self, p=2, dim=None, keepdim=False):
        if p not in (2, "fro", None):
            raise NotHere(f"norm of order {p}", {"the norm of order 2"})
        return self._reduce(lambda v: math.sqrt(sum(x * x for x in v)), dim, keepdim)

    def maximum(self, other):
        return self._choose(other, _largest)

    def minimum(self, other):
        return self._choose(other, _smallest)

    def _choose(self, other, better):
        if not isinstance(other, Tensor):
            raise TypeError(
                f"maximum and minimum need two tensors, got {type(other).__name__}; for a number "
                "use clamp"
            )
        return self._combine(other, better)

    def amax(self, dim=None, keepdim=False):
        return self._reduce(lambda v: functools.reduce(_largest, v), dim, keepdim)

    def amin(self, dim=None, keepdim=False):
        return self._reduce(lambda v: functools.reduce(_smallest, v), dim, keepdim)

    def argmax(self, dim=None, keepdim=False):
        return self._reduce(lambda v: v.index(functools.reduce(_largest, v)), dim, keepdim, int64)

    def max(self, other=None):
        return self.amax() if other is None else self.maximum(other)

    def min(self, other=None):
        return self.amin() if other is None else self.minimum(other)

    # -- in place
    def _refuse_view(self):
        if self._is_view:
            raise NotHere(
                "modifying a view in place",
                {"changes of a whole tensor, of a part, and x[…] = …"},
            )

    def _become(self, other):
        self._refuse_view()
        if other.shape != self.shape:
            raise RuntimeError(
                f"an in-place result must have shape {self.shape}, got {other.shape}"
            )
        self._data = [MAKERS[self.dtype](value) for value in other._data]
        self._write_through()
        return self

    __iadd__ = add_ = _in_place(__add__)
    __isub__ = sub_ = _in_place(__sub__)
    __imul__ = mul_ = _in_place(__mul__)
    __itruediv__ = div_ = _in_place(__truediv__)
    lerp_ = _in_place(lerp)

    def copy_(self, other):
        return self._become(as_tensor(other).expand(self.shape))


def _of_one(function, floats):
    def method(self):
        kind = self._floats() if floats else self.dtype
        return self._like([function(value) for value in self._data], kind)

    return method


for _name in (*FLOATS, *SAME):
    setattr(Tensor, _name, _of_one({**FLOATS, **SAME}[_name], _name in FLOATS))


# -- making them ----------------------------------------------------------------------------------
def tensor(data, dtype=None, **_):
    """Make a tensor from nested lists of numbers."""
    shape, values = _read(data)
    kind = data.dtype if isinstance(data, Tensor) else None
    kind = dtype or kind or max(map(_kind_of, values), key=lambda k: k.rank, default=float32)
    return Tensor(map(MAKERS[kind], values), shape, kind)


def as_tensor(data, dtype=None):
    """Return a tensor unchanged; make one from anything else."""
    return data.to(dtype) if isinstance(data, Tensor) else tensor(data, dtype)


def full(size, fill_value, dtype=None, **_):
    """Make a tensor filled with one number."""
    size = (size,) if isinstance(size, int) else tuple(size)
    return tensor(fill_value, dtype).expand(size).clone()


def full_like(other, fill_value, dtype=None):
    """Make a tensor filled with one number, in the shape of another."""
    return full(other.shape, fill_value, dtype or other.dtype)


def _filled(fill_value):
    """Make two functions that fill a tensor: one of given sizes, one in the shape of another."""

    def make(*size, dtype=float32, **_):
        return full(_given(size), fill_value, dtype)

    return make, lambda other, dtype=None: full_like(other, fill_value, dtype)


(zeros, zeros_like), (ones, ones_like) = _filled(0), _filled(1)
empty, empty_like = zeros, zeros_like


def eye(n, m=None, dtype=float32):
    """Make an identity matrix."""
    return tensor([[float(i == j) for j in range(m or n)] for i in range(n)], dtype)


# -- several of them ------------------------------------------------------------------------------
def cat(tensors, dim=0):
    """Join tensors along an axis."""
    tensors = list(tensors)
    axis = tensors[0]._axis(dim)
    rest = {t.shape[:axis] + t.shape[axis + 1 :] for t in tensors}
    if len(rest) > 1:
        raise RuntimeError(
            "tensors to join must have the same shape, except along the axis of the join; got "
            f"{[t.shape for t in tensors]}"
        )
    before = _count(tensors[0].shape[:axis])
    data = []
    for i in range(before):
        for one in tensors:
            step = _count(one.shape[axis:])
            data += one._data[i * step : (i + 1) * step]
    shape = list(tensors[0].shape)
    shape[axis] = sum(one.shape[axis] for one in tensors)
    kind = max((one.dtype for one in tensors), key=lambda k: k.rank)
    return Tensor(data, shape, kind)


concat = concatenate = cat


def stack(tensors, dim=0):
    """Stack tensors of the same shape along a new axis."""
    return cat([one.unsqueeze(dim) for one in tensors], dim)


def where(condition, input, other):
    """Take the entries of one tensor where a condition is true, and of another elsewhere."""
    kinds = [v.dtype for v in (input, other) if isinstance(v, Tensor)]
    input, other = as_tensor(input), as_tensor(other)
    shape = broadcast_shapes(condition.shape, input.shape, other.shape)
    parts = (_stretch(one, shape) for one in (condition, input, other))
    data = [a if kept else b for kept, a, b in zip(*parts, strict=True)]
    kind = max(kinds or [input.dtype, other.dtype], key=lambda k: k.rank)
    return Tensor(map(MAKERS[kind], data), shape, kind)


def einsum(equation, *tensors):
    """Sum products over the letters that the result leaves out."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    letters = "".join(dict.fromkeys("".join(terms)))
    if not arrow:
        output = "".join(sorted(c for c in letters if inputs.count(c) == 1))
    if "." in equation:
        raise NotHere("einsum with an ellipsis", {"einsum with letters"})
    order = output + "".join(c for c in letters if c not in output)
    made = tensor(1.0, tensors[0].dtype)
    for term, one in zip(terms, tensors, strict=True):
        kept = sorted(term, key=order.index)
        one = one.permute(*(term.index(c) for c in kept))
        one = one.reshape([one.shape[kept.index(c)] if c in kept else 1 for c in order])
        made = made * one
    gone = tuple(range(len(output), len(order)))
    return made.sum(gone) if gone else made


class no_grad:
    """Do nothing: this stand-in keeps no gradients."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __call__(self, function):
        return function


# -- torch.f(x, …) is x.f(…) ----------------------------------------------------------------------
NO_FUNCTIONS = {  # of a tensor; torch has no functions of these names
    "T", "add_", "contiguous", "copy_", "device", "dim", "div_", "double", "dtype", "expand",
    "expand_as", "float", "grad", "item", "lerp_", "mT", "mul_", "ndim", "requires_grad", "shape",
    "size", "sub_", "to", "tolist", "view",
}  # fmt: skip


def _function_of(name):
    def function(input, *args, **more):
        return getattr(as_tensor(input), name)(*args, **more)

    function.__name__ = name
    return function


# Names such as max, which in this file are Python's own, are found by __getattr__ below.
_FUNCTIONS = {
    name: _function_of(name)
    for name in dir(Tensor)
    if not name.startswith("_") and name not in NO_FUNCTIONS
}


def _normalize(input, p=2.0, dim=1, eps=1e-12):
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def _vector_norm(x, ord=2, dim=None, keepdim=False):
    return x.norm(ord, dim, keepdim)


class Namespace:
    """A part of torch, such as torch.linalg."""

    def __init__(self, name, **members):
        self.__dict__.update(members)
        self._name, self._known = name, set(members)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotHere(f"{self._name}.{name}", self._known)


linalg = Namespace("linalg", norm=_vector_norm, vector_norm=_vector_norm)
functional = Namespace(
    "nn.functional",
    normalize=_normalize,
    **{name: _FUNCTIONS[name] for name in ("relu", "sigmoid", "tanh")},
)
nn = Namespace("nn", functional=functional)


def __getattr__(name):
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in KINDS:
        return KINDS[name]
    if name.startswith("__"):
        raise AttributeError(name)
    own = {key for key, value in globals().items() if key.islower() and callable(value)}
    raise NotHere(name, {key for key in own if not key.startswith("_")} | {*_FUNCTIONS, "nn"})
