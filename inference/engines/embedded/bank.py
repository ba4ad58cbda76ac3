"""Rebuild voices.npz, the small bank of stock voices that is committed beside this file.

Run ``python -m inference.engines.embedded.bank kokoro-js-1.2.1.tgz``; the argument is what ``npm pack kokoro-js@1.2.1``
leaves (Apache-2.0). Each voice has styles for 510 lengths of phrase. The colours hardly differ, so one is kept; of the
manners, which set the pace, a few. With them go the embedding and the median pitch of the voice speaking a sentence.
Takes some minutes.
"""

import hashlib
import sys
import tarfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from inference.engines.embedded import weights
from inference.engines.embedded.decoder import RATE
from inference.engines.embedded.frontend import Frontend
from inference.engines.embedded.kokoro import Kokoro
from inference.engines.embedded.speaker import SpeakerEncoder
from inference.engines.embedded.voices import BANK, LANGUAGES

SHA256 = "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"
ROWS, COLOUR_ROW = 510, 40  # styles by the number of symbols, from 1; the one whose colour is kept
LENGTHS = (64, 96, 128, 192)  # symbols, of the manners kept; those of shorter phrases are rushed
HALF = 128  # of a style: colour, then manner
VOICED = 40.0  # Hz
SENTENCES = {
    "zh": "今天天气很好，我们一起去公园散步，然后回家吃饭吧。",
    "en": "The weather is lovely today, so let us walk to the park before lunch.",
    "ja": "今日はとても良い天気なので、公園へ散歩に行きましょう。",
}
Floats = NDArray[np.float32]


def styles(archive: Path) -> dict[str, Floats]:
    """Read each voice's styles, (510, 256), out of the package."""
    found = {}
    with tarfile.open(archive) as package:
        for member in sorted(package.getmembers(), key=lambda m: m.name):
            name = Path(member.name)
            content = package.extractfile(member)
            if name.parent.name == "voices" and name.suffix == ".bin" and content:
                found[name.stem] = np.frombuffer(content.read(), "<f4").reshape(ROWS, 2 * HALF)
    return found


def listen(model: Kokoro, encoder: SpeakerEncoder, frontend: Frontend, name: str, rows: Floats) -> tuple[Floats, float]:
    """Let a voice speak its language's sentence (English for languages without a front end): embedding, pitch."""
    style = torch.from_numpy(rows.copy())
    waves, pitches = [], []
    for phrase in frontend.phrases(SENTENCES[LANGUAGES.get(name[0], "en")], "", name.startswith("b"), print):
        ids = [frontend.alphabet[symbol] for symbol in phrase.symbols]
        act = model.perform(ids, style[max(len(ids), LENGTHS[0]) - 1, HALF:]).cropped(0.1, 0.2)
        pitches.append(act.pitch[act.pitch > VOICED])
        waves.append(model.sound(act, style[COLOUR_ROW, :HALF], torch.Generator().manual_seed(1)).numpy())
    return encoder.embed(np.concatenate(waves), RATE), float(torch.cat(pitches).median())


def main(archive: Path) -> None:
    """Make the bank from the package at ``archive``."""
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{archive} is not kokoro-js 1.2.1 as it was packed when this script was written")
    model = Kokoro().eval().requires_grad_(False)
    model.load_state_dict(weights.load())
    encoder, frontend = SpeakerEncoder.pretrained(), Frontend(weights.symbols())
    voices = styles(archive)
    heard = []
    for name, rows in voices.items():
        heard.append(listen(model, encoder, frontend, name, rows))
        print(f"{name}  {heard[-1][1]:.0f} Hz", flush=True)
    np.savez(
        BANK,
        names=np.array(list(voices)),
        colours=np.stack([rows[COLOUR_ROW, :HALF] for rows in voices.values()]).astype(np.float16),
        manners=np.stack([rows[[n - 1 for n in LENGTHS], HALF:] for rows in voices.values()]).astype(np.float16),
        lengths=np.array(LENGTHS),
        embeddings=np.stack([embedding for embedding, _ in heard]).astype(np.float16),
        pitches=np.array([pitch for _, pitch in heard], np.float32),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
