"""200 rounds of torch.amp.GradScaler("cpu") with AdamW, recorded for tests/unit/test_scaler_recorded.c.

Run with any PyTorch: python tests/oracle/torch_scaler.py tests/oracle/scaler.safetensors
Needs safetensors. For each kind KIND and round i from 0 to 199: from row i of KIND.p, .m, .v (parameter, first and second
moment), .scale, .tracker and .step, with .g's row i as the scaled gradient, one round of unscale, step and update gives
row i + 1. Some gradients hold an infinity or a NaN.
"""
import sys

import torch
from safetensors.torch import save_file

ROUNDS, WIDTH = 200, 5
KINDS = {  # init_scale, growth_factor, backoff_factor, growth_interval
    "plain": (65536.0, 2.0, 0.5, 7),
    "odd": (1000.0, 1.7, 0.3, 3),
    "highest": (2.0**125, 2.0, 0.5, 2),  # growth beyond f32 does not happen
}


def record(number, options, out, kind):
    torch.manual_seed(number)
    p = torch.randn(WIDTH, requires_grad=True)
    optimizer = torch.optim.AdamW([p], lr=0.01, weight_decay=0.01, foreach=False)
    scaler = torch.amp.GradScaler("cpu", *options)
    scaler.scale(torch.zeros(()))  # its tensors are made here
    names = ["p", "m", "v", "g", "scale", "tracker", "step"]
    rows = {name: [] for name in names}

    def keep():
        state = optimizer.state[p] if p in optimizer.state else {}
        rows["p"].append(p.detach().clone())
        rows["m"].append(state.get("exp_avg", torch.zeros(WIDTH)).clone())
        rows["v"].append(state.get("exp_avg_sq", torch.zeros(WIDTH)).clone())
        rows["scale"].append(scaler._scale.clone())
        rows["tracker"].append(scaler._growth_tracker.to(torch.int64))
        rows["step"].append(torch.as_tensor(state.get("step", 0.0), dtype=torch.float64))

    keep()
    for i in range(ROUNDS):
        g = torch.randn(WIDTH) * torch.minimum(scaler._scale, torch.tensor(2.0**100)) * 10.0 ** (i % 3 - 2)
        if i in (0, 20, 21, 50, 133) or i % 37 == 36:
            g[i % WIDTH] = [float("inf"), float("-inf"), float("nan")][i % 3]
        p.grad = g.clone()
        rows["g"].append(g)
        scaler.step(optimizer)
        scaler.update()
        keep()
    out.update({f"{kind}.{name}": torch.stack(values) for name, values in rows.items()})


def main():
    out = {}
    for number, (kind, options) in enumerate(KINDS.items()):
        record(number, options, out, kind)
    save_file(out, sys.argv[1], {"torch": torch.__version__.split("+")[0]})


main()
