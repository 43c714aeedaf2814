#include "trace/kernel_profile.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "trace/kernel_parts.h"

namespace profgpu {
namespace {

using std::string_view;

// Tools write "float *" and "float*", "(int)4" and "4", "void f" and "f".
std::string normalized_kernel(string_view name) {
  constexpr string_view kVoid = "void ";
  if (name.starts_with(kVoid)) name.remove_prefix(kVoid.size());
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    constexpr string_view kCasts[] = {"(int)", "(bool)", "(unsigned int)", "(unsigned long)", "(long)", "(char)"};
    const string_view rest = name.substr(i);
    const auto cast = std::ranges::find_if(kCasts, [&](string_view c) { return rest.starts_with(c); });
    // A cast comes before a number; "f(int)" has parameters.
    if (cast != std::end(kCasts) && cast->size() < rest.size() &&
        (is_digit(rest[cast->size()]) || rest[cast->size()] == '-'))
      i += cast->size() - 1;
    else if (name[i] != ' ') text += name[i];
  }
  return text;
}

// Sorted, each once; parts of `name`.
std::vector<string_view> words_of(string_view name) {
  std::vector<string_view> all;
  const auto of_word = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
  for (auto at = name.begin(); at != name.end();) {
    const auto begin = std::find_if(at, name.end(), of_word);
    at = std::find_if_not(begin, name.end(), of_word);
    if (begin != at) all.emplace_back(begin, at);
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Of the words of both, how many are in both.
double likeness(const std::vector<string_view>& a, const std::vector<string_view>& b) {
  size_t both = 0;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) ++both, ++x, ++y;
    else ++(*x < *y ? x : y);
  }
  const size_t any = a.size() + b.size() - both;
  return any == 0 ? 0 : static_cast<double>(both) / static_cast<double>(any);
}

using Shape = std::array<int32_t, 6>;   // grid and block

/// A name of a kernel in the trace.
struct KernelName {
  string_view function;
  std::string normalized;
  std::vector<string_view> words;
};

/// Kernels of one function and shape.
struct OfShape {
  std::map<uint32_t, std::vector<ActivityId>> rows;              // by name
  std::map<string_view, std::vector<uint32_t>> names;            // by normalized name
};

/// Kernels of a trace by function, then by shape.
class KernelIndex {
 public:
  explicit KernelIndex(const Trace& trace) : trace_(trace) {
    for (uint32_t i = 0; i < trace.activity.size(); ++i) {
      if (trace.activity.kind[i] != ActivityKind::kKernel) continue;
      const uint32_t name = trace.activity.name[i].value;
      const KernelName& known = name_of(name);
      OfShape& of_shape = kernels_[known.function][shape_of(i)];
      std::vector<ActivityId>& rows = of_shape.rows[name];
      if (rows.empty()) of_shape.names[known.normalized].push_back(name);
      rows.emplace_back(i);
    }
    for (auto& [function, shapes] : kernels_)
      for (auto& [shape, of_shape] : shapes)
        for (auto& [name, rows] : of_shape.rows)
          std::ranges::sort(rows, [&](ActivityId a, ActivityId b) {
            return std::tuple(trace.activity.start_ns[a.value], a) < std::tuple(trace.activity.start_ns[b.value], b);
          });
  }

  [[nodiscard]] ProfiledKernel match(const ProfiledLaunch& launch) const {
    ProfiledKernel match;
    const auto of_function = kernels_.find(kernel_function(launch.kernel));
    if (of_function == kernels_.end()) return match;
    const Shape shape = {launch.grid[0], launch.grid[1], launch.grid[2],
                         launch.block[0], launch.block[1], launch.block[2]};
    auto of_shape = of_function->second.find(shape);
    if (of_shape == of_function->second.end()) of_shape = of_function->second.find(Shape{});   // none was recorded
    if (of_shape == of_function->second.end()) return match;
    const OfShape& all = of_shape->second;
    const auto exact = all.names.find(normalized_kernel(launch.kernel));
    const bool same = exact != all.names.end();
    const std::vector<uint32_t> names = same ? exact->second : most_alike(all, launch.kernel);
    match.ambiguous = names.size() != 1;
    if (match.ambiguous) return match;
    match.by = same ? ProfiledKernel::By::kName : ProfiledKernel::By::kFunction;
    match.launches = all.rows.at(names.front());
    return match;
  }

 private:
  const KernelName& name_of(uint32_t name) {
    auto [known, added] = names_.try_emplace(name);
    const string_view text = trace_.strings[StringId(name)];
    if (added) known->second = {kernel_function(text), normalized_kernel(text), words_of(text)};
    return known->second;
  }

  // Names that have most words in common with `kernel`; none where too many are to be compared.
  [[nodiscard]] std::vector<uint32_t> most_alike(const OfShape& all, string_view kernel) const {
    constexpr size_t kMaxNames = 256;
    std::vector<uint32_t> names;
    if (all.rows.size() > kMaxNames) return names;
    const std::vector<string_view> words = words_of(kernel);
    double most = -1;
    for (const auto& [name, rows] : all.rows) {
      const double alike = likeness(names_.at(name).words, words);
      if (alike > most) most = alike, names.clear();
      if (alike == most) names.push_back(name);
    }
    return names;
  }

  [[nodiscard]] Shape shape_of(uint32_t row) const {
    const ActivityArgsId id = trace_.activity.args[row];
    if (!id.valid()) return {};
    const ActivityArgs& a = trace_.activity_args[id.value];
    return {a.grid[0], a.grid[1], a.grid[2], a.block[0], a.block[1], a.block[2]};
  }

  const Trace& trace_;
  std::map<uint32_t, KernelName> names_;
  std::map<string_view, std::map<Shape, OfShape>> kernels_;
};

}  // namespace

string_view kernel_function(string_view name) {
  const string_view function = kernel_parts(name).base;
  return function.empty() ? name : function;
}

std::vector<ProfiledKernel> match_profile(const KernelProfile& profile, const Trace& trace) {
  const KernelIndex index(trace);
  std::map<std::tuple<string_view, std::array<int32_t, 3>, std::array<int32_t, 3>>, size_t> known;
  std::vector<ProfiledKernel> all;
  for (size_t i = 0; i < profile.launches.size(); ++i) {
    const ProfiledLaunch& launch = profile.launches[i];
    const auto [at, added] = known.try_emplace({launch.kernel, launch.grid, launch.block}, all.size());
    if (added) all.push_back(index.match(launch));
    all[at->second].profiled.push_back(i);
  }
  return all;
}

}  // namespace profgpu
