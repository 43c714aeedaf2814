#include "app/compare/run_summary.h"

#include <algorithm>
#include <cmath>

namespace profgpu {
namespace {

const Record kNothing;
// Of kernel time: below that a report has no distance either, see docs/roofline.md.
constexpr double kMinKnown_pct = 70;

const Record& record_of(const Value& v) { return v.record() ? *v.record() : kNothing; }

/// Of a table, or of a list of records: what was saved and read again has no tables.
struct Row {
  const Record* record = nullptr;
  const Table* table = nullptr;
  size_t row = 0;
  [[nodiscard]] const Value& at(std::string_view name) const {
    return record ? record->at(name) : table->at(row, name);
  }
};

std::vector<Row> rows_of(const Value& v) {
  std::vector<Row> rows;
  if (const Table* table = v.table())
    for (size_t i = 0; i < table->rows.size(); ++i) rows.push_back({nullptr, table, i});
  if (const List* list = v.list())
    for (const Value& item : *list)
      if (item.record()) rows.push_back({item.record()});
  return rows;
}

std::string text_of(const Value& v) { return v.text() ? *v.text() : std::string(); }
int64_t whole_of(const Value& v) { return v.integer() ? *v.integer() : 0; }
bool is_true(const Value& v) { return v.boolean() && *v.boolean(); }
bool is_number(const Value& v) { return v.integer() || (v.real() && std::isfinite(*v.real())); }

// Sums of one quantity over ranks. Ranks run in step, so they add no independent steps.
struct Pool {
  double total = 0, variance = 0;
  int64_t ranks = 0;
  void add(double rank_total, double stddev) {
    total += rank_total;
    variance += stddev * stddev;
    ++ranks;
  }
};

class Reader {
 public:
  explicit Reader(RunSummary& run) : run_(run) {}

  Status rank(const Row& rank) {
    const Record& measured = record_of(rank.at("measured"));
    if (measured.fields.empty())
      return Error{"written by an older profgpu, without the data that a comparison needs", "analyze the trace again"};
    ++run_.ranks;
    steps(rank);
    const int64_t n = whole_of(measured.at("steps"));
    run_.step_count += n;
    most_steps_ = std::max(most_steps_, n);
    run_.wall_ns += whole_of(measured.at("wall_ns"));
    for (const Row& r : rows_of(measured.at("makeup")))
      makeup_[{text_of(r.at("phase")), text_of(r.at("state"))}] += whole_of(r.at("total_ns"));
    pool(measured.at("phases"), phases_);
    pool(measured.at("states"), states_);
    for (const Row& r : rows_of(measured.at("work"))) work(r);
    ops(measured);
    collectives(measured);
    for (const Row& r : rows_of(measured.at("functions")))
      run_.functions[text_of(r.at("name")) + " (" + text_of(r.at("file")) + ")"].total_ns += r.at("total_ns").number();
    distance(record_of(rank.at("distance")));
    memory(record_of(rank.at("memory")));
    snapshot(record_of(rank.at("snapshot")));
    for (const Row& d : rows_of(rank.at("devices")))
      if (const std::string name = text_of(d.at("name"));
          !name.empty() && std::find(run_.devices.begin(), run_.devices.end(), name) == run_.devices.end())
        run_.devices.push_back(name);
    return ok();
  }

  void finish() {
    for (const auto& [name, value] : snapshot_) run_.memory.try_emplace(name, value);
    for (const auto& [key, ns] : makeup_) run_.makeup.push_back({key.first, key.second, ns});
    for (const auto& [name, p] : phases_) run_.phases[name] = sums(p);
    for (const auto& [name, p] : states_) run_.states[name] = sums(p);
    for (auto& [key, w] : work_) {
      w.first.calls = per_step(w.first.calls);
      w.first.ns = sums(w.second);
      run_.work.push_back(std::move(w.first));
    }
    for (auto& [name, op] : run_.ops) {
      op.calls = per_step(op.calls);
      op.cpu_self_ns = sums(ops_[name]);
      if (!ops_vary_) op.cpu_self_ns.steps = 0;
    }
    for (auto& [name, c] : run_.collectives) c.calls = per_step(c.calls), c.total_ns = per_step(c.total_ns);
    for (auto& [name, f] : run_.functions) f.total_ns = per_step(f.total_ns);
    join_steps();
    if (distance_ranks_ < run_.ranks || limit_ns_ <= 0) run_.distance_ns.clear();
    for (auto& [part, ns] : run_.distance_ns) ns = per_step(ns);
    if (!run_.distance_ns.empty()) run_.times_limit = distance_wall_ns_ / limit_ns_;
  }

 private:
  using Key = std::pair<std::string, std::string>;
  using StepKey = std::pair<int64_t, int64_t>;   // how often the number came before, and the number: epochs begin anew
  using StepTimes = std::map<StepKey, int64_t>;

  [[nodiscard]] double per_step(double total) const {
    return run_.step_count > 0 ? total / static_cast<double>(run_.step_count) : 0;
  }
  [[nodiscard]] StepSums sums(const Pool& p) const {
    return {per_step(p.total), std::sqrt(p.variance / static_cast<double>(run_.ranks)), most_steps_};
  }
  static void pool(const Value& table, std::map<std::string, Pool>& to) {
    for (const Row& r : rows_of(table))
      to[text_of(r.at("name"))].add(r.at("total_ns").number(), r.at("step_stddev_ns").number());
  }

  void steps(const Row& rank) {
    StepTimes all, measured;
    std::map<int64_t, int64_t> seen;
    for (const Row& r : rows_of(rank.at("steps"))) {
      if (text_of(r.at("name")) == "trace") run_.annotated = false;
      const Value& elapsed = r.at("elapsed_ns");   // older reports have none
      const int64_t ns = whole_of(elapsed.integer() ? elapsed : r.at("duration_ns"));
      const int64_t number = whole_of(r.at("index"));
      const StepKey key{seen[number]++, number};
      all[key] = ns;
      if (!is_true(r.at("warmup"))) measured[key] = ns;
    }
    steps_.push_back(measured.empty() ? std::move(all) : std::move(measured));
  }

  // The job's step is the mean of the ranks that have it: they run in step, so each more is no further step.
  void join_steps() {
    std::map<StepKey, std::pair<double, int64_t>> by_step;
    for (const StepTimes& rank : steps_)
      for (const auto& [key, ns] : rank) {
        auto& [sum, ranks] = by_step[key];
        sum += static_cast<double>(ns);
        ++ranks;
      }
    for (const auto& [key, step] : by_step)
      run_.steps_ns.push_back(std::llround(step.first / static_cast<double>(step.second)));
  }

  void work(const Row& r) {
    Work w{text_of(r.at("name")), text_of(r.at("short_name")), text_of(r.at("kind")), text_of(r.at("category")),
           text_of(r.at("op")),   text_of(r.at("shapes")),     0,                     {}};
    auto& [sum, pool] = work_[{w.name + '\0' + w.kind, w.op + '\0' + w.shapes}];
    if (const List* within = r.at("within").list(); within != nullptr)
      for (const Value& range : *within) w.within.push_back(text_of(range));
    if (pool.ranks == 0) sum = std::move(w);
    sum.calls += r.at("count").number();
    pool.add(r.at("total_ns").number(), r.at("step_stddev_ns").number());
  }

  void ops(const Record& measured) {
    for (const Row& r : rows_of(measured.at("ops"))) {
      OpTime& op = run_.ops[text_of(r.at("name"))];
      op.calls += r.at("calls").number();
      ops_[text_of(r.at("name"))].add(r.at("cpu_self_ns").number(), r.at("step_stddev_ns").number());
      ops_vary_ &= is_number(r.at("step_stddev_ns"));   // older reports have none
    }
  }

  void collectives(const Record& measured) {
    for (const Row& r : rows_of(measured.at("collectives"))) {
      std::string name = text_of(r.at("name"));
      if (const std::string dtype = text_of(r.at("dtype")); !dtype.empty()) name += " " + dtype;
      if (const Value& bytes = r.at("message_bytes"); is_number(bytes))
        name += " " + std::to_string(whole_of(bytes)) + " bytes";
      CallTime& c = run_.collectives[name];
      c.calls += r.at("calls").number();
      c.total_ns += r.at("total_ns").number();
    }
  }

  void distance(const Record& d) {
    // As the report itself says nothing of a distance of which less is known.
    if (!is_number(d.at("times_limit")) || d.at("known_pct").number() < kMinKnown_pct) return;
    ++distance_ranks_;
    if (is_true(d.at("times_limit_is_lower_bound"))) run_.times_limit_is_lower_bound = true;
    distance_wall_ns_ += d.at("wall_ns").number();
    limit_ns_ += d.at("limit_ns").number();
    for (const Row& r : rows_of(d.at("parts"))) run_.distance_ns[text_of(r.at("part"))] += r.at("total_ns").number();
  }

  void memory(const Record& m) {
    for (const char* field : {"peak_allocated_bytes", "peak_reserved_bytes", "growth_bytes_per_step"}) {
      const Value& v = m.at(field);
      if (!is_number(v)) continue;
      const auto [it, fresh] = run_.memory.try_emplace(field, v.number());
      it->second = std::max(it->second, v.number());
    }
  }

  static void add_holders(const Record& peak, const std::string& before, std::map<MemoryLineKey, double>& lines) {
    for (const Row& r : rows_of(peak.at("holders"))) {
      const std::string file = text_of(r.at("file"));
      lines[{before, text_of(r.at("function")), file, text_of(r.at("category")), text_of(r.at("op")),
             file.empty() ? 0 : whole_of(r.at("line"))}] += r.at("held_bytes").number();
    }
  }

  // Where the trace tells nothing of memory, the snapshot stands for it. Several ranks: the largest of each line.
  void snapshot(const Record& s) {
    if (s.fields.empty()) return;
    const Record& peak = record_of(s.at("peak"));
    const auto most = [](std::map<std::string, double>& all, const std::string& name, const Value& v) {
      if (is_number(v)) all[name] = std::max(all[name], v.number());
    };
    const bool held_only = s.at("history_recorded").boolean() && !is_true(s.at("history_recorded"));
    run_.held_only |= held_only;
    if (held_only) most(snapshot_, "held_bytes", peak.at("allocated_bytes"));
    most(snapshot_, "peak_allocated_bytes", s.at("peak_allocated_bytes"));
    for (const Row& d : rows_of(s.at("devices"))) most(snapshot_, "peak_reserved_bytes", d.at("peak_reserved_bytes"));
    std::map<MemoryLineKey, double> lines;
    bool several = false;
    for (const Row& d : rows_of(s.at("devices"))) {
      const Record& of_device = record_of(d.at("peak"));
      if (of_device.fields.empty()) continue;
      several = true;
      add_holders(of_device, "device " + std::to_string(whole_of(d.at("device"))) + ": ", lines);
    }
    if (!several) add_holders(peak, "", lines);
    for (const auto& [key, bytes] : lines) run_.memory_lines[key] = std::max(run_.memory_lines[key], bytes);
  }

  RunSummary& run_;
  std::map<std::string, double> snapshot_;
  std::map<Key, int64_t> makeup_;
  std::map<std::string, Pool> phases_, states_, ops_;
  bool ops_vary_ = true;   // whether every report says how their time varies from step to step
  std::map<Key, std::pair<Work, Pool>> work_;
  std::vector<StepTimes> steps_;
  int64_t most_steps_ = 0, distance_ranks_ = 0;
  double limit_ns_ = 0, distance_wall_ns_ = 0;
};

// Of the devices that were used: their sum or mean, and energy a step from mean power.
void read_telemetry(const Value& devices, RunSummary& run) {
  std::map<std::string, std::pair<double, int64_t>> mean;
  double power = 0;
  bool power_known = false;
  for (const Row& d : rows_of(devices)) {
    if (!is_true(d.at("used"))) continue;
    for (const auto& [field, name] : {std::pair{"util_gpu_mean", "utilization_pct"},
                                      {"mem_used_max_mb", "memory_used_mib"},
                                      {"temp_mean_c", "temperature_c"},
                                      {"sm_clock_mean_mhz", "sm_clock_mhz"}}) {
      if (!is_number(d.at(field))) continue;
      mean[name].first += d.at(field).number();
      ++mean[name].second;
    }
    if (!is_number(d.at("power_mean_w"))) continue;
    power += d.at("power_mean_w").number();
    power_known = true;
  }
  for (const auto& [name, sum] : mean) run.telemetry[name] = sum.first / static_cast<double>(sum.second);
  if (!power_known) return;
  run.telemetry["power_w"] = power;
  if (run.step_count > 0) run.telemetry["energy_per_step_j"] = power * run.mean_step_ns() * 1e-9;
}

// Better than mean power times a step: what was drawn in the steps themselves. Only where that is known of every rank.
void read_energy(const Record& energy, RunSummary& run) {
  if (is_number(energy.at("energy_per_step_j")) && whole_of(energy.at("known_ranks")) == whole_of(energy.at("ranks")))
    run.telemetry["energy_per_step_j"] = energy.at("energy_per_step_j").number();
}

// The batch follows from the rate and the mean step: what a sample takes can be compared though batches differ.
void read_throughput(const std::vector<Row>& logs, RunSummary& run) {
  if (logs.size() != 1) return;
  const Record& t = record_of(logs.front().at("throughput"));
  for (const char* field : {"samples_per_s", "tokens_per_s", "device_tokens_per_s", "tflops", "mfu_pct"})
    if (is_number(t.at(field))) run.throughput[field] = t.at(field).number();
  const double per_s = t.at("samples_per_s").number(), step_s = t.at("mean_ns").number() * 1e-9;
  const double batch = std::round(per_s * step_s);
  if (is_number(t.at("samples_per_s")) && batch >= 1) run.throughput["samples_per_step"] = batch;
}

std::string no_device_reason(const std::vector<Row>& inputs) {
  for (const Row& input : inputs)
    for (const Row& issue : rows_of(input.at("issues")))
      if (text_of(issue.at("kind")) == "no_device_activity") return text_of(issue.at("text"));
  return {};
}

// "device records without a launching call in the file: 509 (30.1 % of busy time)", of the first file that warns.
std::string work_without_launch(const std::vector<Row>& inputs) {
  for (const Row& input : inputs)
    for (const Row& issue : rows_of(input.at("issues")))
      if (text_of(issue.at("kind")) == "activity_without_launch" && text_of(issue.at("severity")) == "warning") {
        const std::string text = text_of(issue.at("text"));
        return text.substr(0, text.find(';'));
      }
  return {};
}

void read_findings(const Record& document, RunSummary& run) {
  const auto steps = static_cast<double>(std::max<int64_t>(whole_of(document.at("measured_steps")), 1));
  for (const Row& f : rows_of(document.at("findings"))) {
    FindingSummary finding{text_of(f.at("rule")), text_of(f.at("severity")), text_of(f.at("what")), {}};
    const auto of_finding = static_cast<double>(whole_of(f.at("steps")));   // a report of before has none
    if (is_number(f.at("cost_ns"))) finding.cost_ns = f.at("cost_ns").number() / (of_finding > 0 ? of_finding : steps);
    const List* const fixes = f.at("fix").list();
    if (fixes != nullptr && !fixes->empty()) finding.fix = text_of(fixes->front());
    run.findings.push_back(std::move(finding));
  }
}

}  // namespace

Result<RunSummary> run_summary(const Value& document, std::string label) {
  const Record& d = record_of(document);
  const std::string schema = text_of(d.at("schema"));
  if (schema != "profgpu.analysis.v1")
    return Error{schema.empty() ? "not an analysis that profgpu saved"
                 : schema.starts_with("profgpu.bench.")
                     ? "a result of profgpu bench, which is compared only with another one"
                     : "a document of schema " + schema + ", which this profgpu does not compare",
                 schema.starts_with("profgpu.analysis.")
                     ? "another version of profgpu wrote it: compare with that one, or analyze the run again"
                     : "give a trace, a recording, a sample log or the output of `profgpu analyze --json`"};
  RunSummary run;
  run.label = std::move(label);
  Reader reader(run);
  const auto ranks = rows_of(d.at("ranks"));
  const auto has_device = [](const Row& rank) { return !rows_of(rank.at("devices")).empty(); };
  const bool any_device = std::any_of(ranks.begin(), ranks.end(), has_device);
  for (const Row& rank : ranks) {
    if (any_device && !has_device(rank)) {
      run.without_device.push_back(static_cast<int>(whole_of(rank.at("rank"))));
      continue;
    }
    if (Status status = reader.rank(rank); !status) return status.error();
  }
  reader.finish();
  read_telemetry(d.at("telemetry"), run);
  read_energy(record_of(record_of(d.at("job")).at("energy")), run);
  read_throughput(rows_of(d.at("logs")), run);
  read_findings(d, run);
  const auto inputs = rows_of(d.at("inputs"));
  if (!any_device) run.no_device = no_device_reason(inputs);
  run.without_launch = work_without_launch(inputs);
  run.only_snapshot = !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const Row& input) {
    return text_of(input.at("format")) == "memory-snapshot" || text_of(input.at("format")) == "memory-timeline";
  });
  // What snapshots without a history hold is told exactly.
  if (text_of(d.at("verdict_kind")) == "inconclusive" && !run.only_snapshot) run.inconclusive = text_of(d.at("verdict"));
  const bool only_dumps = !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const Row& input) {
    return text_of(input.at("format")) == "flight-recorder";
  });
  if (only_dumps)
    return Error{"dumps of NCCL's flight recorder have no steps that could be compared",
                 "profgpu analyze says of each job which rank hangs"};
  if (run.step_count == 0 && run.telemetry.empty() && run.memory_lines.empty() && !run.only_snapshot)
    return Error{"neither steps nor samples in it", inputs.empty() ? "is it the document of `profgpu analyze --json`?"
                                                                    : "`profgpu analyze` tells what it has"};
  return run;
}

}  // namespace profgpu
