"""Messages between grader and worker: a JSON header, then the raw bytes of its tensors.

    frame = magic (4) | length of header (4) | length of body (8) | header | body
    header = {"head": {...}, "value": tree}
    tree = None | bool | int | text | ["f", hex float] | ["l", [tree...]] | ["t", [tree...]]
         | ["d", [[key, tree]...]] | ["x", dtype, shape]      (the next bytes of the body)

Only plain values cross. Both sides check types, sizes and depth; nothing is ever unpickled.
"""

import json
import math
import struct
import sys
from collections.abc import Callable
from typing import Any

HEAD = struct.Struct("<4sIQ")
MAGIC = b"LKW1"
MAX_HEADER = 8 << 20  # bytes

_MAX_DEPTH = 32
_MAX_NODES = 200_000
_TOO_DEEP = (
    f"a value may have at most {_MAX_NODES} parts and {_MAX_DEPTH} levels, but this one has more"
)
_MAX_BITS = 256  # of an int
_MAX_AXES = 16
_NAMES = """
    float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128
"""
_DTYPES = tuple(_NAMES.split())


class Refused(ValueError):
    """The message is not plain data, or is too large."""


class Pack:
    """Collect the tree of a value and the bytes of its tensors, up to a limit."""

    def __init__(self, cap: int):
        self.left = cap
        self.nodes = 0
        self.blobs: list[bytes] = []

    def pack_value(self, value: Any, depth: int = 0) -> Any:
        """Convert a value to its tree; raise Refused if it is not plain data."""
        self.nodes += 1
        if depth > _MAX_DEPTH or self.nodes > _MAX_NODES:
            raise Refused(_TOO_DEEP)
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            if value.bit_length() > _MAX_BITS:
                raise Refused(f"an int may have at most {_MAX_BITS} bits, got {value.bit_length()}")
            return value
        if kind is float:
            return ["f", value.hex()]
        if kind is list or kind is tuple:
            return [
                "l" if kind is list else "t",
                [self.pack_value(item, depth + 1) for item in value],
            ]
        if kind is dict:
            if any(type(key) is not str for key in value):
                raise Refused("all keys of a dict must be strings")
            return ["d", [[key, self.pack_value(item, depth + 1)] for key, item in value.items()]]
        return self._pack_array(value, kind)

    def _pack_array(self, value: Any, kind: type) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if numpy and isinstance(value, numpy.generic) and kind.__module__ == "numpy":
            return self.pack_value(value.item(), _MAX_DEPTH)
        if torch and numpy and kind is numpy.ndarray:
            self._take_room(value.size * value.itemsize)
            try:
                value = torch.from_numpy(numpy.array(value, order="C"))
            except TypeError as error:
                raise Refused(f"an array must contain numbers, got dtype {value.dtype}") from error
        elif not torch or (kind is not torch.Tensor and kind is not torch.nn.Parameter):
            raise Refused(
                "a value must be None, a number, text, a list, tuple or dict of these, or a "
                f"tensor (none of them a subclass), got {kind.__name__}"
            )
        return self._tensor(torch, value)

    def _tensor(self, torch: Any, value: Any) -> Any:
        name = str(value.dtype).removeprefix("torch.")
        if value.is_nested:
            raise Refused("a tensor must be dense and on the CPU, got a nested one")
        if value.layout is not torch.strided or value.is_quantized or value.device.type != "cpu":
            raise Refused(f"a tensor must be dense and on the CPU, got {_describe_tensor(value)}")
        if name not in _DTYPES:
            raise Refused(f"a tensor's dtype must be one of {', '.join(_DTYPES)}, got {name}")
        self._take_room(value.numel() * value.element_size())
        flat = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        self.blobs.append(flat.view(torch.uint8).numpy().tobytes())
        return ["x", name, list(value.shape)]

    def _take_room(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise Refused("an answer must not exceed the size limit, but this value does")


def _describe_tensor(tensor: Any) -> str:
    what = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
    return f"{what} on {tensor.device.type}"


def write_frame(head: dict, value: Any = None, cap: int = 64 << 20) -> bytes:
    """Write one message; raise Refused if the value cannot be sent."""
    pack = Pack(cap)
    tree = pack.pack_value(value)
    header = json.dumps({"head": head, "value": tree}).encode()
    if len(header) > MAX_HEADER:
        raise Refused("an answer must not exceed the size limit, but this value does")
    body = b"".join(pack.blobs)
    return HEAD.pack(MAGIC, len(header), len(body)) + header + body


def read_sizes(start: bytes, cap: int) -> tuple[int, int]:
    """Read the lengths of header and body from a frame's start; raise Refused above the limit."""
    magic, header, body = HEAD.unpack(start)
    if magic != MAGIC or header > MAX_HEADER or body > cap:
        raise Refused("the worker must reply with a valid message of limited size, but did not")
    return header, body


def receive(read: Callable[[int], bytes], cap: int) -> tuple[dict, Any]:
    """Read one message; `read(n)` returns n bytes. Raise Refused if it is invalid or too large."""
    header, body = read_sizes(read(HEAD.size), cap)
    return read_message(read(header), read(body))


def read_message(header: bytes, body: bytes) -> tuple[dict, Any]:
    """Read one message; raise Refused if it is anything but plain data."""
    try:
        message = json.loads(header)
        if type(message) is not dict or type(message.get("head")) is not dict:
            raise Refused("the worker must reply with a valid message, but did not")
        unpack = Unpack(body)
        value = unpack.unpack_value(message.get("value"))
    except Refused:
        raise
    except Exception as error:  # these are a stranger's bytes: whatever is odd is refused
        raise Refused("the worker must reply with a valid message, but did not") from error
    if unpack.at != len(body):
        raise Refused("the worker must reply with a valid message, but did not")
    return message["head"], value


class Unpack:
    """Rebuild a value from its tree and the bytes of its tensors."""

    def __init__(self, body: bytes):
        self.body = body
        self.at = 0
        self.nodes = 0

    def unpack_value(self, tree: Any, depth: int = 0) -> Any:
        """Convert a tree back to a value; raise an error if it is invalid."""
        self.nodes += 1
        if depth > _MAX_DEPTH or self.nodes > _MAX_NODES:
            raise Refused(_TOO_DEEP)
        if tree is None or type(tree) in (bool, int, str):
            return tree
        if type(tree) is not list or type(tree[0]) is not str:
            raise Refused("the worker must reply with a valid message, but did not")
        tag, *rest = tree
        if tag == "f":
            return float.fromhex(*rest)
        if tag == "x":
            return self._tensor(*rest)
        (items,) = rest
        if type(items) is not list:
            raise Refused("the worker must reply with a valid message, but did not")
        if tag == "d":
            if any(type(key) is not str for key, _ in items):
                raise Refused("all keys of a dict must be strings")
            return {key: self.unpack_value(item, depth + 1) for key, item in items}
        kind = {"l": list, "t": tuple}[tag] if tag in ("l", "t") else None
        if kind is None:
            raise Refused("the worker must reply with a valid message, but did not")
        return kind(self.unpack_value(item, depth + 1) for item in items)

    def _tensor(self, name: str, shape: list) -> Any:
        import torch  # the grader has it; the zygote too

        if name not in _DTYPES or len(shape) > _MAX_AXES:
            raise Refused("the worker must reply with a valid message, but did not")
        if any(type(size) is not int or not 0 <= size < 2**31 for size in shape):
            raise Refused("the worker must reply with a valid message, but did not")
        dtype = getattr(torch, name)
        count = math.prod(shape)
        size = count * dtype.itemsize
        if size > len(self.body) - self.at:
            raise Refused("the worker must reply with a valid message, but did not")
        if not count:
            return torch.empty(shape, dtype=dtype)
        part = bytearray(self.body[self.at : self.at + size])
        self.at += size
        return torch.frombuffer(part, dtype=dtype).reshape(shape)
