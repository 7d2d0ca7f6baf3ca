"""What instances are drawn with: sizes, attributes and elements."""

import zlib

import numpy as np

SEED = 20_261_121
SIZES = (2, 2, 3, 4, 4, 6)
EVEN = (2, 4, 6)
# Instances of a definition, at least.
TIMES = 3
AGAIN_MOST = 400
# Elements of all inputs of an instance but the first, where its sizes allow it.
FEW = 60
# What is put into floats at edges, a few of each input.
EDGES = {"infinities": (np.inf, -np.inf), "nan": (np.nan,), "elsewhere": (np.inf, np.nan)}
# Elements of all inputs of an instance at edges, where its sizes allow it.
FEWER = 30


class Draw:
    """Draws one instance, and remembers what was drawn. A dim has one size in an instance."""

    def __init__(self, name, again=0):
        self.number = int(name.rsplit("/")[-1])
        self.rng = np.random.default_rng([SEED, zlib.crc32(name.encode())] + [again] * (again > 0))
        self.sizes, self.inputs, self.attributes = {}, [], {}
        # What may be put into an input at edges instead, by its name.
        self.ends = {}

    def size(self, dim, among=None):
        """The size of a dim, drawn at its first use. The first is even: some dim can be split."""
        if dim not in self.sizes:
            among = among or (SIZES if self.sizes else EVEN)
            self.sizes[dim] = int(self.rng.choice(among))
        return self.sizes[dim]

    def attribute(self, name, value):
        """An attribute of the op."""
        self.attributes[name] = value
        return value

    def among(self, name, values):
        """An attribute that is one of some values."""
        return self.attribute(name, values[int(self.rng.integers(len(values)))])

    def some(self, name, dims):
        """An attribute that is at least one of some dims; returns their positions."""
        dims = dims.split()
        count = int(self.rng.integers(1, len(dims) + 1))
        at = sorted(int(i) for i in self.rng.choice(len(dims), count, replace=False))
        self.attribute(name, [dims[i] for i in at])
        return tuple(at)

    def one(self, name, dims):
        """An attribute that is one of some dims; returns its position."""
        dims = dims.split()
        return dims.index(self.among(name, dims))

    def _input(self, name, dims, elements):
        sizes = [self.size(dim) for dim in dims.split()]
        shape = ";".join(f"{dim}:{size}" for dim, size in zip(dims.split(), sizes))
        self.inputs.append((name, shape, elements(sizes)))

    def normal_of(self, sizes):
        """Bell-shaped multiples of 1/64."""
        return np.round(self.rng.normal(size=sizes) * 64) / 64

    def normal(self, name, dims):
        """An input of bell-shaped numbers."""
        self._input(name, dims, self.normal_of)

    def positive(self, name, dims):
        """An input of numbers between 1/4 and 4."""
        self._input(name, dims, lambda sizes: self.rng.integers(16, 256, sizes) / 64)

    def away(self, name, dims):
        """An input of numbers at least 1/4 away from 0, either side."""
        sign = lambda sizes: self.rng.choice([-1.0, 1.0], sizes)
        self._input(name, dims, lambda sizes: sign(sizes) * self.rng.integers(16, 160, sizes) / 64)

    def distinct(self, name, dims):
        """An input of numbers of which no two are equal and none is 0."""

        def elements(sizes):
            count = int(np.prod(sizes))
            return (self.rng.permutation(count).reshape(sizes) - count // 2) / 16 + 1 / 64

        self._input(name, dims, elements)

    def integers(self, name, dims, low, high):
        """An input of whole numbers from `low` to `high`."""
        self._input(name, dims, lambda sizes: self.rng.integers(low, high + 1, sizes, np.int32))

    def between(self, name, dims, low, high):
        """An input of multiples of 1/64 between two numbers, the ends left out."""
        numbers = lambda sizes: self.rng.integers(int(low * 64) + 1, int(high * 64), sizes) / 64
        self._input(name, dims, numbers)

    def edges(self, name, dims, among=(np.inf, -np.inf, np.nan, 0.0, 1.5, -2.0)):
        """An input of numbers among which are infinities and NaN."""
        self._input(name, dims, lambda sizes: self.rng.choice(np.array(among), sizes))

    def coarse(self, name, dims):
        """An input of few different floats: many are equal."""
        self._input(name, dims, lambda sizes: self.rng.integers(-2, 3, sizes) / 2)

    def bools(self, name, dims):
        """An input of truth values."""
        self._input(name, dims, lambda sizes: self.rng.integers(0, 2, sizes) == 1)

    def put(self, kind, rng):
        """Puts what is at the edges into some elements; says whether there are any. Infinities and NaN stand in the
        first input of floats, or else in all others; ties are in all of them, zeros in the input that is named."""
        floats = [i for i, (_, _, array) in enumerate(self.inputs) if np.asarray(array).dtype.kind == "f"]
        chosen = {"elsewhere": floats[1:], "ties": floats}.get(kind, floats[:1])
        if isinstance(kind, tuple):
            chosen = [i for i, (name, _, _) in enumerate(self.inputs) if name == kind[1]]
        for i in chosen:
            name, shape, array = self.inputs[i]
            ends = self.ends.get(name, EDGES.get(kind))
            if isinstance(kind, tuple):
                array = np.zeros_like(array)
            elif kind == "ties":
                array = rng.choice(self.ends.get(name, (-0.5, 0.5, 1.0)), np.shape(array))
            else:
                array = np.array(array)
                among = rng.choice(ends, len(ends), replace=False) if ends else []
                places = rng.choice(array.size, min(len(among), array.size), replace=False)
                array.reshape(-1)[places] = among[: len(places)]
            self.inputs[i] = (name, shape, array)
        return any(kind not in EDGES or self.ends.get(self.inputs[i][0], True) for i in chosen)

    def shapes(self):
        """What instances of a definition differ in."""
        return [shape for _, shape, _ in self.inputs]

    def count(self):
        """How many elements the inputs have together."""
        return sum(np.size(array) for _, _, array in self.inputs)

    def is_odd(self):
        """Whether some input has a dim of odd size."""
        sizes = [size for _, _, array in self.inputs for size in np.shape(array)]
        return any(size % 2 and size > 1 for size in sizes)


def golden(times=TIMES, name=None, without="", ties=False, zeros=None):
    """Marks a definition: it draws inputs and attributes, and returns the function of the inputs. Instances at edges are
    of every kind but those in `without`, of ties if the function chooses among elements, and with an input that is
    zeros if that is named."""
    assert times >= TIMES, f"{name}: {times} instances"

    def mark(define):
        define.golden = (name or define.__name__, times)
        define.edges = [kind for kind in EDGES if kind not in without.split()] + ["ties"] * ties
        define.edges += [("zeros", zeros)] if zeros else []
        return define

    return mark


def instances_of(module):
    """Name, draw and function of every instance of a module. Of a definition no two have the same shapes, and one has
    an odd size: what does not fit is drawn again."""
    for define in [each for each in vars(module).values() if hasattr(each, "golden")]:
        name, times = define.golden
        known, is_odd = [], False
        for i in range(times):
            for again in range(AGAIN_MOST):
                draw = Draw(f"{name}/{i}", again)
                function = define(draw)
                is_last, is_small = i == times - 1, draw.count() <= FEW or again > AGAIN_MOST / 2
                fits = is_odd or draw.is_odd() or not is_last
                if draw.shapes() not in known and fits and (is_small or i == 0):
                    break
            else:
                raise ValueError(f"{name}/{i}: no new shapes, or no odd size")
            known.append(draw.shapes())
            is_odd |= draw.is_odd()
            yield f"{name}/{i}", draw, function


def at_edges(module):
    """Name, draw and function of the instances of a module at edges, and what is at the edge."""
    for define in [each for each in vars(module).values() if hasattr(each, "golden")]:
        name, _ = define.golden
        for again in range(AGAIN_MOST):
            tried = Draw(f"{name}/1", again)
            define(tried)
            if tried.count() <= FEWER or (tried.count() <= FEW and again > AGAIN_MOST / 2):
                break
        for kind in define.edges:
            # The same sizes for all kinds.
            draw = Draw(f"{name}/1", again)
            function = define(draw)
            called = kind if isinstance(kind, str) else kind[0]
            rng = np.random.default_rng([SEED, zlib.crc32(f"{name}/{called}".encode())])
            if draw.put(kind, rng):
                yield f"{name}/{called}", draw, function, called
