"""A voice that needs no download of models: Kokoro-82M from installable packages, in our own PyTorch.

How a text becomes sound: ``frontend`` reads it (``mandarin``, ``english``, ``japanese``) into phrases of phonetic
symbols; ``kokoro`` plans durations and pitch in one voice's manner (``albert``, ``prosody``); ``engine`` bends the
pitch as the prompt's voice and the instruction (``instruct``) ask; ``decoder`` makes sound in a colour that ``voices``
mixes to resemble the prompt, which ``speaker`` has listened to. ``weights`` and ``onnx_weights`` supply the numbers.
"""

from inference.engines.embedded.engine import EmbeddedEngine

__all__ = ["EmbeddedEngine"]
