// A simulated trace, written as Chrome's JSON and read again, holds what it held.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "app/export/run.h"
#include "tests/support/simulator.h"
#include "tests/support/test_folder.h"
#include "trace/import/importer.h"

namespace profgpu {

extern const Exporter kChromeExport;

namespace {

// Everything that a trace says, with names instead of numbers of strings and threads, and Unix times.
std::vector<std::string> said(const Trace& t) {
  std::vector<std::string> all;
  const auto text = [&](StringId id) { return std::string(t.strings[id]); };
  const auto add = [&](auto... values) {
    std::string line;
    const auto append = [&](const auto& v) {
      if constexpr (std::is_convertible_v<decltype(v), std::string>) line += v;
      else line += std::to_string(v);
      line += '|';
    };
    (append(values), ...);
    all.push_back(std::move(line));
  };
  const auto thread = [&](ThreadId id) { return t.threads[id.value].process + "/" + t.threads[id.value].id; };
  for (uint32_t i = 0; i < t.host.size(); ++i) {
    const OpArgs a = t.host.args[i].valid() ? t.op_args[t.host.args[i].value] : OpArgs{};
    add("host", t.base_time_ns + t.host.start_ns[i], t.host.duration_ns[i], text(t.host.name[i]),
        thread(t.host.thread[i]), static_cast<int>(t.host.kind[i]), t.host.parent[i].value, t.host.link[i], a.flops,
        text(a.shapes), text(a.types), a.sequence, a.forward_thread);
  }
  for (uint32_t i = 0; i < t.activity.size(); ++i) {
    const ActivityArgs& a = t.activity_args[t.activity.args[i].value];
    const Queue& q = t.queues[t.activity.queue[i]];
    add("activity", t.base_time_ns + t.activity.start_ns[i], t.activity.duration_ns[i], text(t.activity.name[i]),
        q.device, q.stream, q.context, static_cast<int>(t.activity.kind[i]), t.activity.launch[i].value,
        t.activity.correlation[i], a.grid[0], a.grid[1], a.grid[2], a.block[0], a.block[1], a.block[2], a.registers,
        a.shared_bytes, a.bytes, a.graph, a.graph_node);
  }
  for (const SyncRow& s : t.syncs)
    add("sync", t.base_time_ns + s.start_ns, s.duration_ns, text(s.name), s.device, s.stream, s.correlation);
  for (const Collective& c : t.collectives)
    add("collective", c.host.value, c.activity.value, text(c.name), text(c.dtype), text(c.group),
        text(c.group_description), text(c.ranks), c.in_elements, c.out_elements, c.group_size, c.sequence, c.source,
        c.destination);
  for (const MemoryEvent& m : t.memory)
    add("memory", t.base_time_ns + m.time_ns, m.bytes, m.total_allocated, m.total_reserved, m.address, m.device_type,
        m.device, thread(m.thread));
  for (const CounterValue& c : t.counters) add("counter", t.base_time_ns + c.time_ns, text(c.name), c.device, c.value);
  std::vector<std::string> links;
  for (const BackwardLink& l : t.backward_links)
    links.push_back("link|" + std::to_string(l.forward.value) + "|" + std::to_string(l.backward.value));
  std::sort(links.begin(), links.end());
  all.insert(all.end(), links.begin(), links.end());
  for (const DeviceProperties& d : t.devices)
    add("device", d.id, d.name, d.memory_bytes, d.compute_major, d.compute_minor, d.multiprocessors);
  for (const auto& [key, value] : t.metadata) add("metadata", key, value);
  add("trace", t.host_name, t.distributed.rank.value_or(-1), t.distributed.world_size.value_or(-1),
      t.distributed.backend);
  return all;
}

Trace read(const std::filesystem::path& path) {
  auto imported = import_file(path, {});
  if (!imported) throw std::runtime_error(imported.error().message);
  return std::move(imported->trace);
}

class ChromeExport : public testing::TestWithParam<int> {};

TEST_P(ChromeExport, ThenImportIsTheIdentity) {
  sim::SimOptions options;
  options.steps = 2;
  options.layers = 2;
  options.seed = static_cast<uint64_t>(GetParam());
  // The bits of the case choose what kind of job it is.
  if (GetParam() & 1) options.python_stacks = options.sync_rows = true;
  if (GetParam() & 2) options.ranks = 2, options.strategy = GetParam() & 4 ? sim::Strategy::fsdp : sim::Strategy::ddp;
  if (GetParam() & 4) options.drop_pct = 10;
  if (GetParam() & 8) options.graph = true;
  if (GetParam() & 16) options.gpu = sim::Gpu::mi300x;
  const auto result = sim::simulate(options);
  const TestFolder folder;
  const Trace before = read(folder.write("before.json", sim::kineto_text(result->traces.front(), {})));
  const Facts facts(before, {});
  RunRows run;
  run.ranks.emplace_back(0, facts);
  const int fd = ::open((folder / "after.json").c_str(), O_WRONLY | O_CREAT, 0600);
  ByteWriter out(fd);
  ASSERT_TRUE(kChromeExport.write(run, {}, out));
  ASSERT_EQ(out.flush(), 0);
  ::close(fd);
  const Trace after = read(folder / "after.json");
  const std::vector<std::string> a = said(before), b = said(after);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]);
  // Small enough for viewers, which have doubles of microseconds.
  EXPECT_EQ(std::min(after.host.start_ns.front(), after.activity.start_ns.front()), 0);
}

INSTANTIATE_TEST_SUITE_P(Jobs, ChromeExport, testing::Range(1, 25));

}  // namespace
}  // namespace profgpu
