"""Trains the same models with every codec, and prints what each costs in accuracy.

    ronde run -np 2 -- python examples/compare_compression.py --model digits
    ronde run -np 2 -- python examples/compare_compression.py --model characters --steps 300

The digits network is trained from several seeds, the character transformer from one. Every codec
has its default settings; `--every-matrix --codecs none,topk,topk:ef=off` shows what becomes of
training without error feedback.
"""

import argparse
import json
import statistics

import ronde.torch as hvd
import torch
from character_model import CharacterModel, load_text
from train_digits import accuracy_of, load_data, make_model, share, train_epoch
from train_gpt import train

CODECS = (
    "none",
    "fp16",
    "bf16",
    "int8",
    "int4",
    "onebit",
    "topk",
    "randomk",
    "powersgd",
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["digits", "characters"], default="digits")
    parser.add_argument("--codecs", default=",".join(CODECS), help="as a list with commas")
    parser.add_argument("--seeds", type=int, default=5, help="of the digits network")
    parser.add_argument("--epochs", type=int, default=20, help="of the digits network")
    parser.add_argument("--steps", type=int, default=300, help="of the character transformer")
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--learning-rate", type=float, help="default: 0.003 for adam, 0.3 for sgd")
    parser.add_argument(
        "--every-matrix", action="store_true", help="by a rule, those of few elements too"
    )
    parser.add_argument("--json", help="also write the table here")
    return parser.parse_args()


def plain_optimizer(model, arguments):
    if arguments.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=arguments.learning_rate or 0.003)
    return torch.optim.SGD(model.parameters(), lr=arguments.learning_rate or 0.3, momentum=0.9)


def start(model, codec, arguments):
    """An optimizer whose gradients travel by this codec; nothing is left over of earlier runs."""
    hvd.Compression.load_state_dict({"version": 1, "residuals": {}})
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    if arguments.every_matrix:
        codec = {name: codec for name, part in model.named_parameters() if part.dim() > 1}
    return hvd.DistributedOptimizer(
        plain_optimizer(model, arguments),
        named_parameters=model.named_parameters(),
        compression=codec,
    )


def digits(codec, arguments):
    """The accuracy in percent on held-out images, of each seed."""
    images, labels, test_images, test_labels = load_data()
    reached = []
    for seed in range(arguments.seeds):
        torch.manual_seed(seed)
        model = make_model()
        optimizer = start(model, codec, arguments)
        for epoch in range(arguments.epochs):
            batches = share(len(labels), 1000 * seed + epoch).split(32)
            train_epoch(model, optimizer, images, labels, batches)
        reached.append(100 * accuracy_of(model, test_images, test_labels))
    return reached


def characters(codec, arguments):
    """The mean loss of the last twentieth of all steps."""
    text = load_text()
    torch.manual_seed(0)
    model = CharacterModel()
    optimizer = start(model, codec, arguments)
    batches = argparse.Namespace(rows=24, length=64)
    losses = train(model, optimizer, text, batches, range(arguments.steps))
    return [statistics.mean(losses[-max(1, arguments.steps // 20) :])]


def main():
    arguments = parse_arguments()
    hvd.init()
    torch.set_num_threads(1)
    measure = digits if arguments.model == "digits" else characters
    rows = {}
    for name in arguments.codecs.split(","):
        rows[name] = measure(name, arguments)
        if hvd.rank() == 0:
            dense = statistics.mean(rows.get("none", rows[name]))
            mean = statistics.mean(rows[name])
            change = (
                f"{mean - dense:+.2f} points"
                if arguments.model == "digits"
                else f"{100 * (mean / dense - 1):+.2f} %"
            )
            print(f"{name:<12} {mean:8.3f}  {change}", flush=True)
    if arguments.json and hvd.rank() == 0:
        with open(arguments.json, "w") as file:
            json.dump(rows, file)
    hvd.shutdown()


if __name__ == "__main__":
    main()
