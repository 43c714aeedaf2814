#include "trace/kernel_profile.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"

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

std::set<std::string, std::less<>> words_of(string_view name) {
  std::set<std::string, std::less<>> all;
  std::string word;
  for (size_t i = 0; i <= name.size(); ++i) {
    const char c = i < name.size() ? name[i] : ' ';
    if (is_letter(c) || is_digit(c) || c == '_') {
      word += c;
    } else if (!word.empty()) {
      all.insert(std::move(word));
      word.clear();
    }
  }
  return all;
}

// Of the words of both, how many are in both.
double likeness(string_view a, string_view b) {
  const auto x = words_of(a), y = words_of(b);
  const auto both = std::ranges::count_if(x, [&](const std::string& word) { return y.contains(word); });
  const auto any = x.size() + y.size() - static_cast<size_t>(both);
  return any == 0 ? 0 : static_cast<double>(both) / static_cast<double>(any);
}

using Shape = std::array<int32_t, 6>;   // grid and block
using OfShape = std::map<uint32_t, std::vector<ActivityId>>;   // by name

/// Kernels of a trace by function, then by shape.
class KernelIndex {
 public:
  explicit KernelIndex(const Trace& trace) : trace_(trace) {
    for (uint32_t i = 0; i < trace.activity.size(); ++i) {
      if (trace.activity.kind[i] != ActivityKind::kKernel) continue;
      const uint32_t name = trace.activity.name[i].value;
      auto [known, added] = function_of_.try_emplace(name);
      if (added) known->second = kernel_function(trace.strings[StringId(name)]);
      kernels_[known->second][shape_of(i)][name].emplace_back(i);
    }
    for (auto& [function, shapes] : kernels_)
      for (auto& [shape, names] : shapes)
        for (auto& [name, rows] : names)
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
    const std::string whole = normalized_kernel(launch.kernel);
    double most = -1;
    for (const auto& [name, rows] : of_shape->second) {
      const string_view text = trace_.strings[StringId(name)];
      const bool same = normalized_kernel(text) == whole;
      const double alike = same ? 2 : likeness(text, launch.kernel);
      if (alike < most) continue;
      match.ambiguous = alike == most;
      most = alike;
      match.by = same ? ProfiledKernel::By::kName : ProfiledKernel::By::kFunction;
      match.launches = rows;
    }
    if (match.ambiguous) match.launches.clear(), match.by = ProfiledKernel::By::kNone;
    return match;
  }

 private:
  [[nodiscard]] Shape shape_of(uint32_t row) const {
    const ActivityArgsId id = trace_.activity.args[row];
    if (!id.valid()) return {};
    const ActivityArgs& a = trace_.activity_args[id.value];
    return {a.grid[0], a.grid[1], a.grid[2], a.block[0], a.block[1], a.block[2]};
  }

  const Trace& trace_;
  std::map<uint32_t, string_view> function_of_;   // by name
  std::map<string_view, std::map<Shape, OfShape>> kernels_;
};

}  // namespace

string_view kernel_function(string_view name) {
  constexpr string_view kVoid = "void ", kAnonymous[] = {"(anonymous namespace)::", "<unnamed>::"};
  if (name.starts_with(kVoid)) name.remove_prefix(kVoid.size());
  size_t end = name.find_first_of("<(");
  for (bool again = true; again && end != name.npos;) {
    again = false;
    for (const string_view part : kAnonymous)
      if (end != name.npos && name.substr(end).starts_with(part))
        end = name.find_first_of("<(", end + part.size()), again = true;
  }
  string_view function = name.substr(0, end);
  if (const size_t colons = function.rfind("::"); colons != function.npos) function.remove_prefix(colons + 2);
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
