"""Marks the phases of a training loop: profgpu-inject's ranges around calls of PyTorch that every loop makes.

What is marked, and what counts as a step, stands in docs/python-hook.md. Three rules hold here:
  - No error of ours reaches the program. The first one turns all marks off and is reported in the recording.
  - torch.compile must see what it would see without us. Whatever it may trace starts with `if is_compiling()`, a
    constant to it, and none of our frames is ever compiled by itself (see leave_to_interpreter).
  - A call costs a microsecond or two, one within a marked call less. bench/python_hook.py measures it.
"""
import atexit
import ctypes
import gc
import os
import sys
from _thread import _local, get_ident

FORWARD, BACKWARD, OPTIMIZER = b'forward', b'backward', b'optimizer'
DATA_LOADING, CHECKPOINT = b'data_loading', b'checkpoint'
GARBAGE = b'Python GC'   # as torch.profiler names it

TURN_S = 0.0005   # A sample of a thread that runs Python code is taken so much late.

# What a phase may start in, besides in none. A forward in a backward is recomputation, one in a data wait a transform.
# An optimizer's closure runs forward and backward; an optimizer may step in a backward, parameter by parameter.
STARTS_IN = {FORWARD: (OPTIMIZER,), BACKWARD: (OPTIMIZER, FORWARD), OPTIMIZER: (BACKWARD, FORWARD), DATA_LOADING: (),
             CHECKPOINT: (OPTIMIZER, FORWARD, BACKWARD)}


class Thread(_local):
    """What is open on a thread."""

    def __init__(self):
        self.phases = []
        self.collects = False
        self.optimizers = []  # (id of the optimizer, depth of its phase or 0)


class Steps:
    """Where steps end: at the next data wait after an optimizer has stepped, or, if no data was waited for in the step,
    at the next forward or backward. What ends is known only there: two optimizers may step in one step."""

    def __init__(self):
        self.number = 0
        self.loop_thread = None   # the one that steps optimizers: a prefetcher's data waits end nothing
        self.backward_thread = None
        self.stepped = set()      # optimizers, since the last end
        self.waited = False       # for data, since the last end
        self.again = False        # a forward or backward since the last optimizer

    def end(self):
        self.stepped.clear()
        self.waited = self.again = False
        number, self.number = self.number, self.number + 1
        if not program_marks_steps:
            library.profgpu_step(number)
            if torch_steps is not None:
                torch_steps.begin(self.number)
        if operators is not None:
            operators.begin(self.number, not program_marks_steps)

    def before(self, phase):
        if phase is BACKWARD:
            self.backward_thread = get_ident()
        if self.loop_thread is not None and self.loop_thread != get_ident():
            return
        if phase is DATA_LOADING:
            if self.stepped:
                self.end()
            self.waited = True
        elif self.stepped and (phase is FORWARD or phase is BACKWARD):  # A compiled function shows no forward.
            if self.waited:
                self.again = True
            else:
                self.end()

    def before_optimizer(self, optimizer, has_closure):
        # Second case: one batch was fetched and is trained on for ever.
        if self.stepped and ((has_closure and not self.waited) or (self.again and optimizer in self.stepped)):
            self.end()

    def after_optimizer(self, optimizer):
        # One that steps in a backward may do so on a thread of autograd's own.
        alone = in_backward is None or in_backward() == -1
        self.loop_thread = get_ident() if alone else self.backward_thread
        self.stepped.add(optimizer)
        self.again = False


class TorchSteps:
    """The same steps in a trace that PyTorch is asked for while it runs: ranges with the name that its profiler gives them."""

    def __init__(self, record_function, profiles_itself, of_parent=None):
        self.record_function = record_function
        self.profiles_itself = profiles_itself  # the program does, and its profiler marks its steps
        self.of_parent = of_parent  # Its range is kept: to end it would take locks of the profiler's.
        self.range = None

    def begin(self, number):
        self.end()
        if self.profiles_itself():
            return
        self.range = self.record_function('ProfilerStep#%d' % number)
        self.range.__enter__()

    def end(self):
        if self.range is not None:
            self.range.__exit__(None, None, None)
            self.range = None


load = None         # a module of this folder by its name: sitecustomize.py's
library = None      # None: off
stacks_end = None   # ends the sampling of stacks
is_recording = False
program_marks_steps = False  # by profgpu.step()
is_compiling = None
in_backward = None  # torch's number of the backward that this thread works for, or -1
worker = None       # torch's module of DataLoader workers
torch_version = ''
missing = []
thread = Thread()
steps = Steps()
torch_steps = None  # None: nobody may ask for a trace
memory = None       # of `profgpu run --trace --memory`, once the program uses CUDA
operators = None    # of `profgpu run --trace --torch-steps N`
sampled_thread = None  # whose stack is; 0: none so far; None: none ever


def turn_off(error):
    global library
    was, library = library, None
    try:
        text = 'off after an error: %s: %s' % (type(error).__name__, error)
        was.profgpu_property(b'python_hook', text.encode()[:400])
    except Exception:
        pass


def start():
    """At the first mark and not before: a process that only imports PyTorch needs no file."""
    global is_recording, library, sampled_thread
    is_recording = True
    if not library.profgpu_start(b'python'):
        library = None
        return
    library.profgpu_property(b'torch_version', torch_version.encode())
    if hasattr(os, 'sched_getaffinity'):
        library.profgpu_property(b'processors', b'%d' % len(os.sched_getaffinity(0)))
    interval_ns = int(os.environ.get('PROFGPU_PYTHON_STACKS_NS') or 0)
    if interval_ns > 0:
        folders = sorted((entry.rstrip('/') + '/' for entry in sys.path if entry), key=len, reverse=True)
        has_lock = getattr(sys, '_is_gil_enabled', lambda: True)()
        if has_lock and library.profgpu_stacks_start(interval_ns, '\n'.join(folders).encode('utf-8', 'replace')):
            sampled_thread = 0
            sys.setswitchinterval(min(TURN_S, sys.getswitchinterval()))
        elif 'stacks' not in missing:
            missing.append('stacks')
    library.profgpu_property(b'python_hook', b'on' + (' without ' + ', '.join(missing)).encode() if missing else b'on')


def enter(phase):
    """Depth of the phase on its thread, for leave(); 0: not marked."""
    if library is None:
        return 0
    try:
        phases = thread.phases
        if phases:
            if phase is DATA_LOADING and phases[-1] not in (DATA_LOADING, CHECKPOINT):
                # Left over from a call that never came to its end, or a module whose forward is a whole loop.
                close(1)
                del thread.optimizers[:]
            elif phases[-1] not in STARTS_IN[phase]:
                return 0
        if phase is FORWARD and in_backward is not None and in_backward() != -1:
            return 0  # recomputation on a thread of autograd's own
        if worker._worker_info is not None:
            return 0
        if not is_recording:
            start()
        steps.before(phase)
        if sampled_thread is not None and sampled_thread != get_ident() and runs_the_loop(phase):
            follow()
        phases.append(phase)
        library.profgpu_push(phase)
        return len(phases)
    except Exception as error:
        turn_off(error)
        return 0


def runs_the_loop(phase):
    """Whether the calling thread does, as far as is known; a prefetcher waits for data, too."""
    if steps.loop_thread is not None:
        return steps.loop_thread == get_ident()
    return phase is FORWARD or sampled_thread == 0


def follow():
    global sampled_thread
    sampled_thread = get_ident()
    library.profgpu_stacks_follow(sampled_thread)


def end():
    """Of Python. A thread that waits for its lock then never gets it."""
    try:
        if collects in gc.callbacks:  # The interpreter's last collection stops no loop.
            gc.callbacks.remove(collects)
        if sampled_thread is not None:
            stacks_end()
    except Exception as error:
        turn_off(error)
    end_last_step()
    write_memory()
    write_operators()
    end_if_interrupted()


def end_if_interrupted():
    """After an interrupt Python ends itself by a signal, in which no library is closed: the recording ends here."""
    if library is None or not is_recording:
        return
    error = getattr(sys, 'last_type', None) or type(getattr(sys, 'last_exc', None))
    if issubclass(error, KeyboardInterrupt):
        ctypes.CDLL(os.environ['PROFGPU_INJECT']).profgpu_end()  # without Python's lock: it waits for a thread


def write_operators():
    if operators is not None:
        operators.end()


def write_memory():
    if memory is not None:
        memory.end()


def close(depth):
    phases = thread.phases
    while len(phases) >= depth:
        phases.pop()
        library.profgpu_pop()


def leave(depth):
    if library is None:
        return
    try:
        close(depth)
    except Exception as error:
        turn_off(error)


def collects(phase, info):
    """Called by Python's garbage collector. Collections of the youngest generation are too short and many to mark."""
    if library is None or not is_recording or info['generation'] == 0:
        return
    try:
        if phase == 'start':
            library.profgpu_push(GARBAGE)
            thread.collects = True
        elif thread.collects:
            thread.collects = False
            library.profgpu_pop()
    except Exception as error:
        turn_off(error)


def before_optimizer(optimizer, args, kwargs):
    if is_compiling is not None and is_compiling():
        return
    begin_optimizer(id(optimizer), len(args) > 1 or 'closure' in kwargs)


def begin_optimizer(optimizer, has_closure):
    if library is None:
        return
    try:
        optimizers = thread.optimizers
        for i, (other, depth) in enumerate(optimizers):
            if other == optimizer:  # Its last step raised.
                if depth:
                    close(depth)
                del optimizers[i:]
                break
        if worker._worker_info is None:
            steps.before_optimizer(optimizer, has_closure)
        optimizers.append((optimizer, enter(OPTIMIZER)))
    except Exception as error:
        turn_off(error)


def after_optimizer(optimizer, args, kwargs):
    if is_compiling is not None and is_compiling():
        return
    end_optimizer(id(optimizer))


def end_optimizer(optimizer):
    if library is None:
        return
    try:
        optimizers = thread.optimizers
        for i in range(len(optimizers) - 1, -1, -1):
            other, depth = optimizers[i]
            if other == optimizer:
                del optimizers[i:]
                if depth:
                    close(depth)
                if worker._worker_info is None:
                    steps.after_optimizer(optimizer)
                return
    except Exception as error:
        turn_off(error)


def end_last_step():
    if library is None or not is_recording or not steps.stepped:
        return
    try:
        steps.end()
        if torch_steps is not None:
            torch_steps.end()
    except Exception as error:
        turn_off(error)


def forget():
    """A forked child has stepped nowhere yet, and what was open is its parent's."""
    global thread, steps, is_recording, torch_steps, sampled_thread, memory, operators
    thread, steps, is_recording, sampled_thread, memory = Thread(), Steps(), False, None, None
    if operators is not None:
        operators = operators.of_child()
    if torch_steps is not None:
        torch_steps = TorchSteps(torch_steps.record_function, torch_steps.profiles_itself, torch_steps)


def wrapped(original, phase):
    """A function in the place of `original`."""
    # Both in one: what is wrapped takes its arguments as they come, `self` with them.
    def call(*args, **kwargs):
        if is_compiling is not None and is_compiling():
            return original(*args, **kwargs)
        depth = enter(phase)
        if depth == 0:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            leave(depth)
    return in_place_of(original, call)


def wrapped_scaler_step(original):
    # A step that the scaler skips, because a gradient is not finite, is a step too.
    def step(self, optimizer, *args, **kwargs):
        key = (id(self), id(optimizer))  # The optimizer begins, too, if it is not skipped.
        begin_optimizer(key, False)
        try:
            return original(self, optimizer, *args, **kwargs)
        finally:
            end_optimizer(key)
    return in_place_of(original, step)


def in_place_of(original, function):
    for name in ('__module__', '__name__', '__qualname__', '__doc__', '__annotations__'):
        try:
            setattr(function, name, getattr(original, name))
        except (AttributeError, TypeError):
            pass
    function.__wrapped__ = original
    leave_to_interpreter(function)
    return function


def leave_to_interpreter(function):
    """torch.compile shall not compile a frame of this function where it is called from code that is not traced."""
    dynamo = getattr(sys.modules['torch']._C, '_dynamo', None)
    frames = getattr(dynamo, 'eval_frame', None)
    if hasattr(frames, 'skip_code'):
        frames.skip_code(function.__code__)
    elif hasattr(frames, 'set_code_exec_strategy'):
        strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, strategy)


def wrap(owner, name, phase):
    setattr(owner, name, wrapped(getattr(owner, name), phase))


def mark_forward(torch):
    # Not by hooks on modules: those change what torch.compile traces, and slow down every module.
    if is_compiling is None and hasattr(torch, 'compile'):
        raise RuntimeError('it cannot be told from compiled code in this version of torch')
    wrap(torch.nn.Module, '__call__', FORWARD)


def mark_backward(torch):
    wrap(torch.autograd, 'backward', BACKWARD)  # Tensor.backward calls it.


def mark_optimizer(torch):
    module = sys.modules['torch.optim.optimizer']  # torch.optim has no such attribute in some versions.
    if hasattr(module, 'register_optimizer_step_post_hook'):
        module.register_optimizer_step_pre_hook(before_optimizer)
        module.register_optimizer_step_post_hook(after_optimizer)
        return
    # torch 1: every optimizer passes its class through here once, to name its steps for the profiler.
    original = module.Optimizer._hook_for_profile

    def _hook_for_profile(self):
        original(self)
        step = type(self).step
        if not hasattr(step, '__profgpu__'):
            def marked(optimizer, *args, **kwargs):
                begin_optimizer(id(optimizer), bool(args) or 'closure' in kwargs)
                try:
                    return step(optimizer, *args, **kwargs)
                finally:
                    end_optimizer(id(optimizer))
            marked = in_place_of(step, marked)
            marked.hooked = marked.__profgpu__ = True
            type(self).step = marked
    module.Optimizer._hook_for_profile = _hook_for_profile


def mark_scaler(torch):
    for owner in (getattr(torch, 'amp', None), torch.cuda.amp):
        scaler = getattr(owner, 'GradScaler', None)
        if scaler is not None:
            scaler.step = wrapped_scaler_step(scaler.step)
            return  # In versions that have both, the second is made of the first.


def mark_data_loading(torch):
    loader = torch.utils.data.dataloader
    wrap(loader._BaseDataLoaderIter, '__next__', DATA_LOADING)
    wrap(loader.DataLoader, '__iter__', DATA_LOADING)  # Starts the workers.


def mark_checkpoint(torch):
    wrap(torch.serialization, 'save', CHECKPOINT)
    torch.save = torch.serialization.save


def mark_torch_steps(torch):
    global torch_steps
    if os.environ.get('KINETO_USE_DAEMON'):
        torch_steps = TorchSteps(torch.autograd.profiler.record_function, torch.autograd._profiler_enabled)


def mark_torch_trace(torch):
    global operators
    count = int(os.environ.get('PROFGPU_TORCH_STEPS') or 0)
    if count > 0:
        operators = load('profgpu_operators').Operators(torch, library, count)
        for function in (operators.begin, operators.start, operators.end, operators.end_range):
            leave_to_interpreter(function.__func__)


def mark_memory(torch):
    if not os.environ.get('PROFGPU_MEMORY'):
        return
    if not hasattr(torch.cuda.memory, '_record_memory_history'):
        raise RuntimeError('PyTorch 2.0 or later is needed')
    torch.cuda._lazy_call(record_memory)  # When the program first uses CUDA. Most that import PyTorch never do.


def record_memory():
    global memory
    if library is None:
        return
    try:
        if not is_recording:
            start()
        if library is None:
            return
        load('profgpu_allocator')
        memory = load('profgpu_memory').Memory(sys.modules['torch'], library)
        library.profgpu_property(b'memory', b'on')
    except Exception as error:
        text = 'off after an error: %s: %s' % (type(error).__name__, error)
        library.profgpu_property(b'memory', text.encode()[:400])


def mark_distributed_checkpoint(module):
    for name in ('save', 'async_save', 'save_state_dict'):
        if hasattr(module, name):
            wrap(module, name, CHECKPOINT)


def mark_safetensors(module):
    wrap(module, 'save_file', CHECKPOINT)


def prepare(torch):
    global library, stacks_end, is_compiling, in_backward, worker, torch_version
    torch_version = str(torch.__version__)
    worker = torch.utils.data._utils.worker
    for owner in (getattr(torch, 'compiler', None), getattr(torch, '_utils', None)):
        if is_compiling is None:
            is_compiling = getattr(owner, 'is_compiling', None)
    in_backward = getattr(torch._C, '_current_graph_task_id', None)
    for function in (enter, leave, close, start, runs_the_loop, follow, turn_off, collects, begin_optimizer, end_optimizer, before_optimizer,
                     after_optimizer, Steps.end, Steps.before, Steps.before_optimizer, Steps.after_optimizer,
                     Thread.__init__, TorchSteps.__init__, TorchSteps.begin, TorchSteps.end):
        leave_to_interpreter(function)
    # PyDLL: what is called returns at once, so that giving up Python's lock would cost more than the call.
    library = ctypes.PyDLL(os.environ['PROFGPU_INJECT'])
    library.profgpu_start.argtypes = library.profgpu_push.argtypes = (ctypes.c_char_p,)
    library.profgpu_property.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    library.profgpu_step.argtypes = (ctypes.c_long,)
    library.profgpu_stacks_start.argtypes = (ctypes.c_long, ctypes.c_char_p)
    library.profgpu_stacks_follow.argtypes = (ctypes.c_ulong,)
    library.profgpu_stacks_follow.restype = None
    library.profgpu_pop.argtypes = ()
    # CDLL: the sampler needs the lock to end. Opened now, so that it is not sampled while the program ends.
    stacks_end = ctypes.CDLL(os.environ['PROFGPU_INJECT']).profgpu_stacks_end
    for name in ('push', 'pop', 'step', 'property'):
        getattr(library, 'profgpu_' + name).restype = None
    gc.callbacks.append(collects)
    atexit.register(end)
    os.register_at_fork(after_in_child=forget)


AFTER_IMPORT = {
    'torch': (mark_forward, mark_backward, mark_optimizer, mark_scaler, mark_data_loading, mark_checkpoint,
              mark_torch_steps, mark_torch_trace, mark_memory),
    'torch.distributed.checkpoint.state_dict_saver': (mark_distributed_checkpoint,),
    'safetensors.torch': (mark_safetensors,),
}


def mark(module):
    """Called once for each of these modules when it has been imported."""
    if module.__name__ == 'torch':
        prepare(module)
    if library is None:
        return
    for patch in AFTER_IMPORT[module.__name__]:
        try:
            patch(module)
        except Exception:
            missing.append(patch.__name__[len('mark_'):])
