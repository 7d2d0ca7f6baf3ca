"""Prints what TensorBoard's own reader finds in a folder of event files, as JSON."""

import json
import sys

from tensorboard.backend.event_processing import event_accumulator

everything = {event_accumulator.SCALARS: 0, event_accumulator.HISTOGRAMS: 0}
found = event_accumulator.EventAccumulator(sys.argv[1], size_guidance=everything)
found.Reload()
tags = found.Tags()
scalars = {tag: [[event.step, event.value] for event in found.Scalars(tag)] for tag in tags["scalars"]}
histograms = {}
for tag in tags["histograms"]:
    values = [(event.step, event.histogram_value) for event in found.Histograms(tag)]
    histograms[tag] = [
        [step, h.min, h.max, h.num, h.sum, h.sum_squares, list(h.bucket_limit), list(h.bucket)]
        for step, h in values
    ]
print(json.dumps({"scalars": scalars, "histograms": histograms}))
