#include "scenario.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

namespace nvml_stub {
namespace {

using Words = std::vector<std::string>;

// An H100 at rest. Codes stand for what such a device does not have.
const char* const kDefaults = R"(
memory_total 85520809984
memory_reserved 533725184
memory_used 0
bar1_total 137438953472
bar1_used 3145728
utilization 0
memory_utilization 0
encoder 0
decoder 0
jpeg 0
ofa 0
power 70
power_limit 700
power_default 700
power_min 200
power_max 700
temperature 34
memory_temperature 42
margin 53
slowdown 89
shutdown 92
fan unsupported
pstate 0
sm_clock 345
memory_clock 2619
video_clock 345
base_clock 1200
sm_clock_max 1980
memory_clock_max 2619
graphics_clock_max 1980
video_clock_max 1545
reasons 1
throttle_power 0
throttle_thermal 0
throttle_sync_boost 0
throttle_board_limit 0
throttle_low_utilization 0
throttle_reliability 0
throttle_sw_thermal 0
throttle_hw_thermal 0
throttle_hw_power_brake 0
pcie_tx count 0 0
pcie_rx count 0 0
pcie_gen 5
pcie_gen_max 5
pcie_width 16
pcie_width_max 16
pcie_replays 0
nvlink_tx unsupported
nvlink_rx unsupported
nvlink_errors unsupported
nvlink_speed unsupported
ecc_corrected 0
ecc_uncorrected 0
ecc_corrected_lifetime 0
ecc_uncorrected_lifetime 0
retired_single unsupported
retired_double unsupported
retired_pending unsupported
remapped_corrected 0
remapped_uncorrected 0
remapped_pending 0
remapped_failed 0
recovery 0
gpm 1
gpm_graphics 0
gpm_sm 0
gpm_occupancy 0
gpm_tensor 0
gpm_dram 0
gpm_fp64 0
gpm_fp32 0
gpm_fp16 0
gpm_pcie_tx 0
gpm_pcie_rx 0
persistence 1
compute_mode 0
ecc_mode 1
mig_mode 0
numa 0
)";

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

Course course_of(Words words) {
  Course c;
  if (words.empty()) return {"constant", {0}, 999};
  if (words[0] == "unsupported") return {"constant", {0}, 3};
  if (words[0] == "denied") return {"constant", {0}, 4};
  if (words[0] == "code") return {"constant", {0}, words.size() > 1 ? std::atoi(words[1].c_str()) : 999};
  if (words[0] == "na") return {"na", {0}, 0};
  if (std::isalpha(static_cast<unsigned char>(words[0][0]))) {
    c.kind = words[0];
    words.erase(words.begin());
  }
  c.numbers.clear();
  for (const std::string& w : words) c.numbers.push_back(number(w));
  return c;
}

Words split(const std::string& text, char by) {
  Words out;
  std::stringstream in(text);
  for (std::string word; std::getline(in, word, by);) out.push_back(word);
  return out;
}

Process process_of(const Words& w) {
  Process p;
  p.pid = static_cast<uint32_t>(std::atol(w[0].c_str()));
  for (size_t i = 1; i < w.size(); ++i) {
    const size_t at = w[i].find('=');
    if (at == std::string::npos) {
      p.type = w[i][0];
      continue;
    }
    const std::string key = w[i].substr(0, at), value = w[i].substr(at + 1);
    if (key == "from") p.from = number(value);
    else if (key == "until") p.until = number(value);
    else if (key == "memory") p.memory = course_of(split(value, ','));
    else if (key == "sm") p.sm = course_of(split(value, ','));
    else if (key == "mem") p.memory_utilization = course_of(split(value, ','));
    else if (key == "enc") p.encoder = course_of(split(value, ','));
    else if (key == "dec") p.decoder = course_of(split(value, ','));
  }
  return p;
}

void add_instance(Gpu& gpu, const Words& w) {
  Gpu& m = gpu.instances.emplace_back();
  m.parent = &gpu;
  m.index = gpu.index;
  m.gpu_instance = static_cast<uint32_t>(std::atoi(w[0].c_str()));
  m.compute_instance = static_cast<uint32_t>(std::atoi(w[1].c_str()));
  m.texts["profile"] = w[2];
  m.courses = gpu.courses;
  m.courses["memory_total"] = course_of({w[3]});
  m.courses["memory_reserved"] = course_of({"0"});
  m.courses["memory_used"] = course_of(Words(w.begin() + 4, w.end()));
  gpu.courses["mig_mode"] = course_of({"1"});
}

// True if the line was of a kind that a device has.
bool take_device_line(Gpu& gpu, const std::string& key, const Words& w) {
  const auto from = [&](size_t i, double otherwise) { return w.size() > i ? number(w[i]) : otherwise; };
  if (key == "process" && !w.empty()) gpu.processes.push_back(process_of(w));
  else if (key == "garbage_rows" && !w.empty()) gpu.garbage_rows = std::atoi(w[0].c_str());
  else if (key == "ring" && w.size() >= 2)
    gpu.rings[w[0]] = w[1] == "off" ? Ring{1, 0} : Ring{number(w[1]), w.size() > 2 ? std::atoll(w[2].c_str()) : 120};
  else if (key == "lost") gpu.faults.push_back({Fault::kError, "any", 15, from(0, 0), from(1, 1e18)});
  else if (key == "reset_required") gpu.faults.push_back({Fault::kError, "any", 16, from(0, 0), from(1, 1e18)});
  else if (key == "hang" && !w.empty())
    gpu.faults.push_back({Fault::kHang, w[0], 0, from(1, 0), from(1, 0) + from(2, 1e18)});
  else if (key == "error" && w.size() >= 2)
    gpu.faults.push_back({Fault::kError, w[0], std::atoi(w[1].c_str()), from(2, 0), from(3, 1e18)});
  else if (key == "xid" && !w.empty()) gpu.xids.push_back({std::stoull(w[0]), from(1, 0)});
  else if (key == "links" && w.size() >= 2)
    gpu.links.push_back({std::atoi(w[0].c_str()), w[1] == "switch" ? -1 : std::atoi(w[1].c_str())});
  else if (key == "mig" && w.size() >= 5) add_instance(gpu, w);
  else if (gpu.courses.count(key)) gpu.courses[key] = course_of(w);
  else return false;
  return true;
}

bool take_text(Gpu& gpu, const std::string& key, std::string rest) {
  if (key != "name" && key != "uuid" && key != "pci" && key != "serial" && key != "mig_uuid") return false;
  const size_t at = rest.find("{}");
  if (at != std::string::npos) rest.replace(at, 2, std::to_string(gpu.index));
  (key == "mig_uuid" && !gpu.instances.empty() ? gpu.instances.back().texts["uuid"] : gpu.texts[key]) = rest;
  return true;
}

bool take_global(Scenario& s, const std::string& key, const Words& w) {
  if (w.empty()) return false;
  const int value = std::atoi(w[0].c_str());
  if (key == "driver") s.driver = w[0];
  else if (key == "nvml") s.nvml = w[0];
  else if (key == "cuda") s.cuda = value;
  else if (key == "init_error") s.init_error = value;
  else if (key == "process_struct") s.process_struct = value;
  else if (key == "start") s.start = number(w[0]);
  else if (key == "clock") s.held = w[0] == "held";
  else if (key == "delay_us") s.delay_us = value, s.spin = w.size() > 1 && w[1] == "spin";
  else if (key == "missing") s.missing.insert(s.missing.end(), w.begin(), w.end());
  else if (key == "topology") s.ancestor = static_cast<uint32_t>(value);
  else if (key == "near" && w.size() == 3)
    s.ancestors[{std::min(value, std::atoi(w[1].c_str())), std::max(value, std::atoi(w[1].c_str()))}] =
        static_cast<uint32_t>(std::atoi(w[2].c_str()));
  else if (key == "idle_samples") s.zero_when_idle = w[0] == "zero";
  else if (key == "rates") s.mean_rates = w[0] == "mean";
  else return false;
  return true;
}

// "device 2", "device 0..15", "device all": creates those that are not there yet.
std::vector<Gpu*> devices_of(Scenario& s, const std::string& word) {
  size_t first = 0, last = 0;
  if (word == "all") {
    last = s.gpus.empty() ? 0 : s.gpus.size() - 1;
  } else {
    const size_t dots = word.find("..");
    first = std::strtoul(word.c_str(), nullptr, 10);
    last = dots == std::string::npos ? first : std::strtoul(word.c_str() + dots + 2, nullptr, 10);
  }
  while (s.gpus.size() <= std::min<size_t>(last, 63)) {
    Gpu& gpu = s.gpus.emplace_back();
    gpu.index = static_cast<uint32_t>(s.gpus.size() - 1);
    std::stringstream defaults(kDefaults);
    for (std::string line; std::getline(defaults, line);) {
      const Words w = split(line, ' ');
      if (w.size() > 1) gpu.courses[w[0]] = course_of(Words(w.begin() + 1, w.end()));
    }
    gpu.courses["gpm_graphics"].kind = "same";   // follows utilization until it is set
    for (const char* ring : {"utilization", "memory_utilization", "power"}) gpu.rings[ring] = {};
    for (const char* free : {"power_instant", "energy", "graphics_clock"}) gpu.courses[free] = {"same", {0}, 0};
  }
  std::vector<Gpu*> out;
  for (size_t i = first; i <= last && i < s.gpus.size(); ++i) out.push_back(&s.gpus[i]);
  return out;
}

}  // namespace

double Course::at(double t) const {
  const auto n = [&](size_t i, double otherwise = 0) { return i < numbers.size() ? numbers[i] : otherwise; };
  const auto phase = [&](double period) { return period > 0 ? t / period - std::floor(t / period) : 0; };
  if (kind == "ramp") return n(0) + (n(1) - n(0)) * std::clamp(t / std::max(n(2, 1), 1e-9), 0.0, 1.0);
  if (kind == "saw") return n(0) + (n(1) - n(0)) * phase(n(2, 1));
  if (kind == "square") return phase(n(2, 1)) < n(3, 0.5) ? n(1) : n(0);
  if (kind == "sine") return n(0) + (n(1) - n(0)) * (0.5 - 0.5 * std::cos(2 * M_PI * phase(n(2, 1))));
  if (kind == "steps" || kind == "cycle") {
    const size_t count = std::max<size_t>(numbers.size(), 2) - 1;
    auto step = static_cast<size_t>(std::max(t / std::max(n(0), 1e-9), 0.0));
    step = kind == "cycle" ? step % count : std::min(step, count - 1);
    return n(1 + step);
  }
  if (kind == "count") {   // START PER_SECOND [MODULUS] [BACK_TO_ZERO_AT]
    const double back = n(3);
    const double value = back > 0 && t >= back ? (t - back) * n(1) : n(0) + t * n(1);
    return n(2) > 0 ? std::fmod(value, n(2)) : value;
  }
  return n(0);
}

double Course::mean(double from, double to) const {
  if (kind == "constant" || to <= from) return at(to);
  constexpr int kPoints = 16;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) sum += at(from + (to - from) * (i + 0.5) / kPoints);
  return sum / kPoints;
}

const Course& Gpu::course(std::string_view key) const {
  static const Course kNone{"constant", {0}, 3};
  const auto it = courses.find(key);
  return it == courses.end() ? kNone : it->second;
}

void Scenario::read(Scenario& out, const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    out.problem = "cannot read " + path;
    return;
  }
  std::vector<Gpu*> current;
  int number_of_line = 0;
  for (std::string line; std::getline(in, line);) {
    ++number_of_line;
    line.resize(std::min(line.find('#'), line.size()));
    std::stringstream words(line);
    std::string key, rest;
    if (!(words >> key)) continue;
    std::getline(words >> std::ws, rest);
    rest.resize(rest.find_last_not_of(" \t\r") + 1);
    Words w;
    std::stringstream pieces(rest);
    for (std::string word; pieces >> word;) w.push_back(word);
    bool known = false;
    if (key == "device") {
      current = devices_of(out, rest);
      known = !current.empty();
    } else if (current.empty()) {
      known = take_global(out, key, w);
    } else {
      for (Gpu* gpu : current) known = take_text(*gpu, key, rest) || take_device_line(*gpu, key, w);
    }
    if (!known && out.problem.empty()) out.problem = path + ":" + std::to_string(number_of_line) + ": " + line;
  }
}

}  // namespace nvml_stub
