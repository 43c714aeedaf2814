#include <algorithm>

#include "trace/trace_builder.h"

namespace profgpu {

uint32_t Shard::thread(std::string_view process, std::string_view id) {
  // Rows of a thread come in runs.
  if (last_thread_ != UINT32_MAX && process == last_process_ && id == last_id_) return last_thread_;
  last_process_ = process;
  last_id_ = id;
  thread_key_.assign(process).append(1, '\0').append(id);
  // A trace with more threads than this is damaged; the rest share the last one.
  const size_t next = std::min<size_t>(threads.size(), UINT16_MAX);
  auto [it, added] = thread_of_.try_emplace(thread_key_, static_cast<uint32_t>(next));
  if (added && next == threads.size()) threads.emplace_back(process, id);
  return last_thread_ = it->second;
}

uint16_t Shard::queue(const Queue& queue) {
  for (size_t i = queues.size(); i-- > 0;)
    if (queues[i] == queue) return static_cast<uint16_t>(i);
  // A trace with more streams than this is damaged; the rest share the last one.
  if (queues.size() == 4096) return 4095;
  queues.push_back(queue);
  return static_cast<uint16_t>(queues.size() - 1);
}

uint32_t Shard::activity_args(const ActivityArgs& args) {
  uint64_t hash = static_cast<uint64_t>(args.bytes) * 0x9E3779B97F4A7C15;
  for (const int32_t v : {args.grid[0], args.grid[1], args.grid[2], args.block[0], args.block[1], args.registers,
                          args.shared_bytes, static_cast<int32_t>(args.graph), static_cast<int32_t>(args.graph_node)})
    hash = (hash ^ static_cast<uint32_t>(v)) * 0xD6E8FEB86659FD93, hash ^= hash >> 29;
  auto [it, last] = args_of_.equal_range(hash);
  for (; it != last; ++it)
    if (activity_args_rows[it->second] == args) return it->second;
  activity_args_rows.push_back(args);
  const auto row = static_cast<uint32_t>(activity_args_rows.size() - 1);
  args_of_.emplace(hash, row);
  return row;
}

void Shard::name_thread(std::string_view process, std::string_view id, std::string_view name) {
  thread_names[{std::string(process), std::string(id)}] = name;
}

}  // namespace profgpu
