"""ALBERT over phoneme symbols: the text half of PL-BERT, which gives the prosody predictor its context.

One transformer layer is applied twelve times with the same weights (Lan et al. 2019, "ALBERT", arXiv:1909.11942);
symbols enter through a narrow embedding that is widened once. PL-BERT: Li et al. 2023, arXiv:2301.08810.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class AlbertShape:
    """Sizes of the released model."""

    symbols: int = 178
    embedding: int = 128
    hidden: int = 768
    heads: int = 12
    inner: int = 2048
    positions: int = 512  # so 510 symbols and the two borders
    rounds: int = 12
    eps: float = 1e-12


class Embeddings(nn.Module):
    """Symbol, position and segment embeddings, summed and normalised."""

    def __init__(self, shape: AlbertShape) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(shape.symbols, shape.embedding)
        self.position_embeddings = nn.Embedding(shape.positions, shape.embedding)
        self.token_type_embeddings = nn.Embedding(2, shape.embedding)
        self.LayerNorm = nn.LayerNorm(shape.embedding, eps=shape.eps)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, N) ids -> (B, N, E)."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.word_embeddings(ids) + self.position_embeddings(places) + self.token_type_embeddings.weight[0]
        out: Tensor = self.LayerNorm(x)
        return out


class Attention(nn.Module):
    """Multi-head self-attention with the residual and the norm after it."""

    def __init__(self, shape: AlbertShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.hidden, shape.hidden)
        self.key = nn.Linear(shape.hidden, shape.hidden)
        self.value = nn.Linear(shape.hidden, shape.hidden)
        self.dense = nn.Linear(shape.hidden, shape.hidden)
        self.LayerNorm = nn.LayerNorm(shape.hidden, eps=shape.eps)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, H) -> (B, N, H)."""
        q, k, v = (
            proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, N, H/heads)
            for proj in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # (B, N, H)
        out: Tensor = self.LayerNorm(x + self.dense(mixed))
        return out


class Layer(nn.Module):
    """Attention, then the feed-forward part with the tanh form of GELU."""

    def __init__(self, shape: AlbertShape) -> None:
        super().__init__()
        self.attention = Attention(shape)
        self.ffn = nn.Linear(shape.hidden, shape.inner)
        self.ffn_output = nn.Linear(shape.inner, shape.hidden)
        self.full_layer_layer_norm = nn.LayerNorm(shape.hidden, eps=shape.eps)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, H) -> (B, N, H)."""
        x = self.attention(x)
        inner = functional.gelu(self.ffn(x), approximate="tanh")
        out: Tensor = self.full_layer_layer_norm(x + self.ffn_output(inner))
        return out


class Albert(nn.Module):
    """The whole encoder. Takes one unpadded sentence at a time, so there is no attention mask."""

    def __init__(self, shape: AlbertShape) -> None:
        super().__init__()
        self.rounds = shape.rounds
        self.embeddings = Embeddings(shape)
        self.embedding_hidden_mapping_in = nn.Linear(shape.embedding, shape.hidden)
        self.layer = Layer(shape)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, N) ids -> (B, N, H)."""
        x: Tensor = self.embedding_hidden_mapping_in(self.embeddings(ids))
        for _ in range(self.rounds):
            x = self.layer(x)
        return x
