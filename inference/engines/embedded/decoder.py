"""From aligned text, pitch, energy and a style to 24 kHz sound: the iSTFTNet decoder of StyleTTS 2.

A sine source follows the pitch (neural source-filter, Wang et al. 2019, arXiv:1904.12088), residual blocks with Snake
(Ziyin et al. 2020, arXiv:2006.08195) shape it, and a last inverse STFT gives samples (Kaneko et al. 2022,
arXiv:2203.02395). Sizes: frames of 25 ms come in, pitch and energy on 12.5 ms, 300 samples for each of the latter.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.engines.embedded.prosody import AdaIN, StyledBlock

RATE = 24_000  # Hz
UPSAMPLE = ((10, 20), (6, 12))  # (stride, kernel) of the two transposed convolutions
N_FFT, HOP = 20, 5
BINS = N_FFT // 2 + 1
SAMPLES_A_FRAME = 10 * 6 * HOP  # of pitch and energy
KERNELS = (3, 7, 11)
DILATIONS = (1, 3, 5)
HARMONICS = 9  # the fundamental among them
SINE, NOISE = 0.1, 0.003  # amplitude of the source, deviation of the noise under a voiced sound
VOICED_ABOVE = 10.0  # Hz


class SnakeBlock(nn.Module):
    """Three rounds of dilated and plain convolution with AdaIN and Snake, each added to its input."""

    def __init__(self, channels: int, kernel: int, style: int) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel // 2)) for d in DILATIONS
        )
        self.convs2 = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=kernel // 2) for _ in DILATIONS)
        self.adain1 = nn.ModuleList(AdaIN(style, channels) for _ in DILATIONS)
        self.adain2 = nn.ModuleList(AdaIN(style, channels) for _ in DILATIONS)
        self.alpha1 = nn.ParameterList(torch.ones(1, channels, 1) for _ in DILATIONS)
        self.alpha2 = nn.ParameterList(torch.ones(1, channels, 1) for _ in DILATIONS)

    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        """x (B, C, T), s (B, S) -> (B, C, T)."""
        for i in range(len(DILATIONS)):
            y = self.convs1[i](snake(self.adain1[i](x, s), self.alpha1[i]))
            x = self.convs2[i](snake(self.adain2[i](y, s), self.alpha2[i])).add_(x)
        return x


def snake(x: Tensor, alpha: Tensor) -> Tensor:
    """x + sin^2(alpha x) / alpha, written over x (1, C, T): fresh memory each time costs more than the sine."""
    return x.addcdiv_((alpha * x).sin_().square_(), alpha)


class Source(nn.Module):
    """Excitation: harmonics of the pitch where there is one, noise elsewhere, merged to one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(HARMONICS, 1)

    def forward(self, pitch: Tensor, noise: Tensor) -> Tensor:
        """Pitch in Hz (B, F), noise ~ N(0,1) (B, F*300, 9) -> (B, F*300)."""
        orders = torch.arange(1, HARMONICS + 1, device=pitch.device, dtype=torch.float64)
        turns = torch.cumsum(pitch.double().unsqueeze(1) * orders.view(1, -1, 1) / RATE, -1) * SAMPLES_A_FRAME
        # float64, since after ten seconds the ninth harmonic has turned 27,000 times
        turns = functional.interpolate(turns, scale_factor=SAMPLES_A_FRAME, mode="linear")  # (B, 9, F*300)
        sines = torch.sin(2 * torch.pi * (turns % 1)).float().mT * SINE  # (B, F*300, 9)
        voiced = (pitch > VOICED_ABOVE).float().repeat_interleave(SAMPLES_A_FRAME, dim=-1).unsqueeze(-1)
        level = voiced * NOISE + (1 - voiced) * SINE / 3
        merged: Tensor = torch.tanh(self.l_linear(sines * voiced + level * noise))
        return merged.squeeze(-1)


class Generator(nn.Module):
    """Upsampling from 12.5 ms frames to a short-time spectrum every 5 samples, then to samples."""

    window: Tensor

    def __init__(self, style: int, width: int = 512) -> None:
        super().__init__()
        self.m_source = Source()
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        self.noise_convs, self.noise_res = nn.ModuleList(), nn.ModuleList()
        for stride, kernel in UPSAMPLE:
            self.ups.append(nn.ConvTranspose1d(width, width // 2, kernel, stride, padding=(kernel - stride) // 2))
            width //= 2
            self.resblocks.extend(SnakeBlock(width, k, style) for k in KERNELS)
        wide, narrow, stride = 2 * width, width, UPSAMPLE[1][0]
        self.noise_convs.append(nn.Conv1d(2 * BINS, wide, 2 * stride, stride, padding=(stride + 1) // 2))
        self.noise_convs.append(nn.Conv1d(2 * BINS, narrow, 1))
        self.noise_res.append(SnakeBlock(wide, 7, style))
        self.noise_res.append(SnakeBlock(narrow, 11, style))
        self.conv_post = nn.Conv1d(width, 2 * BINS, 7, padding=3)
        self.register_buffer("window", torch.hann_window(N_FFT), persistent=False)

    def forward(self, x: Tensor, s: Tensor, pitch: Tensor, noise: Tensor) -> Tensor:
        """x (B, 512, F), s (B, S), pitch (B, F), noise (B, F*300, 9) -> samples (B, F*300)."""
        wave = self.m_source(pitch, noise)
        spectrum = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True)  # (B, 11, F*60 + 1)
        source = torch.cat([spectrum.abs(), spectrum.angle()], dim=1)  # (B, 22, F*60 + 1)
        for i in range(len(UPSAMPLE)):
            excitation = self.noise_res[i](self.noise_convs[i](source), s)
            x = self.ups[i](functional.leaky_relu(x, 0.1))
            if i == len(UPSAMPLE) - 1:
                x = functional.pad(x, (1, 0), mode="reflect")  # a centred STFT has one frame more
            x = x + excitation
            blocks = self.resblocks[i * len(KERNELS) : (i + 1) * len(KERNELS)]
            x = sum((block(x, s) for block in blocks), start=torch.zeros((), device=x.device)) / len(KERNELS)
        x = self.conv_post(functional.leaky_relu(x, 0.01))  # (B, 22, F*60 + 1)
        magnitude, phase = torch.exp(x[:, :BINS]), torch.sin(x[:, BINS:])
        return torch.istft(torch.polar(magnitude, phase), N_FFT, HOP, window=self.window)


class Decoder(nn.Module):
    """Joins text, pitch and energy under the style, and hands the result to the generator."""

    def __init__(self, style: int, width: int = 512) -> None:
        super().__init__()
        joined = 2 * width + 64 + 2
        self.encode = StyledBlock(width + 2, 2 * width, style)
        self.decode = nn.ModuleList(StyledBlock(joined, 2 * width, style) for _ in range(3))
        self.decode.append(StyledBlock(joined, width, style, double=True))
        self.F0_conv = nn.Conv1d(1, 1, 3, stride=2, padding=1)
        self.N_conv = nn.Conv1d(1, 1, 3, stride=2, padding=1)
        self.asr_res = nn.Sequential(nn.Conv1d(width, 64, 1))
        self.generator = Generator(style, width)

    def forward(self, text: Tensor, pitch: Tensor, energy: Tensor, s: Tensor, noise: Tensor) -> Tensor:
        """Text (B, 512, T), pitch and energy (B, 2T), s (B, S), noise (B, 600T, 9) -> samples (B, 600T)."""
        low, loud = self.F0_conv(pitch.unsqueeze(1)), self.N_conv(energy.unsqueeze(1))  # (B, 1, T) each
        x = self.encode(torch.cat([text, low, loud], dim=1), s)
        narrow = self.asr_res(text)
        for block in self.decode:
            x = block(torch.cat([x, narrow, low, loud], dim=1), s)
        out: Tensor = self.generator(x, s, pitch, noise)
        return out
