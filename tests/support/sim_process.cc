// The host's half of a simulated process: threads, operators, Python frames, memory.
#include "tests/support/sim_process.h"

#include <algorithm>
#include <utility>

namespace profgpu::sim {

OpScript::OpScript(const char* text) {
  const char* p = text;
  while (*p != '\0') {
    if (*p == ',' ) { ++p; continue; }
    if (*p == ')') { steps.push_back({')', ' ', {}}); ++p; continue; }
    if (*p == '*' || *p == '@' || *p == '%' || *p == '#' || *p == '~') {
      steps.push_back({*p, ' ', {}});
      ++p;
      continue;
    }
    const char* begin = p;
    while (*p != '\0' && *p != '(' && *p != ')' && *p != ',') ++p;
    std::string name(begin, p);
    char mark = ' ';
    if (const char last = name.back(); last == '!' || last == '?' || last == '/') {
      mark = last;
      name.pop_back();
    }
    steps.push_back({'(', mark, name});
    if (*p == '(') ++p;
    else steps.push_back({')', ' ', {}});
  }
}

Process::Process(const ProcessOptions& options, const Plan& the_plan)
    : plan(the_plan), options_(options), queue_(1024, 0) {
  trace_.rank = options.rank;
  trace_.world_size = options.world_size;
  trace_.gpu = options.gpu;
  trace_.device = facts(options.gpu).first_device + options.device;
  trace_.pid = 41200 + options.rank * 71;
  trace_.tids[kMainThread] = trace_.pid;
  trace_.tids[kAutogradThread] = trace_.pid + 2143;
  trace_.tids[kBackgroundThread] = trace_.pid + 1377;
  trace_.host_name = options.host_name;
  trace_.clock = options.clock;
  trace_.groups = options.groups;
  collective_sequences_.assign(options.groups.size(), 40);
  trace_.cpu_only = options.cpu_only;
  trace_.capacity_bytes = facts(options.gpu).memory_bytes;
  trace_.odd_sizes = plan.odd_sizes;
  trace_.full_precision = plan.full_precision;
  trace_.start_ns = now_ = kJobStartNs;
  allocated_ = options.fixed_bytes;
  reserved_ = std::max(options.reserved_bytes, options.fixed_bytes);
  // What no free block fits is asked for while much is free.
  if (plan.slack_permille > 100) reserved_ -= unfit_ = int64_t{40} << 20;
  python_id_ = 2;
}

uint32_t Process::name_id(const std::string& name) {
  const auto [it, fresh] = name_ids_.emplace(name, static_cast<uint32_t>(trace_.names.size()));
  if (fresh) trace_.names.push_back(name);
  return it->second;
}

uint32_t Process::external_id() const {
  const auto& stack = open_[thread_];
  return stack.empty() ? 0 : trace_.host[thread_][stack.back().row].external_id;
}

void Process::switch_to(ThreadSlot thread, int64_t cost_ns) {
  spend(cost_ns);
  thread_ = thread;
}

void Process::open(const std::string& name, HostKind kind, bool step) {
  if (in_graph_) return;
  HostRow row{now_, 0, name_id(name), external_++, kNone, 0, kNone, kind, thread_ == kAutogradThread, step};
  trace_.host[thread_].push_back(row);
  Open o{static_cast<uint32_t>(trace_.host[thread_].size() - 1), {}};
  o.spans.fill(-1);
  open_[thread_].push_back(o);
  spend(950);
}

void Process::close() {
  if (in_graph_) return;
  spend(420);
  HostRow& row = trace_.host[thread_][open_[thread_].back().row];
  row.duration_ns = now_ - row.start_ns;
  open_[thread_].pop_back();
}

void Process::open_python(const std::string& name) {
  if (!options_.python_stacks || in_graph_) return;
  auto& stack = python_open_[thread_];
  const uint32_t parent = stack.empty() ? (thread_ == kMainThread ? 2 : 0) : trace_.python[stack.back()].id;
  trace_.python.push_back({now_, 0, name_id(name), ++python_id_, parent, thread_});
  stack.push_back(static_cast<uint32_t>(trace_.python.size() - 1));
  spend(560);
}

void Process::close_python() {
  if (!options_.python_stacks || in_graph_) return;
  spend(240);
  PythonRow& row = trace_.python[python_open_[thread_].back()];
  row.duration_ns = now_ - row.start_ns;
  python_open_[thread_].pop_back();
}

void Process::background_range(const char* name, int64_t start_ns, int64_t duration_ns) {
  trace_.host[kBackgroundThread].push_back(
      {start_ns, duration_ns, name_id(name), external_++, kNone, 0, kNone, HostKind::annotation, false, false});
}

void Process::run(const OpScript& script, const std::vector<Role>& roles, uint32_t sequence) {
  size_t next_role = 0;
  for (const OpScript::Step& s : script.steps) {
    switch (s.kind) {
      case '(': {
        open(s.name, HostKind::op);
        if (in_graph_ || s.mark == ' ' || sequence == kNone) break;
        HostRow& row = trace_.host[thread_].back();
        row.sequence = sequence;
        // Flow ids follow autograd's sequence numbers; only the forward op and its node carry one, not the engine's
        // wrapper.
        if (s.mark != '/') row.flow = sequence;
        break;
      }
      case ')': close(); break;
      case '*': launch(roles[next_role++]); break;
      case '@': take(activation_bytes_); break;
      case '%': give_back(); break;
      case '#': take_gradient(gradient_bytes_); break;
      default: release(allocate(1 << 20)); break;
    }
  }
}

void Process::memory_row(int64_t bytes, uint64_t address) {
  trace_.memory.push_back({now_, bytes, address, allocated_, reserved_, thread_});
}

Process::Block Process::allocate(int64_t bytes) {
  if (!trace_.memory.empty()) reserved_ += std::exchange(unfit_, 0);
  if (allocated_ + bytes > reserved_) {
    const int64_t missing = allocated_ + bytes - reserved_;
    const int64_t segment = std::max({(missing + (2 << 20) - 1) >> 21 << 21, int64_t{20} << 20, plan.leak_bytes * 3});
    if (!options_.cpu_only) call(Api::malloc, 260'000);
    reserved_ += segment;
  }
  auto& free_list = spare_[bytes];
  Block block{address_, bytes};
  if (free_list.empty()) {
    address_ += static_cast<uint64_t>((bytes + 511) / 512 * 512);
  } else {
    block.address = free_list.back();
    free_list.pop_back();
  }
  allocated_ += bytes;
  memory_row(bytes, block.address);
  return block;
}

void Process::release(const Block& block) {
  allocated_ -= block.bytes;
  spare_[block.bytes].push_back(block.address);
  memory_row(-block.bytes, block.address);
}

void Process::take(int64_t bytes) { activations_.push_back(allocate(bytes)); }

void Process::give_back() {
  if (activations_.empty()) return;
  release(activations_.back());
  activations_.pop_back();
}

void Process::take_gradient(int64_t bytes) { gradients_.push_back(allocate(bytes)); }

void Process::drop_gradients() {
  for (const Block& b : gradients_) {
    release(b);
    spend(300);
  }
  gradients_.clear();
}

void Process::leak(int64_t bytes) { allocate(bytes); }

void Process::empty_cache(int segments, int64_t call_ns) {
  const int64_t surplus = (reserved_ - allocated_) / 10 * 9;
  for (int i = 0; i < segments; ++i) {
    call(Api::free, call_ns);
    reserved_ -= surplus / segments;
  }
}

void Process::begin_step(int number, bool annotate) {
  trace_.steps.push_back({number, now_, 0});
  if (annotate) open("ProfilerStep#" + std::to_string(number), HostKind::annotation, true);
  open_python("torch/profiler/profiler.py(792): step");
  close_python();
}

void Process::end_step() {
  spend(4000);
  if (!open_[kMainThread].empty()) close();
  StepSpan& s = trace_.steps.back();
  s.duration_ns = now_ - s.start_ns;
}

void Process::discard_rows() {
  for (auto& rows : trace_.host) rows.clear();
  trace_.calls.clear();
  trace_.device_rows.clear();
  trace_.syncs.clear();
  trace_.memory.clear();
  trace_.python.clear();
  trace_.overhead.clear();
  trace_.gpu_spans.clear();
  trace_.collectives.clear();
}

RankTrace Process::take_trace(int window) {
  RankTrace out = trace_;  // names and identity stay for the next window
  out.window = window;
  out.end_ns = now_;
  if (options_.python_stacks) {
    const uint32_t module = name_id("train.py(184): <module>"), main = name_id("train.py(161): train");
    out.names = trace_.names;
    out.python.insert(out.python.begin(),
                      {{trace_.start_ns - 1900, now_ - trace_.start_ns + 3900, module, 1, 0, kMainThread},
                       {trace_.start_ns - 1000, now_ - trace_.start_ns + 2000, main, 2, 1, kMainThread}});
  }
  discard_rows();
  trace_.steps.clear();
  trace_.start_ns = now_;
  return out;
}

}  // namespace profgpu::sim
