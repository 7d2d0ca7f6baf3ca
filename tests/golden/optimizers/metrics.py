"""The metric that reductions on plateaus are given, and how rates are written."""

import json
import random


def metrics():
    """A loss that falls, more and more slowly, with noise and levels; multiples of 2^-10."""
    generator = random.Random("plateau")
    found, level = [], 4.0
    for step in range(80):
        if step % 20 < 8:
            level *= 0.93
        found.append(round((level + generator.uniform(-0.01, 0.03)) * 1024) / 1024)
    return found


METRICS = metrics()


def write(path, header, rates, scales):
    numbers = lambda lists: ",\n".join(
        f'{json.dumps(name)}: [{",".join(f"{x:.14g}" for x in values)}]'
        for name, values in lists.items())
    head = json.dumps(header)[1:-1]
    metric = ",".join(repr(x) for x in METRICS)
    path.write_text(f'{{{head},\n"metrics": [{metric}],\n"rates": {{{numbers(rates)}}},\n'
                    f'"scales": {{{numbers(scales)}}}}}\n')
    print(path.name, path.stat().st_size, "bytes,", len(rates), "schedules")
