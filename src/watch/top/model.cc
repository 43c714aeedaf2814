#include "watch/top/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/sampler.h"
#include "devices/system_checks.h"

namespace profgpu {
namespace {

constexpr int kPage = 10;             // rows
constexpr size_t kLongestInput = 100; // bytes
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kIntervals_ns[] = {100 * kMs,  200 * kMs,  500 * kMs,   1000 * kMs,
                                     2000 * kMs, 5000 * kMs, 10'000 * kMs};  // + and - go through

// What a key does to text that is typed: one more letter, or one less.
void edit(std::string& text, const KeyPress& key) {
  if (key.kind == KeyPress::Kind::kBackspace) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
  } else if (key.kind == KeyPress::Kind::kCharacter && !is_control(key.character) && text.size() < kLongestInput) {
    append_utf8(text, key.character);
  }
}

std::string process_text(int64_t pid, const std::string& command, const std::string& user) {
  return fmt::format("{} {}{}", pid, command.substr(0, 60), user.empty() ? "" : " of " + user);
}

bool descends_first(ProcessColumn column) {
  return column != ProcessColumn::kPid && column != ProcessColumn::kUser && column != ProcessColumn::kDevice &&
         column != ProcessColumn::kPlace && column != ProcessColumn::kCommand;
}

}  // namespace

const std::vector<SignalChoice>& signal_choices() {
  static const std::vector<SignalChoice> kChoices = {
      {'t', SIGTERM, "TERM"}, {'i', SIGINT, "INT"},   {'k', SIGKILL, "KILL"},
      {'h', SIGHUP, "HUP"},   {'s', SIGSTOP, "STOP"}, {'c', SIGCONT, "CONT"},
      {'1', SIGUSR1, "USR1"}, {'2', SIGUSR2, "USR2"}, {'q', SIGQUIT, "QUIT"},
  };
  return kChoices;
}

void TopModel::take(LiveView view) {
  histories_.take(view, interval_ns_);
  if (paused_ && !view_.devices.empty()) return;
  view_ = std::move(view);
  advice_ = advice_on(view_, histories_);
  device_ = std::min(device_, view_.devices.empty() ? 0 : view_.devices.size() - 1);
  list();
}

void TopModel::list() {
  entries_ = process_list(view_, order_, page_ == TopPage::kDevice ? std::optional(device_) : std::nullopt);
  if (!selected_) return;
  if (const auto at = selected()) {
    selected_at_ = *at;
  } else if (question_ == Question::kNone) {
    // The next one moves up; while a question about it is open, nobody else takes its place.
    selected_at_ = std::min(selected_at_, entries_.empty() ? 0 : entries_.size() - 1);
    selected_ = entries_.empty() ? std::nullopt : std::optional(entries_[selected_at_].key());
  }
}

std::optional<size_t> TopModel::selected() const {
  if (!selected_) return std::nullopt;
  const auto it =
      std::find_if(entries_.begin(), entries_.end(), [&](const ProcessEntry& e) { return e.key() == *selected_; });
  return it == entries_.end() ? std::nullopt : std::optional(static_cast<size_t>(it - entries_.begin()));
}

void TopModel::move(int by) {
  if (entries_.empty()) return;
  const auto last = static_cast<int64_t>(entries_.size()) - 1;
  const auto at = selected();
  const int64_t to = at ? static_cast<int64_t>(*at) + by : by > 0 ? by - 1 : last;
  selected_at_ = static_cast<size_t>(std::clamp<int64_t>(to, 0, last));
  selected_ = entries_[selected_at_].key();
  if (page_ == TopPage::kOverview) device_ = entries_[selected_at_].device;
}

void TopModel::choose_device(int by) {
  const auto n = static_cast<int>(view_.devices.size());
  if (n == 0) return;
  device_ = static_cast<size_t>((static_cast<int>(device_) + by + n) % n);
  list();
}

void TopModel::sort_by(ProcessColumn column) {
  order_.descending = order_.column == column ? !order_.descending : descends_first(column);
  order_.column = column;
  list();
}

void TopModel::next_column(int by) {
  constexpr auto kCount = static_cast<int>(kProcessColumnCount);
  order_.column = static_cast<ProcessColumn>((static_cast<int>(order_.column) + by + kCount) % kCount);
  order_.descending = descends_first(order_.column);
  list();
}

void TopModel::escape() {
  if (page_ != TopPage::kOverview) {
    turn_to(TopPage::kOverview);
  } else if (!order_.filter.empty()) {
    order_.filter.clear();
    list();
  } else {
    selected_.reset();
  }
}

bool TopModel::press(const KeyPress& key) {
  message_.clear();
  if (question_ != Question::kNone) {
    answer(key);
    return true;
  }
  switch (key.kind) {
    case KeyPress::Kind::kCharacter: return press_character(key.character);
    case KeyPress::Kind::kUp: move(-1); break;
    case KeyPress::Kind::kDown: move(1); break;
    case KeyPress::Kind::kWheelUp: move(-3); break;
    case KeyPress::Kind::kWheelDown: move(3); break;
    case KeyPress::Kind::kPageUp: move(-kPage); break;
    case KeyPress::Kind::kPageDown: move(kPage); break;
    case KeyPress::Kind::kHome: move(-1'000'000); break;
    case KeyPress::Kind::kEnd: move(1'000'000); break;
    case KeyPress::Kind::kLeft: choose_device(-1); break;
    case KeyPress::Kind::kRight: choose_device(1); break;
    case KeyPress::Kind::kEnter: turn_to(TopPage::kDevice); break;
    case KeyPress::Kind::kEscape:
    case KeyPress::Kind::kBackspace: escape(); break;
    case KeyPress::Kind::kClick: break;
  }
  return true;
}

bool TopModel::press_character(uint32_t c) {
  switch (c) {
    case 'q': return false;
    case 'h':
    case '?': turn_to(TopPage::kHelp); break;
    case 'd': turn_to(TopPage::kDevice); break;
    case 'l': turn_to(TopPage::kTopology); break;
    case 'u': turn_to(TopPage::kUsers); break;
    case '/': question_ = Question::kFilter, typed_ = order_.filter; break;
    case 't': order_.tree = !order_.tree, list(); break;
    case ' ': paused_ = !paused_; break;
    case 'k': ask_about_process(Question::kSignal); break;
    case 'n': ask_about_process(Question::kNice); break;
    case 's': question_ = Question::kInterval, typed_.clear(); break;
    case '+':
    case '=': step_interval(true); break;
    case '-': step_interval(false); break;
    default: press_sort(c);
  }
  return true;
}

void TopModel::press_sort(uint32_t c) {
  switch (c) {
    case '<': next_column(-1); break;
    case '>': next_column(1); break;
    case 'r': order_.descending = !order_.descending, list(); break;
    case 'M': sort_by(ProcessColumn::kMemory); break;
    case 'S': sort_by(ProcessColumn::kSm); break;
    case 'C': sort_by(ProcessColumn::kCpu); break;
    case 'P': sort_by(ProcessColumn::kPid); break;
    case 'T': sort_by(ProcessColumn::kTime); break;
    case 'U': sort_by(ProcessColumn::kUser); break;
    case 'G': sort_by(ProcessColumn::kDevice); break;
    default: break;
  }
}

void TopModel::step_interval(bool longer) {
  const auto begin = std::begin(kIntervals_ns), end = std::end(kIntervals_ns);
  const auto to = longer ? std::upper_bound(begin, end, interval_ns_) : std::lower_bound(begin, end, interval_ns_);
  if (to == (longer ? end : begin)) return say("s asks for any interval");
  interval_ns_ = longer ? *to : to[-1];
}

void TopModel::ask_about_process(Question question) {
  const auto at = selected();
  if (!at) return say("choose a process first: ↑ ↓, or click on it");
  const ProcessEntry& entry = entries_[*at];
  const HostProcess& host = entry.parent ? *entry.parent : entry.process->host;
  if (!view_.hosts[view_.devices[entry.device].host].here)
    return say("this process is not on this machine: can't signal it");
  if (host.visible_pid == 0)
    return say(fmt::format("nothing is known of process {} here{}", entry.process ? entry.process->sample.pid : 0,
                           host.unknown.empty() ? "" : ": " + host.unknown));
  if (host.inferred) return say("which process this is here is only a conclusion: nothing is sent to it");
  command_ = {host.visible_pid, host.start_ns, 0, 0, process_text(host.visible_pid, command_text(entry), host.user)};
  question_ = question;
  typed_.clear();
}

void TopModel::answer(const KeyPress& key) {
  if (key.kind == KeyPress::Kind::kEscape) {
    if (question_ == Question::kFilter) order_.filter.clear(), list();
    question_ = Question::kNone;
    return;
  }
  switch (question_) {
    case Question::kFilter: return answer_filter(key);
    case Question::kInterval: return answer_interval(key);
    case Question::kNice: return answer_nice(key);
    case Question::kSignal:
      if (key.kind == KeyPress::Kind::kCharacter) answer_signal(key.character);
      return;
    case Question::kSure:
      if (key.kind != KeyPress::Kind::kCharacter && key.kind != KeyPress::Kind::kEnter) return;
      sure_ = key.kind == KeyPress::Kind::kCharacter && (key.character == 'y' || key.character == 'Y');
      if (!sure_) say("nothing was done");
      question_ = Question::kNone;
      return;
    case Question::kNone: return;
  }
}

void TopModel::answer_filter(const KeyPress& key) {
  if (key.kind == KeyPress::Kind::kEnter) question_ = Question::kNone;
  edit(typed_, key);
  order_.filter = typed_;
  list();
}

void TopModel::answer_interval(const KeyPress& key) {
  edit(typed_, key);
  if (key.kind != KeyPress::Kind::kEnter) return;
  question_ = Question::kNone;
  if (typed_.empty()) return;
  const auto interval = duration_ns(typed_);
  if (!interval || *interval < kShortestSampling_ns || *interval > kLongestSampling_ns)
    return say("an interval is from 1ms to 24h: 2, 0.5, 100ms");
  interval_ns_ = *interval;
}

void TopModel::answer_nice(const KeyPress& key) {
  if (key.kind == KeyPress::Kind::kBackspace && !typed_.empty()) typed_.pop_back();
  const bool fits = key.kind == KeyPress::Kind::kCharacter && typed_.size() < 3 &&
                    ((key.character >= '0' && key.character <= '9') || (key.character == '-' && typed_.empty()));
  if (fits) typed_ += static_cast<char>(key.character);
  if (key.kind != KeyPress::Kind::kEnter) return;
  const auto nice = whole_number(typed_);
  question_ = Question::kNone;
  if (!nice || *nice < -20 || *nice > 19) return say("a nice value is a number from -20 to 19");
  command_.nice = static_cast<int>(*nice);
  command_.what = fmt::format("nice value {} for {}", command_.nice, command_.what);
  question_ = Question::kSure;
}

void TopModel::answer_signal(uint32_t c) {
  for (const SignalChoice& choice : signal_choices()) {
    if (static_cast<uint32_t>(choice.letter) != c) continue;
    command_.signal = choice.signal;
    command_.what = fmt::format("SIG{} to {}", choice.name, command_.what);
    question_ = Question::kSure;
  }
}

std::optional<ProcessCommand> TopModel::next_command() {
  if (!sure_) return std::nullopt;
  sure_ = false;
  return command_;
}

bool TopModel::click(const Hit& hit) {
  message_.clear();
  if (hit.what == Hit::What::kKey) return press(hit.key);
  if (question_ != Question::kNone) return true;
  switch (hit.what) {
    case Hit::What::kDevice:
      page_ = page_ == TopPage::kDevice && device_ == hit.device ? TopPage::kOverview : TopPage::kDevice;
      device_ = hit.device;
      list();
      break;
    case Hit::What::kProcess:
      selected_ = hit.process;
      selected_at_ = selected().value_or(0);
      if (page_ == TopPage::kOverview) device_ = hit.process.device;
      break;
    case Hit::What::kColumn: sort_by(hit.column); break;
    case Hit::What::kKey: break;
  }
  return true;
}

namespace {

constexpr int64_t kSpan_ns = 60'000'000'000;

// What `doctor` says of a device, but for what changes from second to second and for what somebody may have wanted.
void add_checks(const LiveDevice& device, std::vector<Advice>& out) {
  Reading reading;
  for (size_t m = 0; m < kMetricCount; ++m)
    if (device.values[m]) reading.add(static_cast<Metric>(m), *device.values[m], device.read_ns[m]);
  for (const SystemCheck& check : device_checks({device.info.get(), device.trouble, &reading, nullptr})) {
    const std::optional<Severity> severity = severity_of(check.verdict);
    if (!severity || check.id == "clocks" || check.id == "temperature" || check.id == "power_limit") continue;
    out.push_back({*severity, check.detail, check.hint});
  }
}

void add_xid(const LiveDevice& device, std::vector<Advice>& out) {
  const auto code = device.value(Metric::kXidLast);
  if (!code || device.value(Metric::kXidErrors).value_or(1) <= 0) return;
  const XidMeaning meaning = xid_meaning(static_cast<int>(*code));
  out.push_back({meaning.severity, fmt::format("Xid {:.0f}: {}", *code, meaning.what), std::string(meaning.advice)});
}

DeviceNow now_of(const LiveDevice& device, const DeviceHistory& history) {
  DeviceNow now{.label = device.info->label(),
                .values = {},
                .busy_pct = history.mean(Track::kUtilization, kSpan_ns),
                .held_by_heat_pct = history.mean(Track::kHeldByHeat, kSpan_ns),
                .held_by_power_pct = history.mean(Track::kHeldByPower, kSpan_ns),
                .largest = {},
                .user = {}};
  for (size_t m = 0; m < kMetricCount; ++m) now.values[m] = device.value(static_cast<Metric>(m));
  const auto largest = std::max_element(
      device.processes.begin(), device.processes.end(), [](const LiveProcess& a, const LiveProcess& b) {
        return a.sample.memory_bytes.value_or(0) < b.sample.memory_bytes.value_or(0);
      });
  if (largest != device.processes.end()) now.largest = largest->sample, now.user = largest->host.user;
  return now;
}

// A device that does not answer says so where its figures would be: what cannot be seen there comes first.
int order(const LiveView& view, const DeviceAdvice& advice) {
  if (view.devices[advice.device].state != DeviceState::kOk) return 1;
  return advice.severity == Severity::kCritical ? 0 : advice.severity == Severity::kWarning ? 2 : 3;
}

}  // namespace

std::vector<DeviceAdvice> advice_on(const LiveView& view, const Histories& histories) {
  std::vector<DeviceAdvice> all;
  for (size_t i = 0; i < view.devices.size(); ++i) {
    const LiveDevice& device = view.devices[i];
    std::vector<Advice> said;
    add_checks(device, said);
    if (device.state == DeviceState::kOk) {
      add_xid(device, said);
      const DeviceNow now = now_of(device, histories.device(i));
      for (const Rule* rule : rules())
        if (auto advice = rule->now != nullptr ? rule->now(*rule, now) : std::nullopt)
          said.push_back(*std::move(advice));
    }
    for (Advice& advice : said) all.push_back({std::move(advice), i});
  }
  std::stable_sort(all.begin(), all.end(), [&](const DeviceAdvice& a, const DeviceAdvice& b) {
    return order(view, a) < order(view, b);
  });
  return all;
}

}  // namespace profgpu
