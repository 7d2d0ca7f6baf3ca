"""PyTorch's recurrent layers: weights have dims of their own, in its order of elements."""

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from draw import golden

MODULES = {"lstm": (torch.nn.LSTM, 4), "gru": (torch.nn.GRU, 3), "plain": (torch.nn.RNN, 1)}


def cells(draw, gates, layers, directions):
    """Inputs for all weights, under torch's names."""
    draw.sizes |= {"gates": gates, "_state": draw.size("state", (2,)), "directions": 2}
    names = []
    for layer in range(layers):
        below = "input" if layer == 0 else "_state" if directions == 1 else "directions _state"
        for suffix in ["", "_reverse"][:directions]:
            parts = {"weight_ih": f" {below}", "weight_hh": " _state", "bias_ih": "", "bias_hh": ""}
            for part, inputs in parts.items():
                names.append(f"{part}_l{layer}{suffix}")
                draw.normal(names[-1], f"gates state{inputs}")
    return names


def recurrent(name, times, layers, directions, packed):
    def define(draw):
        # Lengths are worth more sizes of what they cut.
        batch, time = ((2, 3, 4), (2, 3, 4)) if packed else ((2,), (2, 3))
        for dim, among in [("batch", batch), ("time", time), ("input", (2, 3))]:
            draw.size(dim, among)
        draw.attribute("layers", layers), draw.attribute("both_ways", directions == 2)
        draw.normal("x", "batch time input")
        if packed:
            draw.integers("lengths", "batch", 1, draw.sizes["time"])
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

    globals()[name] = golden(times, name)(define)


recurrent("lstm", 3, 1, 1, False)
recurrent("gru", 3, 1, 1, False)
recurrent("plain", 3, 1, 1, False)
recurrent("lstm_packed", 3, 2, 2, True)
recurrent("gru_packed", 3, 1, 2, True)
