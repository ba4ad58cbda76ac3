"""How a sentence is spoken: how long each symbol lasts, and the curves of pitch and energy.

The predictor of StyleTTS 2 (Li et al. 2023, arXiv:2306.07691, section 3 and appendix): adaptive normalisation pours
a style vector into every layer, so the manner of speaking comes from there and the words from the text.
One unpadded sentence at a time, hence no masks.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class AdaIN(nn.Module):
    """Instance normalisation whose gain and offset are read from the style (Huang & Belongie 2017)."""

    def __init__(self, style: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style, 2 * channels)

    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        """x (1, C, T), s (1, S) -> (1, C, T)."""
        gain, offset = self.fc(s)[0].chunk(2)  # (C,) each
        # a group a channel is instance normalisation, and the kernel is five times as fast as instance_norm's here
        return functional.group_norm(x, x.shape[1], 1 + gain, offset, eps=1e-5)


class AdaLayerNorm(nn.Module):
    """Layer normalisation over channels with gain and offset from the style."""

    def __init__(self, style: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style, 2 * channels)

    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        """x (B, N, C), s (B, S) -> (B, N, C)."""
        gain, offset = self.fc(s).unsqueeze(1).chunk(2, dim=-1)  # (B, 1, C) each
        return torch.addcmul(offset, functional.layer_norm(x, x.shape[-1:], eps=1e-5), 1 + gain)


class StyledBlock(nn.Module):
    """Two convolutions with AdaIN before each, and a shortcut; ``double`` doubles the length."""

    def __init__(self, width_in: int, width_out: int, style: int, double: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(width_in, width_out, 3, padding=1)
        self.conv2 = nn.Conv1d(width_out, width_out, 3, padding=1)
        self.norm1 = AdaIN(style, width_in)
        self.norm2 = AdaIN(style, width_out)
        self.conv1x1 = nn.Conv1d(width_in, width_out, 1, bias=False) if width_in != width_out else None
        self.pool = (
            nn.ConvTranspose1d(width_in, width_in, 3, stride=2, padding=1, output_padding=1, groups=width_in)
            if double
            else None
        )

    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        """x (B, C_in, T), s (B, S) -> (B, C_out, T or 2T)."""
        y = functional.leaky_relu(self.norm1(x, s), 0.2)
        if self.pool is not None:
            y = self.pool(y)
            x = x.repeat_interleave(2, dim=-1)
        y = self.conv1(y)
        y = self.conv2(functional.leaky_relu(self.norm2(y, s), 0.2))
        if self.conv1x1 is not None:
            x = self.conv1x1(x)
        return torch.add(x, y).mul_(0.5**0.5)


class ChannelNorm(nn.Module):
    """Layer normalisation of (B, C, T) over C."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, T) -> (B, C, T)."""
        return functional.layer_norm(x.mT, self.gamma.shape, self.gamma, self.beta, 1e-5).mT


def recurrent(width_in: int, width_out: int) -> nn.LSTM:
    """Make a two-way LSTM: (B, N, width_in) -> (B, N, width_out)."""
    return nn.LSTM(width_in, width_out // 2, batch_first=True, bidirectional=True)


class TextEncoder(nn.Module):
    """What is said: convolutions and an LSTM over the symbols."""

    def __init__(self, symbols: int, width: int, depth: int = 3, kernel: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.cnn = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, kernel, padding=kernel // 2), ChannelNorm(width), nn.LeakyReLU(0.2))
            for _ in range(depth)
        )
        self.lstm = recurrent(width, width)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, N) ids -> (B, C, N)."""
        x: Tensor = self.embedding(ids).mT
        for block in self.cnn:
            x = block(x)
        out: Tensor = self.lstm(x.mT)[0]
        return out.mT


class DurationEncoder(nn.Module):
    """Three rounds of LSTM and adaptive norm, the style joined on before each."""

    def __init__(self, style: int, width: int, depth: int = 3) -> None:
        super().__init__()
        self.lstms = nn.ModuleList()
        for _ in range(depth):
            self.lstms.append(recurrent(width + style, width))
            self.lstms.append(AdaLayerNorm(style, width))

    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        """x (B, N, C), s (B, S) -> (B, N, C + S)."""
        manner = s.unsqueeze(1).expand(-1, x.shape[1], -1)  # (B, N, S)
        x = torch.cat([x, manner], dim=-1)
        for lstm, norm in zip(self.lstms[::2], self.lstms[1::2], strict=True):
            x = torch.cat([norm(lstm(x)[0], s), manner], dim=-1)
        return x


class ProsodyPredictor(nn.Module):
    """Durations in frames of 25 ms; pitch in Hz and energy on frames of 12.5 ms."""

    def __init__(self, style: int, width: int, longest: int = 50) -> None:
        super().__init__()
        self.text_encoder = DurationEncoder(style, width)
        self.lstm = recurrent(width + style, width)
        self.duration_proj = nn.Linear(width, longest)
        self.shared = recurrent(width + style, width)
        self.F0, self.N = (
            nn.ModuleList(
                [
                    StyledBlock(width, width, style),
                    StyledBlock(width, width // 2, style, double=True),
                    StyledBlock(width // 2, width // 2, style),
                ]
            )
            for _ in range(2)
        )
        self.F0_proj = nn.Conv1d(width // 2, 1, 1)
        self.N_proj = nn.Conv1d(width // 2, 1, 1)

    def durations(self, x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, N, C), s (B, S) -> frames a symbol, unrounded (B, N), and the states (B, N, C + S)."""
        states = self.text_encoder(x, s)
        votes = torch.sigmoid(self.duration_proj(self.lstm(states)[0]))  # (B, N, 50): "lasts longer than k frames"
        return votes.sum(-1), states

    def curves(self, aligned: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """Aligned (B, T, C + S), s (B, S) -> pitch in Hz and energy, (B, 2T) each."""
        x = self.shared(aligned)[0].mT  # (B, C, T)
        pitch, energy = x, x
        for block in self.F0:
            pitch = block(pitch, s)
        for block in self.N:
            energy = block(energy, s)
        return self.F0_proj(pitch).squeeze(1), self.N_proj(energy).squeeze(1)
