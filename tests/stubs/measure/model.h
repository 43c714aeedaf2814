// What the stand-ins for libcuda.so.1 and libcublasLt.so share. Simulated: no GPU is behind it.
#pragma once

#include <cstdint>

#define MODEL_EXPORT extern "C" __attribute__((visibility("default")))

/// Of CUDA_MODEL, for a device; -1: of all.
MODEL_EXPORT double model_setting(const char* key, int device, double otherwise);
/// What `function` returns: 0, or the failure that the scenario has for it. Hangs where that says so. Every call of the
/// stand-ins begins with it.
MODEL_EXPORT int model_enter(const char* function);
/// Puts work of so many nanoseconds into the stream; returns 0, or the code of a lost device.
MODEL_EXPORT int model_work(void* stream, double ns);
/// The same for products and collectives, which slow each other: `product_beside` and `collective_beside` say how much
/// longer one takes while the other goes on in another stream of the device.
MODEL_EXPORT int model_product(void* stream, double ns);
MODEL_EXPORT int model_collective(void* stream, double ns);
/// The text of KEY in CUDA_MODEL, up to its end or a comma; null: it is not there.
MODEL_EXPORT const char* model_text(const char* key);
/// What memory holds: runs of equal bytes.
MODEL_EXPORT void model_fill(uint64_t address, uint64_t bytes, int value);
MODEL_EXPORT int model_byte(uint64_t address);
/// Has the device's last cache hold these bytes, in the place of what it was not asked for longest. 1: it held them.
MODEL_EXPORT int model_touch(int device, uint64_t address, uint64_t bytes);
/// The device of a stream.
MODEL_EXPORT int model_stream_device(void* stream);
/// Moves the host's clock.
MODEL_EXPORT void model_pass(double ns);
/// The current device.
MODEL_EXPORT int model_device();
