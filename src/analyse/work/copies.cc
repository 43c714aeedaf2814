// Copies, and what puts tensors together.
#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// aten::copy_(self, src): one is read, the other written, each in its own type.
OpWork copy(const OpInputs& in) {
  if (!is_tensor(in[0])) return {.flops = 0};
  return moving(bytes_of(in, 0, 2));
}

// What is read is written.
OpWork twice(const OpInputs& in) { return moving(bytes_of(in, 0) + bytes_like(in, 0)); }

// aten::resize_ and kin move what the result has of it, at most.
constexpr OpForm kCopyForms[] = {
    {"aten::copy_", copy},
    {"aten::cat aten::stack aten::_chunk_cat aten::split_with_sizes_copy aten::clone aten::flip aten::roll", twice},
};

}  // namespace

extern const OpFamily kCopies = {"copies", kCopyForms};

}  // namespace profgpu
