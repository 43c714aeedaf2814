#include "analyse/rank/tile_bounds.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "analyse/rank/kernels.h"
#include "analyse/rank/work.h"
#include "analyse/work/op_sizes.h"
#include "base/saturated.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr int64_t kMostSide = 1024;   // no tile is larger

// "128x64x32": up to three numbers with x between them.
std::vector<int64_t> sides_in(std::string_view text) {
  std::vector<int64_t> sides;
  while (sides.size() < 3) {
    int64_t side = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
    if (error != std::errc() || side <= 0 || side > kMostSide) break;
    sides.push_back(side);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.starts_with('x')) break;
    text.remove_prefix(1);
  }
  return sides;
}

// Whether a part such as "cga1x1x1" or "cluster2x1x1" says that blocks come in groups: a grid has whole ones.
bool comes_in_groups(std::string_view part) {
  for (const std::string_view word : {"cga", "cluster"})
    if (const size_t at = part.find(word); at != part.npos && at + word.size() < part.size()) {
      const std::vector<int64_t> sides = sides_in(part.substr(at + word.size()));
      if (std::ranges::any_of(sides, [](int64_t side) { return side > 1; })) return true;
    }
  return false;
}

bool may_idle(std::string_view name, std::string_view part) {
  const bool streams = part.starts_with("SK") && part.size() > 2 && is_digit(part[2]) && part != "SK0";
  return comes_in_groups(part) || streams || name.starts_with("nvjet") || contains(name, "persistent") ||
         contains(name, "stream_k") || contains(name, "streamk");
}

}  // namespace

std::optional<ProductTile> product_tile(std::string_view kernel) {
  constexpr std::string_view kProducts[] = {"gemm", "Cijk_"};
  if (!contains_any(kernel, kProducts)) return std::nullopt;
  // Of a wrapper, its argument: cutlass::Kernel2<cutlass_80_...>.
  if (const size_t argument = kernel.find("<cutlass_"); argument != kernel.npos) kernel.remove_prefix(argument + 1);
  kernel = kernel.substr(0, kernel.find_first_of("<>(, "));
  std::optional<ProductTile> tile;
  bool depth_follows = false;
  for (const std::string_view part : pieces_of(kernel, '_')) {
    if (may_idle(kernel, part)) return std::nullopt;
    const bool named = part.starts_with("tilesize"), macro = part.starts_with("MT");
    const std::vector<int64_t> sides = sides_in(part.substr(named ? 8 : macro ? 2 : 0));
    // CUTLASS writes rows x columns, then depth x stages.
    if (depth_follows && sides.size() == 2) tile->depth = sides[0];
    depth_follows = false;
    if (tile || sides.size() < 2) continue;
    tile = ProductTile{sides[0], sides[1], 1};
    // Tensile ends with steps that are shorter than its depth.
    if (sides.size() == 3 && !macro) tile->depth = sides[2];
    depth_follows = sides.size() == 2 && kernel.starts_with("cutlass");
  }
  return tile;
}

int64_t inner_parts(std::string_view kernel) {
  constexpr std::string_view kMark = "GSU";
  for (const std::string_view part : pieces_of(kernel, '_')) {
    if (!part.starts_with(kMark) || part.size() == kMark.size() || !all_digits(part.substr(kMark.size()))) continue;
    int64_t parts = 0;
    std::from_chars(part.data() + kMark.size(), part.data() + part.size(), parts);
    return std::clamp<int64_t>(parts, 1, kMostSide);
  }
  return 1;
}

TileBounds TileBounds::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const DeviceWork& work = facts.get<DeviceWork>();
  const Kernels& kernels = facts.get<Kernels>();
  std::map<uint32_t, std::pair<std::optional<ProductTile>, TileBoundRow>> of_name;
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const StringId name = trace.activity.name[i];
    if (trace.activity.kind[i] != ActivityKind::kKernel || kernels.category[name.value] != KernelCategory::kGemm)
      continue;
    const WorkRun* const run = work.run(ActivityId(i));
    const ActivityArgsId args = trace.activity.args[i];
    if ((run != nullptr && run->work->flops >= 0) || !args.valid()) continue;
    const auto [at, fresh] = of_name.try_emplace(name.value);
    auto& [tile, row] = at->second;
    if (fresh) {
      tile = product_tile(trace.strings[name]);
      row.name = trace.strings[name], row.precision = precision_in_kernel_name(row.name);
    }
    const int32_t(&grid)[3] = trace.activity_args[args.value].grid;
    if (!tile || grid[0] <= 0) continue;
    const Amount blocks = Amount(grid[0]) * grid[1] * grid[2];
    const int64_t flops = (blocks * 2 * tile->rows * tile->columns * tile->depth).or_unknown();
    if (flops <= 0) continue;
    ++row.kernels;
    add_saturated(row.device_ns, trace.activity.duration_ns[i]);
    add_saturated(row.executed_flops, flops);
  }
  TileBounds bounds;
  for (auto& [name, of] : of_name)
    if (of.second.kernels > 0) bounds.rows.push_back(std::move(of.second));
  std::ranges::stable_sort(bounds.rows, [](const TileBoundRow& a, const TileBoundRow& b) {
    return a.device_ns != b.device_ns ? a.device_ns > b.device_ns : a.name < b.name;
  });
  bounds.rows.resize(std::min(bounds.rows.size(), kMaxRows));
  return bounds;
}

}  // namespace profgpu
