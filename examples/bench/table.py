"""Tables of what run.sh printed.

usage: table.py RESULTS ... [--write PAGE]

--write puts the tables between the marker lines of a Markdown page instead of printing them.
"""
import sys

SCALING = "scale_"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def read(paths):
    """{(workload, metric): {peer: {layout: [value of each run]}}}"""
    found = {}
    for path in paths:
        for line in open(path):
            if line.startswith("result "):
                kv = dict(x.split("=", 1) for x in line.split()[1:] if "=" in x)
                peers = found.setdefault((kv["workload"], kv["metric"]), {})
                runs = peers.setdefault(kv["peer"], {}).setdefault(kv["layout"], [])
                runs.append(float(kv["value"]))
    return found


def number(value):
    return "%.3g" % value if value < 1000 else "%.0f" % value


def best(layouts):
    """(least value of all runs, its layout)"""
    return min((min(runs), layout) for layout, runs in layouts.items())


def row(cells):
    return "| " + " | ".join(cells) + " |"


def head(cells):
    return [row(cells), "|" + "---|" * len(cells)]


def steps(found):
    """Best step of all rounds, the range of the rounds' medians, the ratio to the best peer."""
    lines = head(["workload", "mesh: layout", "best, ms", "medians, ms", "best peer: layout", "best, ms",
                  "medians, ms", "times the best peer"])
    for (workload, metric), peers in found.items():
        if metric != "step_ms_min" or "mesh" not in peers or workload.startswith(SCALING):
            continue
        medians = found[workload, "step_ms_median"]

        def cells(peer, layout):
            runs = medians[peer][layout]
            spread = "%s..%s" % (number(min(runs)), number(max(runs)))
            return [number(min(peers[peer][layout])), spread]

        others = [(best(layouts), peer) for peer, layouts in peers.items() if peer != "mesh"]
        (rival, rival_layout), rival_peer = min(others) if others else ((None, None), None)
        own, _ = best(peers["mesh"])
        for layout in peers["mesh"]:
            least = min(peers["mesh"][layout])
            bold = "**%s**" if least == own else "%s"
            line = [workload, bold % layout] + cells("mesh", layout)
            if rival_peer:
                line += ["%s: %s" % (rival_peer, rival_layout)] + cells(rival_peer, rival_layout)
                line += [bold % ("%.2f" % (rival / least))]
            lines.append(row(line + [""] * (8 - len(line))))
    return lines


def peers(found):
    """Every peer's best layout."""
    names = sorted({p for (_, m), ps in found.items() if m == "step_ms_min" for p in ps})
    lines = head(["best step, ms"] + names)
    for (workload, metric), by_peer in found.items():
        if metric == "step_ms_min" and not workload.startswith(SCALING):
            cells = [by_peer.get(p) and "%s (%s)" % (number(best(by_peer[p])[0]), best(by_peer[p])[1])
                     for p in names]
            lines.append(row([workload] + [c or "-" for c in cells]))
    return lines


def pivot(found, metric, title, prefix, better=min, show=number):
    """The best of all runs by workload and layout, a column for each peer."""
    names = sorted({p for (w, m), ps in found.items() if m == metric and w.startswith(prefix) for p in ps})
    if not names:
        return []
    lines = head([title, "layout"] + names)
    for (workload, m), by_peer in found.items():
        if m != metric or not workload.startswith(prefix):
            continue
        layouts = sorted({layout for runs in by_peer.values() for layout in runs})
        for layout in layouts:
            values = [by_peer.get(p, {}).get(layout) for p in names]
            cells = [show(better(v)) if v else "-" for v in values]
            lines.append(row([workload, layout] + cells))
    return lines


def scaling(found):
    """Our best step and what it computes, each size doubled again and again."""
    sizes = {}
    for (workload, metric), by_peer in found.items():
        if workload.startswith(SCALING) and metric == "step_ms_min":
            what, times = workload[len(SCALING):].split("_x")
            for layout, runs in by_peer["mesh"].items():
                gflops = max(found[workload, "gflops"]["mesh"][layout])
                cell = "%s (%s)" % (number(min(runs)), number(gflops))
                sizes.setdefault((what, layout), {})[int(times)] = cell
    columns = sorted({times for cells in sizes.values() for times in cells})
    lines = head(["ms (GFLOP/s)", "layout"] + ["x%d" % times for times in columns])
    for (what, layout), cells in sizes.items():
        lines.append(row([what, layout] + [cells.get(times, "-") for times in columns]))
    return lines


def tables(found):
    parts = [
        ("Training steps", steps(found)),
        ("The same, each peer in its best layout", peers(found)),
        ("Losses after ten steps", pivot(found, "loss_at_step_10", "loss", "", show="%.6g".__mod__)),
        ("Process start to first step done", pivot(found, "process_start_to_first_step_s", "seconds", "mlp_b128")),
        ("Scaling", scaling(found)),
        ("Making a training step of so many layers runnable", pivot(found, "total_s", "seconds", "graph_")),
        ("Its memory", pivot(found, "peak_rss_mib", "peak MiB", "graph_")),
        ("All-reduce", pivot(found, "us_median", "microseconds", "allreduce_")),
        ("Adam's update of one variable, of triad bandwidth", pivot(found, "of_triad", "share", "adam_", max)),
        ("The machine meanwhile", pivot(found, "gflops", "GFLOP/s", "peak_", max)
         + [""] + pivot(found, "gb_per_s", "GB/s", "bw_", max)),
    ]
    text = []
    for title, lines in parts:
        if len(lines) > 2:
            text += ["### " + title, ""] + lines + [""]
    return text


def main():
    args = sys.argv[1:]
    page = None
    if "--write" in args:
        at = args.index("--write")
        page = args[at + 1]
        del args[at:at + 2]
    text = "\n".join(tables(read(args)))
    if page is None:
        print(text)
        return
    old = open(page).read()
    before, rest = old.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    open(page, "w").write(before + BEGIN + "\n" + text + END + after)


main()
