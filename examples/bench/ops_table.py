"""The table of docs/performance.md of what `bench ops` and ops.py printed.

usage: ops_table.py RESULTS ... [--all] [--write PAGE]

Ratios are PyTorch's least time by ours, worst first. Ops that are ahead in all columns are named below the table;
--all puts them into it. Of those behind, ops_held.txt says what holds them. --write puts the table between the marker lines of a Markdown page.
"""

import math
import pathlib
import sys

BEGIN, END = "<!-- ops: begin -->", "<!-- ops: end -->"
BEHIND = 0.95
COLUMNS = [(layout, metric) for metric in ("forward_us", "train_us") for layout in ("t1", "t2")]


def read(paths):
    found = {}
    for path in paths:
        for line in open(path):
            if line.startswith("result workload=op_"):
                kv = dict(x.split("=", 1) for x in line.split()[1:])
                key = kv["workload"][3:], kv["layout"], kv["metric"], kv["peer"]
                found[key] = min(float(kv["value"]), found.get(key, math.inf))
    return found


def held():
    """What holds each op."""
    reasons = {}
    for line in (pathlib.Path(__file__).parent / "ops_held.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            reason, names = line.split(" | ")
            reasons.update(dict.fromkeys(names.split(), reason))
    return reasons


def main():
    arguments = sys.argv[1:]
    page = arguments.pop(arguments.index("--write") + 1) if "--write" in arguments else None
    every = "--all" in arguments
    found = read([a for a in arguments if not a.startswith("--")])
    names = list(dict.fromkeys(key[0] for key in found))
    rows = {}
    for name in names:
        for layout, metric in COLUMNS:
            both = [found.get((name, layout, metric, peer)) for peer in ("torch", "mesh")]
            if all(both):
                rows.setdefault(name, {})[layout, metric] = both[0] / both[1]
    ratios = [ratio for row in rows.values() for ratio in row.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    below = lambda limit: sum(ratio < limit for ratio in ratios)
    lines = [
        f"{len(rows)} ops, {len(ratios)} ratios: geometric mean {mean:.2f}, {below(1)} below 1, {below(0.95)} below 0.95.",
        "",
        "| op | alone, 1 thread | 2 threads | trained, 1 thread | 2 threads | what holds it |",
        "|---|---|---|---|---|---|",
    ]
    ahead, reasons = [], held()
    for name in sorted(rows, key=lambda name: min(rows[name].values())):
        if min(rows[name].values()) >= 1.2 and not every:
            ahead.append(name)
            continue
        cells = [f"{rows[name][c]:.2f}" if c in rows[name] else "" for c in COLUMNS]
        behind = any(ratio < BEHIND for ratio in rows[name].values())
        if behind and name not in reasons:
            print(f"ops_held.txt says nothing of {name}", file=sys.stderr)
        reason = reasons.get(name, "") if behind else ""
        lines.append(f"| `{name}` | " + " | ".join(cells) + f" | {reason} |")
    if ahead:
        lines += ["", "At least 1.2 in every column: " + ", ".join(f"`{name}`" for name in sorted(ahead)) + "."]
    text = "\n".join(lines)
    if page is None:
        print(text)
        return
    old = open(page).read()
    head, tail = old.split(BEGIN)[0], old.split(END)[1]
    open(page, "w").write(f"{head}{BEGIN}\n{text}\n{END}{tail}")


main()
