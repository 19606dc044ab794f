"""Trains ResNet-50 on synthetic images of ImageNet's size, and prints images per second.

    ronde run -np 2 -- python examples/train_resnet.py
    ronde run -np 2 -- python examples/train_resnet.py --model resnet18 --image-size 64

The images are random, so that nothing is read from disk: the figure is that of computing and of
averaging gradients. --compression fp16 halves the bytes between hosts.
"""

import argparse
import statistics
import time

import ronde.torch as hvd
import torch
from torch import nn

LAYERS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(LAYERS), default="resnet50")
    parser.add_argument("--batch-size", type=int, default=8, help="images per rank and step")
    parser.add_argument("--image-size", type=int, default=224, help="pixels")
    parser.add_argument("--warm-up", type=int, default=2, help="steps that are not counted")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="of each round")
    parser.add_argument("--compression", default="none", help="such as fp16, or int8:block=256")
    return parser.parse_args()


def convolution(inputs, outputs, size, stride=1):
    """A convolution and its normalisation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Residual(nn.Module):
    """Some convolutions whose input is added to their output."""

    def __init__(self, inputs, width, outputs, stride, deep):
        """deep: three convolutions, as ResNet-50 has; otherwise two."""
        super().__init__()
        sizes = (1, 3, 1) if deep else (3, 3)
        ends = (inputs, width, width, outputs) if deep else (inputs, width, outputs)
        layers = []
        for index, size in enumerate(sizes):
            steps = stride if index == (1 if deep else 0) else 1
            layers += [convolution(ends[index], ends[index + 1], size, steps), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else convolution(inputs, outputs, 1, stride)

    def forward(self, x):
        """Shapes: (images, inputs, height, width) -> (images, outputs, height / stride, ...)."""
        return (self.layers(x) + self.shortcut(x)).relu()


def make_model(name):
    """He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016."""
    deep = name == "resnet50"
    channels, parts = 64, [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, count in enumerate(LAYERS[name]):
        width = 64 << stage
        outputs = 4 * width if deep else width
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            parts.append(Residual(channels, width, outputs, stride, deep))
            channels = outputs
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def main():
    arguments = parse_arguments()
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = make_model(arguments.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=arguments.compression,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    images = torch.randn(arguments.batch_size, 3, arguments.image_size, arguments.image_size)
    labels = torch.randint(1000, (arguments.batch_size,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    for _ in range(arguments.warm_up):
        step()
    speeds = []
    for number in range(arguments.rounds):
        begin = time.perf_counter()
        for _ in range(arguments.steps):
            step()
        hvd.barrier()  # the slowest rank counts
        taken = time.perf_counter() - begin
        speeds.append(arguments.steps * arguments.batch_size * hvd.size() / taken)
        if hvd.rank() == 0:
            print(f"round {number + 1}: {speeds[-1]:.1f} images/s", flush=True)
    if hvd.rank() == 0:
        print(
            f"{arguments.model} on {hvd.size()} ranks: {statistics.mean(speeds):.1f} images/s "
            f"+- {statistics.pstdev(speeds):.1f}, of batches of {arguments.batch_size} each"
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
