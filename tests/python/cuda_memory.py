"""Stands in for PyTorch's CUDA allocator on a machine without a GPU: its history, snapshots, observers and errors."""
import pickle

from memory_snapshots import snapshot

MIB = 1 << 20


class CudaMemory:
    """Takes the place of torch's functions until restore(). `settings`: of the history; None where it is off."""

    def __init__(self, torch, version='2.6', old_signature=False, has_observers=True):
        self.torch, self.version = torch, version
        self.settings, self.initialised, self.failed, self.dumped = None, False, [], []
        self.observers, self.kept, self.allocated, self.peak = [], [], 100 * MIB, 100 * MIB
        cuda, memory = torch.cuda, torch.cuda.memory
        record = self.record_2_0 if old_signature else self.record
        for owner, name, value in [
            (cuda, 'is_available', lambda: True), (cuda, 'is_initialized', lambda: self.initialised),
            (cuda, 'init', self.init), (cuda, 'device_count', lambda: 1),
            (cuda, 'reset_peak_memory_stats', self.reset_peak),
            (cuda, 'memory_allocated', lambda device=None: self.allocated),
            (cuda, 'max_memory_allocated', lambda device=None: self.peak),
            (cuda, 'memory_reserved', lambda device=None: self.peak + 20 * MIB),
            (memory, '_record_memory_history', record), (memory, '_dump_snapshot', self.dump),
            (torch._C, '_cuda_isHistoryEnabled', None if old_signature else lambda: self.settings is not None),
            (torch._C, '_cuda_attach_out_of_memory_observer', self.observers.append if has_observers else None),
        ]:
            self.kept.append((owner, name, getattr(owner, name, None)))
            setattr(owner, name, value)

    def restore(self):
        for owner, name, value in self.kept:
            setattr(owner, name, value)

    def init(self):
        self.initialised = True
        calls, self.torch.cuda._queued_calls[:] = list(self.torch.cuda._queued_calls), []
        for call, _ in calls:
            if getattr(call, '__module__', '') != 'torch.cuda':   # which ask for devices
                call()

    def reset_peak(self, device=None):
        self.peak = self.allocated

    def allocate(self, size):
        self.allocated += size
        self.peak = max(self.peak, self.allocated)

    def record(self, enabled='all', context='all', stacks='all', max_entries=1 << 62, device=None):
        assert self.initialised, 'the allocators of devices are not there yet'
        self.settings = {'stacks': stacks, 'max_entries': max_entries} if enabled else None

    def record_2_0(self, enabled, record_context=True, trace_alloc_max_entries=1, trace_alloc_record_context=False):
        self.settings = {'max_entries': trace_alloc_max_entries} if enabled else None

    def dump(self, path):
        made = snapshot(self.version, events=400 if self.settings else 0)
        last = made['device_traces'][0][-1]['time_us'] if self.version >= '2.1' else 0
        for size in self.failed:
            frames = [{'name': 'attend', 'filename': '/me/job/model.py', 'line': 30}]
            made['device_traces'][0].append({'action': 'oom', 'device_free': MIB, 'size': size, 'stream': 0,
                                             'time_us': last, 'frames': frames})
        with open(path, 'wb') as file:
            pickle.dump(made, file, 4)
        self.dumped.append(path)

    def fail(self, size=1 << 30):
        """An allocation fails as in PyTorch: observers first, then the exception."""
        self.failed.append(size)
        for observer in self.observers:
            observer(0, size, 100 * MIB, MIB)
        raise self.torch.OutOfMemoryError('CUDA out of memory. Tried to allocate %d bytes' % size)
