"""Some steps by PyTorch's own profiler for `profgpu run --trace --torch-steps N`, in the process that is recorded: operators
with their shapes, beside the recording, which `profgpu analyze` joins with it.

As in profgpu_phases.py no error of ours reaches the program.
"""
import ctypes
import os

WARMUP = 3   # steps before the first one: they compile, allocate and load


class Operators:
    def __init__(self, torch, library, count):
        self.torch, self.library, self.count = torch, library, count
        self.profile = self.range = None
        self.first = WARMUP
        self.is_over = False

    def of_child(self):
        """For a forked child, which may be a rank. None: its parent has used the profiler, which may not work in the child."""
        if self.profile is not None or self.is_over:
            return None
        return Operators(self.torch, self.library, self.count)

    def say(self, text):
        self.library.profgpu_property(b'torch_steps', text.encode('utf-8', 'replace')[:400])

    def begin(self, number, marks):
        """Step `number` begins, on the thread that trains. `marks`: the program names no steps itself."""
        if self.is_over:
            return
        try:
            self.end_range()
            if self.profile is not None and number >= self.first + self.count:
                self.end()
            elif self.profile is None and number >= self.first:
                self.start(number)
            if self.profile is not None and marks:
                self.range = self.torch.autograd.profiler.record_function('ProfilerStep#%d' % number)
                self.range.__enter__()
        except Exception as error:
            self.give_up(error)

    def start(self, number):
        if self.torch.autograd._profiler_enabled():
            self.say('waiting: the program uses PyTorch\'s profiler itself')
            return
        self.first = number
        profile = self.torch.profiler.profile(record_shapes=True)
        profile.start()
        self.profile = profile

    def end_range(self):
        opened, self.range = self.range, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def end(self):
        """Writes what there is. Again: nothing."""
        profile, self.profile = self.profile, None
        if self.is_over or profile is None:
            return
        self.is_over = True
        try:
            self.end_range()
            profile.stop()
            self.library.profgpu_file.restype = ctypes.c_char_p
            path = os.fsdecode(self.library.profgpu_file())[:-len('.pgt')] + '.pt.trace.json.gz'
            folder, name = os.path.split(path)
            partial = os.path.join(folder, '.partial-' + name)   # a file is whole once it has its name
            profile.export_chrome_trace(partial)
            os.replace(partial, path)
            self.say('traced from step %d on' % self.first)
        except Exception as error:
            self.give_up(error)

    def give_up(self, error):
        self.is_over = True
        profile, self.profile = self.profile, None
        try:
            if profile is not None:
                profile.stop()   # it would go on collecting
            self.say('off after an error: %s: %s' % (type(error).__name__, error))
        except Exception:
            pass
