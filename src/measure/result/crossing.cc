#include "measure/result/crossing.h"

#include <fmt/format.h>

#include <algorithm>

namespace profgpu {
namespace {

// The text in front of a suffix; empty: it has not that one.
std::string_view before(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : "";
}

std::optional<int64_t> wins_from(const std::vector<CrossingRow>& rows, double CrossingRow::*time) {
  std::optional<int64_t> first;
  for (auto row = rows.rbegin(); row != rows.rend() && (*row).*time < row->cpu_ns; ++row) first = row->size;
  return first;
}

std::string wins_text(const std::optional<int64_t>& size, std::string_view how) {
  return size ? fmt::format("the GPU wins from {} on, {}", *size, how) : fmt::format("the GPU does not win, {}", how);
}

}  // namespace

std::vector<std::string> Crossing::texts() const {
  return {wins_text(size, "data in its memory"), wins_text(size_with_copies, "with both copies")};
}

std::vector<Crossing> crossings(const std::vector<Figure>& figures) {
  std::vector<Crossing> all;
  for (const Figure& f : figures) {
    if (f.benchmark != "crossover" || !f.size) continue;
    const std::string_view base = std::string_view(f.name).substr(0, f.name.rfind('_'));
    for (const auto& [suffix, time] : {std::pair{"_cpu", &CrossingRow::cpu_ns}, {"_gpu", &CrossingRow::gpu_ns},
                                       {"_gpu_with_copies", &CrossingRow::copies_ns}}) {
      const std::string_view name = before(base, suffix);
      if (name.empty()) continue;
      auto* crossing = first_where(all, [&](const Crossing& c) { return c.name == name; });
      if (!crossing) {
        crossing = &all.emplace_back();
        crossing->name = name, crossing->label = f.label.substr(0, f.label.find(','));
      }
      auto* row = first_where(crossing->rows, [&](const CrossingRow& r) { return r.size == *f.size; });
      if (!row) row = &crossing->rows.emplace_back(CrossingRow{*f.size, 0, 0, 0});
      row->*time = f.value;
    }
  }
  for (Crossing& c : all) {
    std::erase_if(c.rows, [](const CrossingRow& r) { return r.cpu_ns <= 0 || r.gpu_ns <= 0 || r.copies_ns <= 0; });
    std::ranges::sort(c.rows, {}, &CrossingRow::size);
    c.size = wins_from(c.rows, &CrossingRow::gpu_ns), c.size_with_copies = wins_from(c.rows, &CrossingRow::copies_ns);
  }
  std::erase_if(all, [](const Crossing& c) { return c.rows.empty(); });
  return all;
}

}  // namespace profgpu
