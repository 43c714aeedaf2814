#include "analyse/rules/size_reasons.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/kernels.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/tile_bounds.h"
#include "analyse/rank/work.h"
#include "analyse/report/quantity.h"

namespace profgpu {
namespace {

constexpr int64_t kTile = 128;     // rows and columns that a block of threads computes at full rate
constexpr int64_t kShortInner = 512;
constexpr int64_t kLongInner = 16;       // times the longer side of the result
constexpr int64_t kFewChannels = 16;
constexpr int64_t kShortQueries = 64, kLargeHead = 128;
constexpr int64_t kManyRows = 4096;
constexpr double kMuchOfTiles = 0.25;
constexpr double kFp32Part = 0.3;        // a kernel at less than this of FP32's limit has other reasons

const OpWork& work_of(const Measured& m, const SlowOp& op) {
  return *m.facts().get<DeviceWork>().run(op.kernel)->work;
}

bool on_amd(const Measured& m) { return is_amd(m.trace(), m.device().id); }

int64_t multiprocessors_of(const Measured& m) { return m.trace().properties(m.device().id).multiprocessors; }

std::string channels_last(const Measured& m) {
  return on_amd(m) ? "channels_last (with PYTORCH_MIOPEN_SUGGEST_NHWC=1)" : "channels_last";
}

// Of parts that a library's kernels can divide the sum of a product into.
std::string split_inner(const Measured& m) {
  return fmt::format("kernels that split the inner size (split-K, stream-K): {} tries them; or sum torch.bmm over parts "
                     "of it",
                     on_amd(m) ? "PYTORCH_TUNABLEOP_ENABLED=1" : "torch.compile(mode=\"max-autotune\")");
}

bool has_long_inner(const ProductSizes& p) { return p.batch > 0 && p.k >= kLongInner * std::max(p.m, p.n); }

// Blocks for less than three quarters of the multiprocessors: the others have nothing to do.
std::optional<SizeReason> too_few_blocks(const Measured& m, const SlowOp& op) {
  const int64_t blocks = block_count(m.trace(), op.kernel), multiprocessors = multiprocessors_of(m);
  if (blocks <= 0 || 4 * blocks >= 3 * multiprocessors) return std::nullopt;
  const DeviceWords& words = device_words(m);
  const ProductSizes& product = work_of(m, op).product;
  const std::string fix = has_long_inner(product) ? split_inner(m)
                          : product.batch > 0
                              ? "more work in each call (larger batches), or kernels that split the inner size (split-K, "
                                "stream-K)"
                              : "more work in each call (larger batches)";
  return SizeReason{fmt::format("{} {} for {} {}", blocks, words.blocks, multiprocessors, words.multiprocessors),
                    {fix},
                    blocks};
}

// In the last wave of blocks most multiprocessors have nothing to do, and there are few waves.
std::optional<SizeReason> uneven_waves(const Measured& m, const SlowOp& op) {
  const int64_t blocks = block_count(m.trace(), op.kernel), multiprocessors = multiprocessors_of(m);
  if (blocks <= multiprocessors || multiprocessors <= 0) return std::nullopt;
  const int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  if (4 * blocks >= 3 * waves * multiprocessors) return std::nullopt;
  const DeviceWords& words = device_words(m);
  const double exact = static_cast<double>(blocks) / static_cast<double>(multiprocessors);
  return SizeReason{fmt::format("{} {} are {:.1f} waves on {} {}, which take as long as {}", blocks, words.blocks, exact,
                                multiprocessors, words.multiprocessors, waves),
                    {"sizes whose tiles fill whole waves, or kernels that split the inner size (split-K, stream-K)"}};
}

/// What blocks compute of a product's result.
struct Tiles {
  int64_t rows = kTile, columns = kTile, parts = 1;

  [[nodiscard]] int64_t along_rows(const ProductSizes& p) const { return (p.m + rows - 1) / rows; }
  [[nodiscard]] int64_t along_columns(const ProductSizes& p) const { return (p.n + columns - 1) / columns; }
};

// Libraries of products write columns first: what PyTorch calls rows are the second number.
std::optional<Tiles> named_tiles(std::string_view kernel) {
  const std::optional<ProductTile> tile = product_tile(kernel);
  if (!tile) return std::nullopt;
  return Tiles{tile->columns, tile->rows, inner_parts(kernel)};
}

std::optional<SizeReason> too_few_tiles(const Measured& m, const SlowOp& op) {
  const ProductSizes& product = work_of(m, op).product;
  const Tiles tiles = named_tiles(m.trace().name(op.kernel)).value_or(Tiles());
  const int64_t count = product.batch * tiles.along_rows(product) * tiles.along_columns(product);
  if (4 * count * tiles.parts >= 3 * multiprocessors_of(m)) return std::nullopt;
  const std::string in_parts = tiles.parts > 1 ? fmt::format(", in {} parts each", tiles.parts) : "";
  const std::string fix =
      has_long_inner(product) ? split_inner(m)
      : product.k > std::max(product.m, product.n)
          ? "kernels that split the inner size (split-K, stream-K), or larger batches"
          : fmt::format("larger batches, so that every {} has a tile", device_words(m).multiprocessor);
  return SizeReason{fmt::format("only {} tiles of {} x {}{}", count, tiles.columns, tiles.rows, in_parts), {fix}};
}

std::optional<SizeReason> skinny(const ProductSizes& p, std::string_view kernel) {
  const int64_t shorter = std::min(p.m, p.n);
  if (shorter >= kTile) return std::nullopt;
  const double padding = tile_padding(kernel, p);
  std::string in_tiles;
  if (padding >= kMuchOfTiles)
    in_tiles = fmt::format(", and {} of the kernel's tiles is padding", format_percent(100 * padding, 0));
  // The rows are the batch: where they are many, the weights are few.
  const bool few_weights = p.n < p.m && p.m >= kManyRows;
  return SizeReason{fmt::format("skinny: one side is {}{}", shorter, in_tiles),
                    {few_weights
                         ? "join GEMMs that read the same input (wider weights), or fuse it with its neighbors"
                         : "larger batches, or several small GEMMs in one (torch.bmm, grouped GEMMs)"}};
}

std::optional<SizeReason> product_reason(const Measured& m, const SlowOp& op) {
  const ProductSizes& product = work_of(m, op).product;
  const bool half = op.precision == Precision::kBf16 || op.precision == Precision::kFp16;
  const bool eighth = op.precision == Precision::kFp8 || op.precision == Precision::kInt8;
  const int64_t step = eighth ? 16 : 8;
  if ((half || eighth) && (product.k % step != 0 || product.n % step != 0))
    return SizeReason{fmt::format("sizes that aren't multiples of {}", step), {"pad sizes to a multiple of 64"}};
  if (auto few = too_few_blocks(m, op)) return few;
  if (auto reason = skinny(product, m.trace().name(op.kernel))) return reason;
  if (product.k < kShortInner)
    return SizeReason{fmt::format("the inner size is only {}", product.k),
                      {product.batch > 1
                           ? "a fused kernel for what surrounds these small GEMMs, such as attention"
                           : "join GEMMs with small inner sizes: several heads, adapters or experts in one"}};
  if (auto few = too_few_tiles(m, op)) return few;
  return uneven_waves(m, op);
}

std::string depthwise_fix(const Measured& m) {
  if (on_amd(m)) return "bfloat16: memory limits it, and half of the bytes move; " + channels_last(m);
  return "channels_last with float16 or bfloat16, for which PyTorch calls cuDNN's depthwise kernels";
}

std::optional<SizeReason> convolution_reason(const Measured& m, const SlowOp& op) {
  const ConvolutionSizes& c = work_of(m, op).convolution;
  if (c.transposed)
    return SizeReason{"transposed: it runs on the kernels of an input's gradient",
                      {"upsampling and an ordinary convolution, or PixelShuffle, if the model allows it"}};
  if (c.dilation > 1)
    return SizeReason{fmt::format("dilation {}: its filter reads points that far apart", c.dilation),
                      {"a smaller feature map with less dilation, if the model allows it"}};
  if (c.groups > 1 && c.channels == 1)
    return SizeReason{"depthwise: each weight is used for one channel", {depthwise_fix(m)}};
  if (c.channels < kFewChannels)
    return SizeReason{fmt::format("only {} input channels{}", c.channels, c.groups > 1 ? " in each group" : ""),
                      {"more channels and fewer points: pixel_unshuffle before it, or channels padded to 8 or 16"}};
  if (c.points > 0 && c.points < kTile)
    return SizeReason{fmt::format("only {} points in the result: less than a tile, while all weights are read", c.points),
                      {"larger batches"}};
  return std::nullopt;
}

std::optional<SizeReason> attention_reason(const Measured& m, const SlowOp& op) {
  const AttentionSizes& a = work_of(m, op).attention;
  if (a.queries > 0 && a.queries < kShortQueries && a.keys >= kLongInner * a.queries)
    return SizeReason{fmt::format("{} queries for {} keys of a sequence", a.queries, a.keys),
                      {"kernels that split the keys (flash decoding), and more sequences at once"}};
  if (a.queries > 0 && a.queries < kShortQueries)
    return SizeReason{fmt::format("only {} queries in a sequence: less than a tile", a.queries),
                      {"join short sequences: packing, or attention with cu_seqlens"}};
  if (a.head_size > kLargeHead)
    return SizeReason{fmt::format("head size {}: few kernels are tuned for more than {}", a.head_size, kLargeHead),
                      {other_kernels(m, op)}};
  return std::nullopt;
}

// Whether kernels of that name belong to the same call as `a`.
bool run_has(const Measured& m, ActivityId a, std::string_view name) {
  constexpr uint32_t kReach = 32;
  const std::vector<uint32_t>& run_of = m.facts().get<DeviceWork>().run_of;
  const uint32_t begin = std::max(m.device().begin.value, a.value - std::min(a.value, kReach));
  const uint32_t end = std::min(m.device().end.value, a.value + kReach);
  for (uint32_t i = begin; i < end; ++i)
    if (run_of[i] == run_of[a.value] && contains(m.trace().name(ActivityId(i)), name)) return true;
  return false;
}

// What MIOpen runs where none of its solvers for the size is installed or tuned.
std::optional<SizeReason> miopen_fallback(const Measured& m, const SlowOp& op) {
  if (family_of(m, op) != "convolutions") return std::nullopt;
  const bool naive = run_has(m, op.kernel, "naive_conv");
  if (!naive && !run_has(m, op.kernel, "Im2d2Col")) return std::nullopt;
  return SizeReason{naive ? "MIOpen's naive kernel: it found no tuned one" : "MIOpen's im2col and a GEMM: it found no tuned "
                                                                             "convolution",
                    {"MIOPEN_FIND_MODE=1 has MIOpen try all its kernels for each size, once; MIOPEN_FIND_ENFORCE=3 tunes "
                     "them",
                     "install MIOpen's kernel database for the device, such as miopen-hip-gfx942kdb",
                     (op.precision == Precision::kFp32 ? "bfloat16 or float16 with " : "") + channels_last(m)}};
}

std::string faster_fp32(const Measured& m, const SlowOp& op) {
  return family_of(m, op) == "convolutions"
             ? "torch.backends.cudnn.allow_tf32 = True, or torch.autocast with bfloat16"
             : "torch.set_float32_matmul_precision(\"high\"), or torch.autocast with bfloat16";
}

// What runs faster in another precision; none: it does not.
std::optional<SizeReason> fp32_reason(const Measured& m, const SlowOp& op) {
  const DeviceLimits& limits = *m.facts().get<Limits>().device;
  if (op.precision != Precision::kFp32) return std::nullopt;
  const auto is_faster = [&](Precision p) {
    return limits.operations_per_ns(p) > limits.operations_per_ns(Precision::kFp32);
  };
  if (!on_amd(m) && is_faster(Precision::kTf32)) return SizeReason{"computed in FP32 without TF32", {faster_fp32(m, op)}};
  if (!is_faster(Precision::kBf16)) return std::nullopt;
  return SizeReason{"computed in FP32", {"torch.autocast(\"cuda\", dtype=torch.bfloat16)"}};
}

// PyTorch's own convolutions, where neither cuDNN nor MIOpen is called.
std::string own_convolution_fix(const Measured& m, std::string_view operator_name) {
  if (contains(operator_name, "depthwise")) return depthwise_fix(m);
  return "types and sizes that cuDNN or MIOpen takes, with torch.backends.cudnn.enabled = True: this kernel is PyTorch's "
         "own";
}

/// The order of a tensor's dimensions in memory, and what it looks like.
struct Layout {
  const OpInput* input = nullptr;

  [[nodiscard]] std::string text() const {
    return fmt::format("[{}]", joined(input->strides, ", ", [](int64_t n) { return std::to_string(n); }));
  }
  [[nodiscard]] bool counts(size_t i) const { return input->shape[i] > 1 && input->strides[i] > 0; }
};

std::vector<Layout> layouts_of(const OpInputs& inputs) {
  std::vector<Layout> all;
  for (const OpInput& input : inputs.at)
    if (input.shape.size() > 1 && input.strides.size() == input.shape.size()) all.push_back({&input});
  return all;
}

// Two dimensions whose order in memory is the one in one tensor and the other in another.
bool differ(const Layout& a, const Layout& b) {
  const size_t n = a.input->shape.size();
  if (b.input->shape != a.input->shape) return false;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j) {
      if (!a.counts(i) || !a.counts(j) || !b.counts(i) || !b.counts(j)) continue;
      const int64_t of_a = a.input->strides[i] - a.input->strides[j], of_b = b.input->strides[i] - b.input->strides[j];
      if ((of_a < 0 && of_b > 0) || (of_a > 0 && of_b < 0)) return true;
    }
  return false;
}

// No two neighbors in memory are its elements.
bool is_strided(const Layout& a) {
  bool any = false;
  for (size_t i = 0; i < a.input->shape.size(); ++i) {
    if (!a.counts(i)) continue;
    if (a.input->strides[i] == 1) return false;
    any = true;
  }
  return any;
}

}  // namespace

std::string_view family_of(const Measured& m, const SlowOp& op) {
  const OpFamily* family = find_family(m.trace().name(op.op));
  return family != nullptr ? family->name : "";
}

bool computes(const Measured& m, const SlowOp& op) { return work_of(m, op).flops > 0; }

std::optional<SizeReason> size_reason(const Measured& m, const SlowOp& op) {
  const OpWork& work = work_of(m, op);
  if (auto fallback = miopen_fallback(m, op)) return fallback;
  if (work.product.batch > 0) return product_reason(m, op);
  std::optional<SizeReason> reason;
  if (work.convolution.channels > 0) reason = convolution_reason(m, op);
  if (work.attention.head_size > 0) reason = attention_reason(m, op);
  return reason ? reason : too_few_blocks(m, op);
}

std::optional<SizeReason> reason_of(const Measured& m, const SlowOp& op) {
  const std::optional<SizeReason> slow_precision = fp32_reason(m, op);
  if (slow_precision && op.limit_part() >= kFp32Part) return slow_precision;
  std::optional<SizeReason> reason = size_reason(m, op);
  if (!slow_precision) return reason;
  if (!reason) reason = SizeReason{"", {other_kernels(m, op)}};
  reason->fixes.push_back(slow_precision->fixes.front());
  return reason;
}

std::string layout_text(const Measured& m, const SlowOp& op) {
  const OpInputs inputs = op_inputs(m.trace(), op.op);
  const std::vector<Layout> layouts = layouts_of(inputs);
  for (size_t i = 0; i < layouts.size(); ++i) {
    for (size_t k = i + 1; k < layouts.size(); ++k)
      if (differ(layouts[i], layouts[k]))
        return fmt::format("inputs in different orders: strides {} and {}", layouts[i].text(), layouts[k].text());
    if (is_strided(layouts[i])) return fmt::format("an input is strided: {}", layouts[i].text());
  }
  return "";
}

std::string other_kernels(const Measured& m, const SlowOp& op) {
  const std::string_view of = family_of(m, op), name = m.trace().name(op.op);
  if (of == "attention")
    return on_amd(m) ? "other attention kernels: AITER's, or torch.backends.cuda.preferred_rocm_fa_library(\"ck\")"
                     : "other attention kernels: flash-attn's newest, or sdpa_kernel(SDPBackend.CUDNN_ATTENTION)";
  if (contains(name, "_conv_depthwise") || contains(name, "::conv_depthwise") || contains(name, "slow_conv"))
    return own_convolution_fix(m, name);
  if (of == "convolutions") return "torch.backends.cudnn.benchmark = True tries kernels for each size";
  if (of == "experts") return "tune the kernel's tile sizes for this device and number of experts";
  return on_amd(m) ? "PYTORCH_TUNABLEOP_ENABLED=1 tries the libraries' kernels for each size"
                   : "torch.compile(mode=\"max-autotune\") tries kernels for each size";
}

std::string_view measured_by(const Measured& m, Precision precision) {
  const std::optional<DeviceLimits>& limits = m.facts().get<Limits>().device;
  if (!limits || limits->achievable_tera[static_cast<size_t>(precision)] <= 0) return "";
  const std::string_view source = limits->achievable_source;
  return source.substr(0, source.find(' '));
}

std::string rate_text(const Measured& m, const SlowOp& op) {
  const double rate = op.flops / static_cast<double>(op.ns);   // operations per nanosecond
  std::string text = fmt::format("at {} of its limit, {} of {} TFLOP/s", format_percent(100 * op.limit_part(), 0),
                                 format_number(rate / 1e3), format_number(op.flops / op.least_ns / 1e3));
  if (const std::string_view vendor = measured_by(m, op.precision); !vendor.empty()) {
    const double most = m.facts().get<Limits>().device->achievable_per_ns(op.precision);
    text += fmt::format(" ({} of the {} that {} measures at most)", format_percent(100 * rate / most, 0),
                        format_number(most / 1e3), vendor);
  }
  return text;
}

double tile_padding(std::string_view kernel, const ProductSizes& product) {
  const std::optional<Tiles> tiles = named_tiles(kernel);
  if (!tiles || product.batch <= 0) return 0;
  const double whole = static_cast<double>(tiles->along_rows(product) * tiles->rows) *
                       static_cast<double>(tiles->along_columns(product) * tiles->columns);
  return 1 - static_cast<double>(product.m) * static_cast<double>(product.n) / whole;
}

}  // namespace profgpu
