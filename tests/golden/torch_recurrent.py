"""PyTorch's recurrent layers: weights have dims of their own, in its order of elements."""

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from draw import golden

MODULES = {"lstm": (torch.nn.LSTM, 4), "gru": (torch.nn.GRU, 3), "plain": (torch.nn.RNN, 1)}


# Batch, time, input, state and the lengths of packed sequences: one of length 1, all of full length, and several.
PACKED = [(3, 4, 2, 2, [1, 4, 3]), (2, 3, 3, 3, [3, 3]), (4, 2, 1, 1, [2, 1, 1, 2])]


def cells(draw, gates, layers, directions):
    """Inputs for all weights, under torch's names."""
    draw.sizes |= {"gates": gates, "_state": draw.sizes["state"], "directions": 2}
    names = []
    for layer in range(layers):
        below = "input" if layer == 0 else "_state" if directions == 1 else "directions _state"
        for suffix in ["", "_reverse"][:directions]:
            parts = {"weight_ih": f" {below}", "weight_hh": " _state", "bias_ih": "", "bias_hh": ""}
            for part, inputs in parts.items():
                names.append(f"{part}_l{layer}{suffix}")
                draw.normal(names[-1], f"gates state{inputs}")
    return names


def recurrent(name, layers, directions, packed=False):
    def define(draw):
        if packed:
            *sizes, lengths = PACKED[draw.number]
            draw.sizes |= dict(zip(("batch", "time", "input", "state"), sizes))
        else:
            draw.sizes |= {"batch": 2, "state": 2}
            draw.size("time", (2, 3, 5)), draw.size("input", (1, 2, 3))
        draw.attribute("layers", layers), draw.attribute("both_ways", directions == 2)
        draw.normal("x", "batch time input")
        if packed:
            draw._input("lengths", "batch", lambda _: np.array(lengths, "int32"))
        kind, gates = MODULES[name.split("_")[0]]
        names = cells(draw, gates, layers, directions)
        module = kind(draw.sizes["input"], draw.sizes["state"], layers, batch_first=True,
                      bidirectional=directions == 2)

        def function(x, *given):
            lengths, weights = (given[0], given[1:]) if packed else (None, given)
            flat = {n: w.reshape(-1, *w.shape[2:]).flatten(1) if w.dim() > 2 else w.reshape(-1)
                    for n, w in zip(names, weights)}
            read = x
            if packed:
                read = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            y, last = torch.func.functional_call(module, flat, (read,))
            if packed:
                y = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0]
            y = y.unflatten(-1, (directions, -1)) if directions == 2 else y
            last = last if isinstance(last, tuple) else (last,)
            return [y] + [part[i] for i in range(len(last[0])) for part in last]

        return function

    globals()[name] = golden(name=name)(define)


recurrent("lstm", 1, 1)
recurrent("gru", 1, 1)
recurrent("plain", 1, 1)
recurrent("lstm_packed", 2, 2, packed=True)
recurrent("gru_packed", 1, 2, packed=True)
recurrent("plain_packed", 2, 2, packed=True)
