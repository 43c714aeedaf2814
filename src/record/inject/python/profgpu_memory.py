"""Snapshots of PyTorch's CUDA allocator for `profgpu run --trace --memory`: at the end, when an allocation fails, and
when `profgpu attach PID memory` asks for one. They lie beside the recording, and have its name.

As in profgpu_phases.py no error of ours reaches the program, and nothing it does or prints changes but that standard
error explains an out-of-memory error before its traceback.
"""
import _thread
import ctypes
import os
import subprocess
import sys

import profgpu_allocator

EXPLAINS_S = 60   # at most: a rank that dies must not keep the others waiting


class Memory:
    def __init__(self, torch, library):
        self.torch = torch
        library.profgpu_file.restype = ctypes.c_char_p
        self.stem = os.fsdecode(library.profgpu_file())[:-len('.pgt')]
        self.failed = False   # by an out-of-memory error that nobody caught
        self.library = ctypes.CDLL(os.environ['PROFGPU_INJECT'])   # gives up Python's lock while it waits
        self.library.profgpu_memory_done.argtypes = (ctypes.c_uint, ctypes.c_char_p)
        self.library.profgpu_memory_done.restype = None
        self.library.profgpu_memory_wait.argtypes = (ctypes.c_uint,)
        self.library.profgpu_memory_wait.restype = ctypes.c_uint
        profgpu_allocator.begin(torch, profgpu_allocator.MAX_ENTRIES, 'all')
        self.failures = profgpu_allocator.OutOfMemory(torch, lambda: self.stem + '-oom.pickle')
        self.shows, sys.excepthook = sys.excepthook, self.excepthook
        _thread.start_new_thread(self.serve, ())

    def serve(self):
        """For as long as the program runs. `profgpu attach` gets a path, or why there is none."""
        served = 0
        while True:
            served = self.library.profgpu_memory_wait(served)
            if served == 0:
                return
            path = '%s-memory-%d.pickle' % (self.stem, served)
            try:
                profgpu_allocator.write(self.torch, path)
                text = path
            except Exception as error:
                text = '!%s: %s' % (type(error).__name__, error)
            self.library.profgpu_memory_done(served, text.encode('utf-8', 'surrogateescape'))

    def excepthook(self, kind, value, traceback):
        try:
            if profgpu_allocator.is_out_of_memory(self.torch, kind):
                self.failed = True
                self.failures.write_last()
                self.explain()
        except Exception:
            pass
        self.shows(kind, value, traceback)

    def explain(self):
        path = self.failures.path
        if not path:
            text = 'profgpu: out of memory, and no snapshot of it could be written: %s\n' % self.failures.problem
        else:
            text = 'profgpu: out of memory; what the allocator held is in %s\n' % path
            # A program of its own, which is not recorded.
            quiet = ('LD_PRELOAD', 'CUDA_INJECTION64_PATH', 'NVTX_INJECTION64_PATH', 'PROFGPU_RECORD', 'PROFGPU_MEMORY')
            environment = {k: v for k, v in os.environ.items() if k not in quiet}
            try:
                done = subprocess.run([os.environ['PROFGPU_MEMORY'], 'analyze', path], env=environment, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=EXPLAINS_S)
                text += '\n' + done.stdout.decode('utf-8', 'replace') + '\n'
            except (OSError, subprocess.SubprocessError) as error:
                text += 'profgpu: %s\n' % error
        sys.stderr.write(text)   # in one piece: ranks may fail together
        sys.stderr.flush()

    def end(self):
        """The state that an out-of-memory error ended with has been written by then."""
        self.failures.closed = True
        if self.failed and self.failures.path:
            return
        try:
            profgpu_allocator.write(self.torch, self.stem + '-memory.pickle')
        except Exception as error:
            try:
                sys.stderr.write('profgpu: %s-memory.pickle: %s\n' % (self.stem, error))
            except Exception:   # closed
                pass
