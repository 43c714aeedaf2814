// Names of kernels by the form that their makers give them; parts of short_kernel_name().
#pragma once

#include <string>
#include <string_view>

namespace profgpu {

/// A name made by rule: NCCL, Tensile, CUTLASS, XMMA, MIOpen's igemm. `bare` has no brackets. Empty: none of these.
std::string ruled_kernel_name(std::string_view bare);
/// Of an Itanium-mangled name ("_ZN..."): library and function, or what a wrapper runs.
std::string mangled_kernel_name(std::string_view name);
/// Of a wrapper, which says nothing: Kernel, Kernel2, device_kernel ...
bool is_wrapper_name(std::string_view base);
/// What an elementwise or reduction kernel of PyTorch computes: "add" of "4, at::native::CUDAFunctor_add<float>, ...".
std::string functor_name(std::string_view template_arguments);

}  // namespace profgpu
