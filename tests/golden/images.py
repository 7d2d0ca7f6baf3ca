"""Images resized as `jax.image` does it."""

import jax

from draw import golden


def resizing(method, antialias, times=3):
    def define(draw):
        for dim in "hw":
            draw.size(dim, (2, 3, 4))
        draw.sizes["c"] = 2
        draw.normal("x", "h w c")
        size = draw.attribute("size", [int(draw.rng.choice((1, 2, 4, 5))) for _ in range(2)])
        shape = (*size, 2)
        return lambda x: jax.image.resize(x, shape, method, antialias=antialias)

    name = f"resize_{method}{'_antialias' if antialias else ''}"
    # JAX multiplies all of a row by zeros and weights, so that one NaN reaches all; PyTorch's edges are ours.
    globals()[name] = golden(times, name, without="infinities nan")(define)


resizing("nearest", False)
resizing("linear", False)
resizing("linear", True)
resizing("cubic", False)
resizing("cubic", True)
