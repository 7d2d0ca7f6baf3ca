"""The matrix products of a step, as NumPy's and PyTorch's libraries multiply them.

    bench profile --workload lm_adamw --name dp2 | python products.py [threads]

Reads the table of products that `bench profile` prints. Each is multiplied at the same shape and
transposition by one thread per processor, all at once, each with matrices of its own, the same ones again
and again. Prints the time of all products of a step in the step, so by Rust's ndarray, and so by the libraries
that can be imported.
"""

import os
import re
import sys
import threading
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

PRODUCT = re.compile(
    r"\| ([NT]{3}) (\d+) of (\d+)x(\d+)x(\d+) \| (\d+) \| (\S+) \| \S+ \| \S+ \| \S+ \| (\S+) \|"
)
SECONDS = 0.3


def numpy_product(turned, m, k, n):
    import numpy as np

    def matrix(turn, rows, columns):
        turn = turn == "T"
        shape = (columns, rows) if turn else (rows, columns)
        matrix = np.random.rand(*shape).astype(np.float32)
        return matrix.T if turn else matrix

    a, b, c = matrix(turned[0], m, k), matrix(turned[1], k, n), matrix(turned[2], m, n)
    if turned[2] == "T":
        a, b, c = b.T, a.T, c.T
    return lambda: np.dot(a, b, out=c)


def torch_product(turned, m, k, n):
    import torch

    torch.set_num_threads(1)

    def matrix(turn, rows, columns):
        return torch.rand(columns, rows).T if turn == "T" else torch.rand(rows, columns)

    a, b, c = matrix(turned[0], m, k), matrix(turned[1], k, n), matrix(turned[2], m, n)
    return lambda: torch.mm(a, b, out=c)


def best(make, threads, *product):
    """Seconds of one product while all threads multiply."""
    found = [float("inf")] * threads
    ready = threading.Barrier(threads)

    def work(thread):
        run = make(*product)
        run()
        ready.wait()
        begin = time.perf_counter()
        while time.perf_counter() - begin < SECONDS:
            before = time.perf_counter()
            run()
            found[thread] = min(found[thread], time.perf_counter() - before)

    all_threads = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return max(found)


def libraries():
    for name, make in (("numpy", numpy_product), ("torch", torch_product)):
        try:
            module = __import__(name)
        except ImportError:
            print(f"skipped: no {name} here", file=sys.stderr)
            continue
        yield f"{name} {module.__version__}", make


def main():
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    products = [match.groups() for match in map(PRODUCT.match, sys.stdin) if match]
    if not products:
        sys.exit("there is no table of products in the input: is it from `bench profile`?")
    known = list(libraries())
    header = ["product", "runs", "in the step", "ndarray"] + [name for name, _ in known]
    print("|", " | ".join(header), "|")
    print("|" + "---|" * len(header))
    total = [0.0] * (2 + len(known))
    for turned, batch, m, k, n, runs, in_step, ndarray in products:
        batch, m, k, n, runs = (int(x) for x in (batch, m, k, n, runs))
        times = [float(in_step), float(ndarray)]
        for _, make in known:
            times.append(best(make, threads, turned, m, k, n) * 1e3 * runs * batch)
        total = [x + y for x, y in zip(total, times)]
        cells = [f"{turned} {batch} of {m}x{k}x{n}", str(runs)] + [f"{x:.3g} ms" for x in times]
        print("|", " | ".join(cells), "|")
    print("|", " | ".join(["all", ""] + [f"{x:.4g} ms" for x in total]), "|")


main()
