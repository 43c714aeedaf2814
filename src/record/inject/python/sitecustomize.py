"""Python's site module imports this at start-up, because `profgpu run` puts its folder in front of PYTHONPATH.

It arranges that profgpu_phases.py is loaded when PyTorch has been and that os._exit() loses nothing of the recording, and
does nothing else: no module but sys and os, which the interpreter has imported by then, is imported here, and any
version of Python may read it. Then it makes way for the sitecustomize that would have been imported without it.
"""
import sys

_FOLDER = __file__.rpartition('/')[0]
# Modules after whose import there is something to mark.
_MARKED = ('torch', 'torch.distributed.checkpoint.state_dict_saver', 'safetensors.torch')


class ProfgpuFinder(object):
    """Finds no module itself: asks the other finders for those above, and has what they found call us afterwards."""

    def __init__(self):
        self.asking = set()  # Other such finders ask all finders too.

    def find_spec(self, name, path=None, target=None):
        if name not in _MARKED or name in self.asking:
            return None
        self.asking.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, 'find_spec', None)
                spec = find(name, path, target) if find and finder is not self else None
                if spec is not None:
                    _call_after_import(spec.loader)
                    return spec
        finally:
            self.asking.discard(name)
        return None


def _call_after_import(loader):
    # An attribute of this one loader, gone after the call: the loader's class stays what libraries expect of it.
    try:
        load = loader.exec_module

        def exec_module(module):
            loader.__dict__.pop('exec_module', None)
            load(module)
            _mark(module)

        loader.exec_module = exec_module
    except Exception:  # A loader that takes no attribute: the module is imported, and nothing in it marked.
        pass


def _mark(module):
    try:
        phases = sys.modules.get('profgpu_phases')
        if phases is None:
            phases = _load('profgpu_phases')
            phases.load = _load
        phases.mark(module)
    except Exception:  # A program runs on without marks; what profgpu_phases itself can report, it has.
        pass


def _load(name):
    """Of this folder, which is not in sys.path."""
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, _FOLDER + '/' + name + '.py')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _write_before_exit():
    """os._exit(), by which forked children of multiprocessing leave, too, runs no exit handler of the recorder's."""
    import os
    leave, path = os._exit, os.environ['PROFGPU_INJECT']

    def _exit(status):
        try:
            phases, ctypes = sys.modules.get('profgpu_phases'), sys.modules.get('ctypes')
            if phases is not None:
                phases.end_last_step()
                phases.write_memory()
                phases.write_operators()
            if ctypes is not None:
                ctypes.CDLL(path, os.RTLD_NOLOAD).profgpu_end()  # OSError: nothing was recorded here.
        except BaseException:
            pass
        leave(status)

    os._exit = _exit


def _is_wanted():
    from os import environ
    # Another copy may be here already: `profgpu run` within `profgpu run`.
    return (sys.version_info >= (3, 8) and environ.get('PROFGPU_RECORD') and environ.get('PROFGPU_INJECT')
            and environ.get('PROFGPU_PYTHON_HOOK') != '0'
            and not any(type(finder).__name__ == 'ProfgpuFinder' for finder in sys.meta_path))


try:
    if _is_wanted():
        sys.meta_path.insert(0, ProfgpuFinder())
        _write_before_exit()
except Exception:
    pass

# What the program would have seen without us: a sys.path without our folder, and either the next sitecustomize under
# this name or an ImportError that says there is none, which site.py expects.
_others = [entry for entry in sys.path if entry.rstrip('/') != _FOLDER]
if len(_others) < len(sys.path) and __name__ in sys.modules:
    sys.path[:] = _others
    del sys.modules[__name__]
    import sitecustomize  # noqa: F401
