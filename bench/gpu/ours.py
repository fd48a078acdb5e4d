"""Our kernels beside the peers': the rows' programs (ours.te), and what `bench/gpu/run` exported of
them, called on PyTorch's stream.

Needs nothing but ctypes until a kernel is called.
"""
import ctypes
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def slug(words):
    """The folder of an export: gemm_M4096_N4096_K4096_Tbf16."""
    return "_".join(word.replace("=", "") for word in words.split())


def workload(words):
    """As the command line has it, in this folder."""
    op, *parameters = words.split()
    return [f"ours.te:{op}", *parameters]


def library(folder, words):
    return os.path.join(folder, slug(words), "kernel.so")


class Failed(RuntimeError):
    pass


class Kernel:
    """A function of device tensors, which makes its result. `room` makes the tensor for that."""

    def __init__(self, folder, words, room):
        op = words.split()[0]
        self.library = ctypes.CDLL(library(folder, words))
        self.enqueue = self.function(f"{op}_enqueue", [ctypes.c_void_p] * 2 + [ctypes.c_void_p])
        self.error = getattr(self.library, f"{op}_error")
        self.error.argtypes, self.error.restype = [ctypes.c_void_p], ctypes.c_char_p
        self.room, self.kernel = room, ctypes.c_void_p()
        log = ctypes.create_string_buffer(4096)
        create = self.function(f"{op}_create", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t])
        code = create(ctypes.byref(self.kernel), log, len(log))
        if code != 0:
            raise Failed(f"{op}_create: {code}: {log.value.decode(errors='replace')}")

    def function(self, name, arguments):
        found = getattr(self.library, name)
        found.argtypes, found.restype = arguments, ctypes.c_int
        return found

    def __call__(self, *operands):
        import torch                       # pylint: disable=import-outside-toplevel
        out = self.room()
        buffers = (ctypes.c_uint64 * (len(operands) + 1))(
            *(one.data_ptr() for one in (*operands, out)))
        code = self.enqueue(self.kernel, torch.cuda.current_stream().cuda_stream, buffers)
        if code != 0:
            raise Failed(f"{code}: {self.error(self.kernel).decode(errors='replace')}")
        return out


class Later:
    """The same, loaded when it is first called: then PyTorch's context is there."""

    def __init__(self, folder, words, room):
        self.made, self.arguments = None, (folder, words, room)

    def __call__(self, *operands):
        if self.made is None:
            self.made = Kernel(*self.arguments)
        return self.made(*operands)


def contenders(row, folder):
    """Those of the row that are there: name -> function."""
    return {name: Later(folder, words, room) for name, (words, room) in row.ours.items()
            if os.path.exists(library(folder, words))}
