#include "analyse/timeline_args.h"

#include <fmt/format.h>

#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;
constexpr size_t kLongestText = 500;   // bytes

std::string shortened(std::string_view text) {
  if (text.size() <= kLongestText) return std::string(text);
  return std::string(text.substr(0, kLongestText)) + "…";
}

bool says_something(std::string_view text) { return !text.empty() && text != "[]" && text != "\"\""; }

std::string bytes_text(int64_t bytes) {
  const std::string count = format_count(bytes) + " B";
  return bytes < 1024 ? count : format_bytes(static_cast<double>(bytes)) + " (" + count + ")";
}

std::string extent(const int32_t (&x)[3]) {
  return fmt::format("{} × {} × {}", format_count(x[0]), format_count(x[1]), format_count(x[2]));
}

}  // namespace

TimelineArgs::TimelineArgs(const Trace& trace, PageData& page)
    : trace_(trace), page_(page), of_activity_(trace.activity_args.size(), kUnknown),
      of_op_(trace.op_args.size(), kUnknown) {
  if (page_.args.empty()) page_.args.emplace_back();
}

uint32_t TimelineArgs::add(PageArgs args) {
  if (args.empty()) return 0;
  std::string key;
  for (const auto& [name, text] : args) key.append(name).append("\0", 1).append(text).append("\0", 1);
  const auto it = known_.find(key);
  if (it != known_.end()) return it->second;
  if (page_.args.size() >= kMost) return 0;
  const auto place = static_cast<uint32_t>(page_.args.size());
  page_.args.push_back(std::move(args));
  known_.emplace(std::move(key), place);
  return place;
}

uint32_t TimelineArgs::of(ActivityArgsId id) {
  if (!id.valid()) return 0;
  uint32_t& known = of_activity_[id.value];
  if (known != kUnknown) return known;
  const ActivityArgs& a = trace_.activity_args[id.value];
  PageArgs args;
  if (a.grid[0] > 0) args.emplace_back("grid", extent(a.grid));
  if (a.block[0] > 0) args.emplace_back("block", extent(a.block));
  if (a.registers > 0) args.emplace_back("registers a thread", std::to_string(a.registers));
  if (a.shared_bytes > 0) args.emplace_back("shared memory", bytes_text(a.shared_bytes));
  if (a.bytes >= 0) args.emplace_back("size", bytes_text(a.bytes));
  if (a.graph != 0) args.emplace_back("graph", std::to_string(a.graph));
  return known = add(std::move(args));
}

// The autograd sequence number is left out: with it no two calls would agree.
uint32_t TimelineArgs::of(OpArgsId id) {
  if (!id.valid()) return 0;
  uint32_t& known = of_op_[id.value];
  if (known != kUnknown) return known;
  const OpArgs& a = trace_.op_args[id.value];
  PageArgs args;
  if (const auto text = trace_.strings[a.shapes]; says_something(text)) args.emplace_back("shapes", shortened(text));
  if (const auto text = trace_.strings[a.types]; says_something(text)) args.emplace_back("types", shortened(text));
  if (a.flops > 0) args.emplace_back("floating-point operations", format_count(static_cast<int64_t>(a.flops)));
  return known = add(std::move(args));
}

uint32_t TimelineArgs::of(HostId row) {
  const StringId said = trace_.arguments(row);
  if (!said.valid()) return of(trace_.host.args[row.value]);
  return add({{"arguments", shortened(trace_.strings[said])}});
}

uint32_t TimelineArgs::of(const Collective& call) {
  PageArgs args;
  const auto text = [&](const char* key, StringId id) {
    if (says_something(trace_.strings[id])) args.emplace_back(key, shortened(trace_.strings[id]));
  };
  text("type", call.dtype);
  if (call.in_elements >= 0) args.emplace_back("elements in", format_count(call.in_elements));
  if (call.out_elements >= 0) args.emplace_back("elements out", format_count(call.out_elements));
  text("process group", call.group_description.valid() ? call.group_description : call.group);
  if (call.group_size > 0) args.emplace_back("group size", std::to_string(call.group_size));
  text("ranks", call.ranks);
  return add(std::move(args));
}

}  // namespace profgpu
