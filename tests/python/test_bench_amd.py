"""profgpu bench on AMD's devices: against stand-ins with the names and numbers of HIP, hiprtc and hipBLASLt."""
import json
import os
import subprocess

import pytest

from test_bench import PROGRAM, STUBS, environment, figure

HIP = os.path.join(STUBS, 'measure', 'libhip_model.so')


def amd(model='', *words, **more):
    env = environment(model, PROFGPU_CUDA_LIBRARY='/nowhere/libcuda.so.1', PROFGPU_HIP_LIBRARY=HIP,
                      PROFGPU_HIPRTC_LIBRARY=HIP, PROFGPU_HIPBLASLT_LIBRARY=HIP,
                      PROFGPU_CUBLASLT_LIBRARY='/nowhere/libcublasLt.so', **more)
    result = subprocess.run([PROGRAM, 'bench', '--json', *words], env=env, capture_output=True)
    return result.returncode, json.loads(result.stdout or b'null'), result.stderr.decode()


def test_rates_are_the_models():
    code, document, error = amd('devices=2,h2d=55,d2h=52,local=4300,peer=60,fp64=80,fp32=110,tf32=200,bf16=700,fp16=720,'
                                'fp8=1300,int8=1400,launch_ns=3000', 'launch', 'bandwidth', 'matmul')
    assert code == 0, (error, document['not_measured'])
    assert {n['label'] for n in document['not_measured']} == {'device memory that the context takes'}
    assert document['machine']['cuda'] == 'HIP 6.2'
    assert [(d['compute_capability'], d['multiprocessors'], d['uuid']) for d in document['devices']] == [
        ('9.4', 304, 'GPU-00000000000000a0'), ('9.4', 304, 'GPU-00000000000000a1')]
    for name, value in (('host_to_device_memcpy_ce', 55), ('device_to_host_memcpy_ce', 52),
                        ('device_memory_triad', 4300), ('launch_call', 3000)):
        assert figure(document, name)['value'] == pytest.approx(value, rel=0.03), name
    assert figure(document, 'device_to_device_memcpy_write_ce', 0, 1)['value'] == pytest.approx(60, rel=0.03)
    for kind, rate in (('fp64', 80), ('fp32', 110), ('tf32', 200), ('bf16', 700), ('fp16', 720), ('fp8', 1300),
                       ('int8', 1400)):
        assert figure(document, f'{kind}_8192', 1)['value'] == pytest.approx(rate, rel=0.03), kind


def test_collectives_and_overlap():
    code, document, _ = amd('devices=4,nccl=300,nccl_ns=9000', 'collectives', 'overlap')
    assert code == 0 and not document['not_measured']
    assert figure(document, 'all_reduce_1024', None)['value'] == pytest.approx(9000, rel=0.03)


def test_what_is_missing_is_named():
    for name, benchmark, why in (('HIPBLASLT', 'matmul', 'no hipBLASLt'),
                                 ('HIPRTC', 'launch', 'no compiler for our kernels')):
        env = {f'PROFGPU_{name}_LIBRARY': '/nowhere/lib.so'}
        code, document, _ = amd_without(env, benchmark)
        assert why in ' '.join(n['why'] for n in document['not_measured'])
    code, document, _ = amd('fail=hiprtcCompileProgram:6', 'launch')
    assert 'hiprtcCompileProgram' in document['not_measured'][0]['why']
    code, document, _ = amd('memory=1e6', 'matmul')
    assert code == 1 and all('hipErrorOutOfMemory' in n['why'] for n in document['not_measured']
                             if n['kind'] == 'failed')


def amd_without(variables, *words):
    env = environment('', PROFGPU_CUDA_LIBRARY='/nowhere/libcuda.so.1', PROFGPU_HIP_LIBRARY=HIP,
                      **{'PROFGPU_HIPRTC_LIBRARY': HIP, 'PROFGPU_HIPBLASLT_LIBRARY': HIP, **variables})
    result = subprocess.run([PROGRAM, 'bench', '--json', *words], env=env, capture_output=True)
    return result.returncode, json.loads(result.stdout), result.stderr.decode()
