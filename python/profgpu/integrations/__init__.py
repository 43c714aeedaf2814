"""Callbacks for training libraries. Each module imports its library, and nothing here does.

    from profgpu.integrations.lightning import ProfgpuCallback
    from profgpu.integrations.transformers import ProfgpuCallback
    from profgpu.integrations.accelerate import watch
    from profgpu.integrations.deepspeed import watch_engine
"""
