"""Read the int8 ONNX export of Kokoro-82M back into plain float tensors under the names of our modules.

The export keeps module paths in its node names (``/encoder/F0.1/conv1/Conv_quant``) but not in its tensors: equal
initialisers were merged, so scales and zero points are taken from the node that uses them, never by name.
Quantisation is as in onnxruntime's dynamic quantiser: real = (q - zero) * scale.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor

Array = NDArray[np.generic]
Floats = NDArray[np.float32]
Weights = dict[str, Tensor]

PREDICTOR = re.compile(r"^(F0|N|F0_proj|N_proj|shared)(?=\.|$)")
ALBERT = "encoder.albert_layer_groups.0.albert_layers.0"
OPERATION = re.compile(r"\.(Gemm_MatMul|MatMul|Conv|ConvTranspose|LSTM|Gather)(_quant)?$")
CONVOLUTIONS = {"Conv", "ConvTranspose"}
INTERNAL = ("_quantized", "_scale", "_zero_point", "_shape")
EMBEDDINGS = ("word_embeddings", "position_embeddings", "token_type_embeddings", "text_encoder.embedding")


class Graph:
    """The export with the look-ups that conversion needs."""

    def __init__(self, path: Path) -> None:
        graph = onnx.load(str(path)).graph
        self.nodes = list(graph.node)
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.maker = {output: node for node in self.nodes for output in node.output}
        self.user = {name: node for node in reversed(self.nodes) for name in node.input}

    def array(self, name: str) -> Array:
        """Give the constant called ``name``."""
        return np.asarray(numpy_helper.to_array(self.tensors[name]))

    def scale(self, node: onnx.NodeProto) -> Floats:
        """Weight scale of an integer product: the constant factor of the Mul that follows it (after Add and Cast)."""
        while node.op_type != "Mul":
            node = self.user[node.output[0]]
        factors = self.maker[next(name for name in node.input if self.maker[name].op_type == "Mul")]
        name = next(name for name in factors.input if name in self.tensors)
        return self.array(name).astype(np.float32)


def read(path: Path) -> Weights:
    """Read the whole file: our parameter names -> float32 tensors."""
    graph = Graph(path)
    found: Weights = {}
    for node in graph.nodes:
        for name, value in weights_of(graph, node):
            if name not in found:  # ALBERT's one layer occurs twelve times
                found[name] = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32))
    for name in graph.tensors:
        if name.startswith(("encoder.", "decoder.")) and ".stft." not in name and not name.endswith(INTERNAL):
            value = graph.array(name).astype(np.float32)
            found.setdefault(module_name(name), torch.from_numpy(value.copy()))
    return found


def module_name(name: str) -> str:
    """Turn a path of the export into ours: ``/encoder/F0.1/norm1/fc`` -> ``predictor.F0.1.norm1.fc``."""
    name = name.strip("/").replace("/", ".")
    name = name.replace("decoder.decoder.", "decoder.", 1) if name.startswith("decoder.") else name[len("encoder.") :]
    name = re.sub(r"\b(cnn|asr_res)(\.\d+)?\.\1", r"\1", name)  # .../cnn.1/cnn.1.0 -> cnn.1.0
    name = re.sub(rf"({ALBERT}\..*?)_\d+$", r"\1", OPERATION.sub("", name))  # a later round of the same layer
    name = name.replace(ALBERT, "layer").replace("bert.encoder.", "bert.").replace(".linear_layer", "")
    return PREDICTOR.sub(r"predictor.\1", name)


def weights_of(graph: Graph, node: onnx.NodeProto) -> Iterator[tuple[str, Floats]]:
    """Yield the weights a node multiplies by, if any, each under the parameter name of its module."""
    place = module_name(node.name) if node.name.startswith("/") else ""
    if node.op_type == "MatMulInteger":
        yield f"{place}.weight", per_channel(graph, node, axis=1).T
    elif node.op_type == "MatMul" and node.input[1] in graph.tensors:
        yield f"{place}.weight", graph.array(node.input[1]).astype(np.float32).T
    elif node.op_type == "ConvInteger":
        yield f"{place}.weight", per_channel(graph, node, axis=0)
    elif node.op_type in CONVOLUTIONS and place and ".stft" not in place and node.input[1] in graph.tensors:
        yield f"{place}.weight", graph.array(node.input[1]).astype(np.float32)
    elif node.op_type == "Gather" and place.endswith(EMBEDDINGS):
        _, scale, zero = graph.user[node.output[0]].input  # DequantizeLinear
        yield f"{place}.weight", dequantised(graph.array(node.input[0]), graph.array(scale), graph.array(zero))
    elif node.op_type == "DynamicQuantizeLSTM":
        yield from recurrent(graph, node, place)


def per_channel(graph: Graph, node: onnx.NodeProto, axis: int) -> Floats:
    """Weight of an integer product; its scale has one value, or one for each index of ``axis``."""
    weight, scale = graph.array(node.input[1]), graph.scale(node)
    zero = graph.array(node.input[3])
    shape = [-1 if dim == axis else 1 for dim in range(weight.ndim)]
    return dequantised(weight, scale.reshape(shape) if scale.ndim else scale, zero.reshape(shape))


def dequantised(weight: Array, scale: Array, zero: Array) -> Floats:
    """(q - zero) * scale in float32."""
    out: Floats = (weight.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)
    return out


def recurrent(graph: Graph, node: onnx.NodeProto, place: str) -> Iterator[tuple[str, Floats]]:
    """Weights of a two-way LSTM: ONNX orders the gates i o f c and transposes here; torch wants i f g o."""
    inputs = {"weight_ih": (1, 8, 9), "weight_hh": (2, 10, 11)}
    for kind, (weight, scale, zero) in inputs.items():
        q, by, off = (graph.array(node.input[i]) for i in (weight, scale, zero))
        by, off = (array.reshape(-1, 1, 1) if array.ndim == 1 else array[:, None] for array in (by, off))
        for way, value in enumerate(dequantised(q, by, off)):  # (input, 4 * hidden) each
            yield f"{place}.{kind}_l0{'_reverse' * way}", torch_gates(value.T)
    for way, both in enumerate(graph.array(node.input[3]).astype(np.float32)):  # (8 * hidden,): input's, then state's
        for kind, bias in zip(("bias_ih", "bias_hh"), np.split(both, 2), strict=True):
            yield f"{place}.{kind}_l0{'_reverse' * way}", torch_gates(bias)


def torch_gates(value: Floats) -> Floats:
    """Reorder the four gates on axis 0."""
    i, o, f, c = np.split(value, 4)
    return np.concatenate([i, f, c, o])
