"""A small GPT that predicts the next character, and the text that it learns from.

The text is what every machine with Python has: the sources of the standard library. Shared by
train_gpt.py, train_gpt_3d.py, train_pipeline.py, train_checkpoint.py and the scripts that compare.
"""

import sysconfig
from pathlib import Path

import torch
from torch import nn

CHARACTERS = 128  # ASCII


def load_text(most=1_000_000):
    """The standard library's sources as one tensor of character codes, alike on all ranks."""
    folder = Path(sysconfig.get_path("stdlib"))
    parts, size = [], 0
    for path in sorted(folder.glob("*.py")):
        parts.append(path.read_bytes())
        size += len(parts[-1])
        if size >= most:
            break
    text = torch.frombuffer(bytearray(b"".join(parts)[:most]), dtype=torch.uint8)
    return text[text < CHARACTERS].long()


def batch_of(text, step, rows, length):
    """Rows of consecutive characters and their successors: the same for the same step, anywhere."""
    chosen = torch.Generator().manual_seed(step)
    starts = torch.randint(len(text) - length - 1, (rows, 1), generator=chosen)
    places = starts + torch.arange(length + 1)
    return text[places[:, :-1]], text[places[:, 1:]]


class Block(nn.Module):
    """Self-attention that looks back only, then a feed-forward network; both are added."""

    def __init__(self, width, heads):
        """`heads` divides `width`, the numbers that stand for a character."""
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.forward_part = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        """Shapes: (rows, length, width) in and out."""
        rows, length, width = x.shape
        parts = self.query_key_value(self.before_attention(x)).chunk(3, dim=2)
        shape = (rows, length, self.heads, width // self.heads)
        query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attended(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.forward_part(x)


class CharacterModel(nn.Module):
    """(rows, length) character codes -> (rows, length, CHARACTERS) logits of the next ones."""

    def __init__(self, width=64, layers=2, heads=4, longest=64):
        """longest: characters in a row at most."""
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.places = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.result = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CHARACTERS))

    def forward(self, codes):
        """The logits of each next character."""
        x = self.characters(codes) + self.places(torch.arange(codes.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.result(x)


class ModelPart(nn.Module):
    """Consecutive blocks of a CharacterModel, and what stands before or after them."""

    def __init__(self, model, blocks):
        """blocks: a range of the model's."""
        super().__init__()
        self.blocks = model.blocks[blocks.start : blocks.stop]
        self.is_first = blocks.start == 0
        self.is_last = blocks.stop == len(model.blocks)
        if self.is_first:
            self.characters, self.places = model.characters, model.places
        if self.is_last:
            self.result = model.result

    def forward(self, x):
        """Codes, or the result of the part before -> the logits, or this part's result."""
        if self.is_first:
            x = self.characters(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.result(x) if self.is_last else x


def loss_of_logits(logits, following):
    """Mean cross entropy of the next character, in nats; chance is log(128) = 4.85."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def loss_of(model, codes, following):
    """The same, of the model's logits."""
    return loss_of_logits(model(codes), following)


@torch.no_grad()
def written_by(model, longest, count, beginning="def "):
    """Text of `count` characters that the model writes, drawn alike on all ranks."""
    drawn = torch.Generator().manual_seed(0)
    codes = torch.tensor([[ord(character) for character in beginning]])
    for _ in range(count):
        chances = model(codes[:, -longest:])[0, -1].float().softmax(0)
        codes = torch.cat([codes, torch.multinomial(chances, 1, generator=drawn)[None]], 1)
    return "".join(map(chr, codes[0].tolist()))
