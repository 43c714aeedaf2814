#include "measure/kernels.h"

#include <fmt/format.h>

#include <string_view>

namespace profgpu {
namespace {

// A kernel that walks its buffers with a stride of the whole grid, so that neighboring threads touch neighboring
// elements. In `body`, %rd1 to %rd3 are the element's addresses in the buffers. %rd8 is its offset in bytes, %rd9 the
// stride, %rd10 the end.
std::string walking(std::string_view name, int pointers, std::string_view body, std::string_view after = "") {
  std::string parameters, addresses, begin;
  for (int i = 1; i <= pointers; ++i) {
    parameters += fmt::format(".param .u64 p{}, ", i);
    begin += fmt::format("  ld.param.u64 %rd{0}, [p{0}]; cvta.to.global.u64 %rd{0}, %rd{0};\n"
                         "  add.u64 %rd{0}, %rd{0}, %rd8;\n", i);
    addresses += fmt::format("  add.u64 %rd{0}, %rd{0}, %rd9;\n", i);
  }
  return fmt::format(R"(.visible .entry profgpu_{}({}.param .u64 count) {{
  .reg .pred %p<3>; .reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b64 %rd<16>;
  ld.param.u64 %rd10, [count]; shl.b64 %rd10, %rd10, 4;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %rd8, %r1, %r2; cvt.u64.u32 %rd9, %r3; add.u64 %rd8, %rd8, %rd9; shl.b64 %rd8, %rd8, 4;
  mul.wide.u32 %rd9, %r2, %r4; shl.b64 %rd9, %rd9, 4;
  mov.u32 %r9, 0;
{}NEXT:
  setp.ge.u64 %p1, %rd8, %rd10;
  @%p1 bra DONE;
{}{}  add.u64 %rd8, %rd8, %rd9;
  bra NEXT;
DONE:
{}  ret;
}}
)", name, parameters, begin, body, addresses, after);
}

// A kernel in which each thread has pairs of 32-bit elements at a distance: %rd10 and %rd11 are their addresses, %rd7
// the first one's number, %rd4 the parameter `block`.
std::string pairing(std::string_view name, std::string_view body) {
  return fmt::format(R"(.visible .entry profgpu_{}(
  .param .u64 data, .param .u64 count, .param .u64 stride, .param .u64 block) {{
  .reg .pred %p<3>; .reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [data]; cvta.to.global.u64 %rd1, %rd1;
  ld.param.u64 %rd2, [count]; shr.u64 %rd2, %rd2, 1;
  ld.param.u64 %rd3, [stride]; ld.param.u64 %rd4, [block]; sub.u64 %rd5, %rd3, 1;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %rd8, %r1, %r2; cvt.u64.u32 %rd9, %r3; add.u64 %rd8, %rd8, %rd9;
  mul.wide.u32 %rd9, %r2, %r4;
NEXT:
  setp.ge.u64 %p1, %rd8, %rd2;
  @%p1 bra DONE;
  and.b64 %rd6, %rd8, %rd5; sub.u64 %rd7, %rd8, %rd6; shl.b64 %rd7, %rd7, 1; add.u64 %rd7, %rd7, %rd6;
  shl.b64 %rd10, %rd7, 2; add.u64 %rd10, %rd10, %rd1; shl.b64 %rd11, %rd3, 2; add.u64 %rd11, %rd11, %rd10;
{}  add.u64 %rd8, %rd8, %rd9;
  bra NEXT;
DONE:
  ret;
}}
)", name, body);
}

// Reads `count` elements of a buffer that is shorter: each thread wraps around. `cg`: past the first cache, which would
// keep a part of a small buffer.
constexpr std::string_view kReread = R"(.visible .entry profgpu_reread(
  .param .u64 from, .param .u64 sink, .param .u64 count, .param .u64 mask) {
  .reg .pred %p<3>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [from]; cvta.to.global.u64 %rd1, %rd1;
  ld.param.u64 %rd10, [count]; shl.b64 %rd10, %rd10, 4; ld.param.u64 %rd4, [mask];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %rd8, %r1, %r2; cvt.u64.u32 %rd9, %r3; add.u64 %rd8, %rd8, %rd9; shl.b64 %rd8, %rd8, 4;
  mul.wide.u32 %rd9, %r2, %r4; shl.b64 %rd9, %rd9, 4;
  mov.u32 %r9, 0;
NEXT:
  setp.ge.u64 %p1, %rd8, %rd10;
  @%p1 bra DONE;
  and.b64 %rd5, %rd8, %rd4; add.u64 %rd5, %rd5, %rd1;
  ld.global.cg.v4.u32 {%r5, %r6, %r7, %r8}, [%rd5];
  add.u32 %r5, %r5, %r6; add.u32 %r7, %r7, %r8; add.u32 %r5, %r5, %r7; add.u32 %r9, %r9, %r5;
  add.u64 %rd8, %rd8, %rd9;
  bra NEXT;
DONE:
  setp.eq.u32 %p2, %r9, 0x5bd1e995;
  ld.param.u64 %rd2, [sink]; cvta.to.global.u64 %rd2, %rd2;
  @%p2 st.global.u32 [%rd2], %r9;
  ret;
}
)";

}  // namespace

std::string kernel_text() {
  return ".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry profgpu_empty() { ret; }\n" +
         // Buffers hold zeros, so the sum is never this number; the compiler cannot know, and has to read.
         walking("read", 2,
                 "  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1];\n"
                 "  add.u32 %r5, %r5, %r6; add.u32 %r7, %r7, %r8; add.u32 %r5, %r5, %r7; add.u32 %r9, %r9, %r5;\n",
                 "  setp.eq.u32 %p2, %r9, 0x5bd1e995;\n"
                 "  ld.param.u64 %rd2, [p2]; cvta.to.global.u64 %rd2, %rd2;\n"
                 "  @%p2 st.global.u32 [%rd2], %r9;\n") +
         std::string(kReread) +
         walking("sum", 2,
                 "  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1];\n"
                 "  add.u32 %r5, %r5, %r6; add.u32 %r7, %r7, %r8; add.u32 %r5, %r5, %r7; add.u32 %r9, %r9, %r5;\n",
                 "  ld.param.u64 %rd2, [p2]; cvta.to.global.u64 %rd2, %rd2;\n"
                 "  red.global.add.u32 [%rd2], %r9;\n") +
         pairing("sort",
                 "  ld.global.u32 %r5, [%rd10]; ld.global.u32 %r6, [%rd11];\n"
                 "  and.b64 %rd12, %rd7, %rd4; setp.eq.u64 %p2, %rd12, 0;\n"
                 "  min.u32 %r7, %r5, %r6; max.u32 %r8, %r5, %r6;\n"
                 "  selp.b32 %r5, %r7, %r8, %p2; selp.b32 %r6, %r8, %r7, %p2;\n"
                 "  st.global.u32 [%rd10], %r5; st.global.u32 [%rd11], %r6;\n") +
         pairing("butterfly",
                 "  ld.global.f32 %f1, [%rd10]; ld.global.f32 %f2, [%rd11];\n"
                 "  add.rn.f32 %f3, %f1, %f2; sub.rn.f32 %f4, %f1, %f2;\n"
                 "  mul.rn.f32 %f3, %f3, 0f3F3504F3; mul.rn.f32 %f4, %f4, 0f3F3504F3;\n"
                 "  st.global.f32 [%rd10], %f3; st.global.f32 [%rd11], %f4;\n") +
         walking("write", 1, "  st.global.v4.u32 [%rd1], {%r9, %r9, %r9, %r9};\n") +
         walking("copy", 2,
                 "  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1];\n"
                 "  st.global.v4.u32 [%rd2], {%r5, %r6, %r7, %r8};\n") +
         walking("triad", 3,
                 "  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];\n"
                 "  ld.global.v4.f32 {%f5, %f6, %f7, %f8}, [%rd2];\n"
                 "  mov.f32 %f9, 0f40400000;\n"
                 "  fma.rn.f32 %f1, %f5, %f9, %f1; fma.rn.f32 %f2, %f6, %f9, %f2;\n"
                 "  fma.rn.f32 %f3, %f7, %f9, %f3; fma.rn.f32 %f4, %f8, %f9, %f4;\n"
                 "  st.global.v4.f32 [%rd3], {%f1, %f2, %f3, %f4};\n");
}

}  // namespace profgpu
