#include "app/analyze.h"

#include <fmt/format.h>
#include <regex.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "analyse/rank/page.h"
#include "app/gather/read_job.h"
#include "base/environment.h"
#include "base/pattern.h"
#include "base/text.h"
#include "trace/import/whole_text.h"

namespace profgpu {
namespace {

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Status read_steps(const std::string& text, AnalyzeOptions& options) {
  const auto range = step_range(text);
  if (!range) return Error{"--steps takes A:B, not \"" + text + "\"", "--steps 10:20 is steps 10 to 19"};
  std::tie(options.analysis.first_step, options.analysis.end_step) = *range;
  return ok();
}

Status read_html_steps(const std::string& text, AnalyzeOptions& options) {
  if (!options.page) return Error{"--html-steps needs --html FILE"};
  options.page_steps.all = text == "all";
  const bool listed = !options.page_steps.all;
  for (size_t from = 0; listed && from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const auto range = step_range(std::string_view(text).substr(from, comma - from), true);
    if (!range)
      return Error{"--html-steps takes a range A:B, a list such as 3,7:9, or all, not \"" + text + "\"",
                   "--html-steps 10:12 keeps all events of steps 10 and 11"};
    options.page_steps.indices.push_back(*range);
    from = comma + 1;
  }
  return ok();
}

Status read_html_ranks(const std::string& text, AnalyzeOptions& options) {
  if (!options.page) return Error{"--html-ranks needs --html FILE"};
  options.page_ranks = text == "all" ? RankRanges{{0, INT32_MAX}} : rank_ranges(text);
  if (!options.page_ranks)
    return Error{"--html-ranks takes a list such as 0,3,8-11, or all, not \"" + text + "\""};
  return ok();
}

Status read_threshold(const std::string& text, AnalyzeOptions& options) {
  const size_t equals = text.find('=');
  const std::string rule = text.substr(0, equals);
  double value = 0;
  if (equals == std::string::npos || !parse_number(std::string_view(text).substr(equals + 1), value) ||
      !std::isfinite(value))
    return Error{"--threshold takes RULE=NUMBER, not \"" + text + "\"", "--threshold host-bound-launches=15"};
  if (!find_rule(rule)) return no_such_rule(rule);
  options.thresholds.set(rule, value);
  return ok();
}

Status read_count(std::string_view option, const std::string& text, int& value) {
  int n = 0;
  if (!parse_number(text, n) || n < 0)
    return Error{std::string(option) + " takes a whole number, not \"" + text + "\""};
  value = n;
  return ok();
}

Status read_pattern(const std::string& pattern, AnalyzeOptions& options) {
  options.analysis.step_pattern = pattern;
  if (contains(pattern, "\\d"))
    return Error{"--step-pattern \"" + pattern + "\": POSIX regular expressions have no \\d", "write [0-9]"};
  if (pattern_size(pattern) > kMaxPatternSize)
    return Error{"--step-pattern \"" + shortened(pattern) + "\": its repetitions are too many",
                 "written out, it may have " + format_count(kMaxPatternSize) + " characters"};
  regex_t compiled;
  const int error = ::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error == 0) {
    ::regfree(&compiled);
    return ok();
  }
  char text[200];
  ::regerror(error, &compiled, text, sizeof text);
  return Error{"--step-pattern \"" + pattern + "\": " + text, "it is a POSIX extended regular expression"};
}

Status read_gpu(const std::string& name, AnalyzeOptions& options) {
  if (name.empty()) return Error{"--gpu takes the name of a GPU", "--gpu MI300X, --gpu \"H100 SXM\""};
  const FoundLimits found = find_limits({name});
  options.analysis.gpu = name;
  if (found.limits) return ok();
  std::vector<std::string> names;
  for (const DeviceLimits& known : known_limits()) names.push_back(known.name);
  return Error{fmt::format("--gpu \"{}\": {}", name, found.why),
               did_you_mean(name, names, "for example MI300X, \"H100 SXM\" or A100-SXM4-80GB; --peaks FILE takes rates of any device")};
}

Status read_peaks(const std::string& path, AnalyzeOptions& options) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  auto measured = measured_machine(*std::move(text), path);
  if (!measured) return measured.error();
  options.analysis.peaks = *std::move(measured);
  return ok();
}

Status read_model(const std::string& path, AnalyzeOptions& options) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  auto model = model_config_from_json(*std::move(text), path);
  if (!model) return model.error();
  options.analysis.model = *std::move(model);
  return ok();
}

// A number above 0, or from 0 on.
Status read_amount(std::string_view option, const std::string& text, bool or_zero, std::optional<double>& value) {
  double number = 0;
  const bool good = parse_number(text, number) && std::isfinite(number) && (or_zero ? number >= 0 : number > 0);
  if (!good)
    return Error{fmt::format("{} takes a number {} 0, not \"{}\"", option, or_zero ? "of at least" : "above", text)};
  value = number;
  return ok();
}

// "16384", or "8x2048" of sequences that are all alike.
Status read_tokens(const std::string& text, AnalyzeOptions& options) {
  GivenLoad& load = options.analysis.load;
  const size_t times = text.find('x');
  if (times == std::string::npos) return read_amount("--tokens-per-step", text, false, load.tokens);
  std::optional<double> sequences, length;
  const bool good = read_amount("", text.substr(0, times), false, sequences) &&
                    read_amount("", text.substr(times + 1), false, length) && std::isfinite(*sequences * *length);
  if (!good)
    return Error{"--tokens-per-step takes tokens, or SEQUENCESxLENGTH, not \"" + text + "\"",
                 "--tokens-per-step 8x2048: 8 sequences of 2048 tokens on each GPU"};
  load.tokens = *sequences * *length, load.sequence_length = length;
  return ok();
}

Status read_samples(const std::string& text, AnalyzeOptions& options) {
  return read_amount("--samples-per-step", text, false, options.analysis.load.samples);
}
Status read_price(const std::string& text, AnalyzeOptions& options) {
  return read_amount("--price-kwh", text, true, options.analysis.rates.price_per_kwh);
}
Status read_co2(const std::string& text, AnalyzeOptions& options) {
  return read_amount("--gco2-kwh", text, true, options.analysis.rates.gco2_per_kwh);
}

struct ReadingOption {
  std::string_view name;
  Status (*read)(const std::string& text, AnalyzeOptions& options);
};
constexpr ReadingOption kReaders[] = {{"--steps", read_steps},
                                      {"--html-steps", read_html_steps},
                                      {"--html-ranks", read_html_ranks},
                                      {"--threshold", read_threshold},
                                      {"--step-pattern", read_pattern},
                                      {"--gpu", read_gpu},
                                      {"--peaks", read_peaks},
                                      {"--model-config", read_model},
                                      {"--tokens-per-step", read_tokens},
                                      {"--samples-per-step", read_samples},
                                      {"--price-kwh", read_price},
                                      {"--gco2-kwh", read_co2}};

}  // namespace

std::string machine_file() {
  if (const std::string named = environment("PROFGPU_MACHINE"); !named.empty()) return named;
  const std::string data = environment("XDG_DATA_HOME");
  return (data.empty() ? environment("HOME") + "/.local/share" : data) + "/profgpu/machine.json";
}

AnalyzeOptions::AnalyzeOptions() {
  bool broken = false;
  const std::string path = machine_file();
  auto text = whole_text(path, broken);
  if (!text) return;
  if (auto measured = measured_machine(*std::move(text), path)) analysis.machine = *std::move(measured);
}

Error no_such_rule(const std::string& id) {
  std::vector<std::string> ids;
  for (const Rule* r : rules()) ids.emplace_back(r->id);
  return {"there is no rule \"" + id + "\"", did_you_mean(id, ids, "`profgpu rules` lists them")};
}

Status set_option(AnalyzeOptions& options, std::string_view option, std::span<const std::string> values) {
  const auto reader = std::find_if(std::begin(kReaders), std::end(kReaders),
                                   [&](const ReadingOption& r) { return r.name == option; });
  for (const std::string& text : option == "--threshold" ? values : values.last(1))
    if (Status read = reader->read(text, options); !read) return read;
  return ok();
}

Status set_option(PresentOptions& options, std::string_view option, std::span<const std::string> values) {
  if (option == "--top") return read_count(option, values.back(), options.top);
  if (option == "--width") return read_count(option, values.back(), options.width);
  if (option == "--section") options.section = values.back();
  if (option == "--color") options.colour = values.back() == "always";
  if (option == "--verbose") options.verbose = true;
  return ok();
}

namespace {

// The rank that the page opens with, then those that show what findings say: most expensive first.
std::vector<int> named_ranks(const Report& report) {
  const RankReport* focus = report.rank_in_focus();
  std::vector<int> named;
  if (focus != nullptr) named.push_back(focus->rank);
  for (const Finding& f : report.findings) {
    const bool of_focus = focus != nullptr && std::ranges::count(f.ranks, focus->rank) > 0;
    if (f.seen.rank) named.push_back(*f.seen.rank);
    else if (!of_focus && !f.ranks.empty()) named.push_back(f.ranks.front());
  }
  return named;
}

std::vector<int> unusual_ranks(const Job& job) {
  std::vector<int> ranks;
  for (const Straggler& s : job.stragglers) ranks.push_back(s.rank);
  for (const MissingCalls& m : job.missing) ranks.push_back(m.rank);
  const auto longest = std::ranges::max_element(job.step_mean_ns, {}, [](const auto& mean) { return mean.second; });
  if (longest != job.step_mean_ns.end()) ranks.push_back(longest->first);
  return ranks;
}

// Adds those that are there, each once, while there are fewer than `most`.
void add_ranks(const std::vector<int>& more, const std::vector<int>& there, size_t most, std::vector<int>& chosen) {
  for (const int rank : more)
    if (chosen.size() < most && std::ranges::count(there, rank) > 0 && std::ranges::count(chosen, rank) == 0)
      chosen.push_back(rank);
}

}  // namespace

Result<std::vector<int>> page_ranks(const std::vector<int>& there, const Report& report,
                                    const std::optional<RankRanges>& choice) {
  if (choice) return chosen_ranks(*choice, there);
  if (report.job == nullptr || there.size() <= kPageRanks) return there;
  std::vector<int> chosen;
  add_ranks(named_ranks(report), there, kPageRanks - 1, chosen);
  // A late rank is seen beside one that waits for it: half the places at most are for what no finding names.
  add_ranks(unusual_ranks(*report.job), there, kPageRanks / 2, chosen);
  const auto& means = report.job->step_mean_ns;
  const auto shortest = std::ranges::min_element(means, {}, [](const auto& mean) { return mean.second; });
  if (shortest != means.end()) add_ranks({shortest->first}, there, kPageRanks, chosen);
  add_ranks(there, there, kPageRanks, chosen);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

namespace {

// Neither the device nor the host was recorded, but what threads did is known.
bool has_only_threads(const Report& report) {
  std::set<std::string_view> missing;
  for (const InputFile& file : report.inputs)
    for (const Issue& issue : file.issues) missing.insert(issue.kind);
  return missing.contains("no_host_events") && missing.contains("no_device_activity");
}

// The section that says most beyond the first screen.
std::string_view next_section(const Report& report) {
  const RankReport* rank = report.rank_in_focus();
  if (rank != nullptr && rank->snapshot && rank->devices.empty() && rank->ops.empty()) return " --section snapshot";
  if (has_only_threads(report)) return " --section threads";
  const bool host_alone = rank != nullptr && rank->kernels.empty() && !rank->ops.empty();
  return host_alone ? " --section ops --top 30" : " --section kernels --top 30";
}

// Standard input and pipes are read once.
bool can_be_read_again(const std::string& path) {
  struct stat info{};
  return path != "-" && ::stat(path.c_str(), &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

constexpr size_t kMaxListedPaths = 4;

// The files that were read, or the folder of many; empty: too many to type.
std::string paths_to_type(const std::vector<std::string>& paths) {
  if (paths.size() <= kMaxListedPaths) return " " + shell_line(paths);
  std::set<std::string> folders;
  for (const std::string& path : paths) folders.insert(path.find('/') == path.npos ? "." : std::string(folder_of(path)));
  return folders.size() == 1 && !folders.begin()->empty() ? " " + shell_line({*folders.begin()}) : "";
}

std::vector<std::string> next_commands(const AnalyzeOptions& options, const Report& report) {
  std::vector<std::string> next;
  const auto loud = std::ranges::find_if(report.findings, [](const Finding& f) { return f.severity != Severity::kInfo; });
  if (!report.verdict_rule.empty()) next.push_back("profgpu explain " + report.verdict_rule);
  else if (loud != report.findings.end()) next.push_back("profgpu explain " + loud->rule);
  else if (!report.findings.empty()) next.push_back("profgpu explain " + report.findings.front().rule);
  if (!std::ranges::all_of(options.paths, can_be_read_again)) return next;
  const std::string paths = paths_to_type(options.paths);
  if (paths.empty()) return next;
  const bool no_device = std::ranges::all_of(report.ranks, [](const RankReport& r) { return r.devices.empty(); });
  if (!report.logs.empty() && no_device) {
    // What takes the time within a step is in no line.
    const auto has_timers = [](const LogReport& log) { return !log.breakdown.empty(); };
    const bool steps_without_timers = std::ranges::none_of(report.logs, has_timers) &&
                                      std::ranges::any_of(report.logs, &LogReport::has_steps);
    if (report.verdict_kind != VerdictKind::kFailure && steps_without_timers)
      next.emplace_back("profgpu run --trace -o rec -- COMMAND");
    next.push_back("profgpu analyze" + paths + " --section log");
    return next;
  }
  if (report.ranks.empty() && report.flight) {
    next.push_back("profgpu analyze" + paths + " --section hang");
    return next;
  }
  if (report.ranks.empty()) {
    next.push_back("profgpu analyze TRACE --samples " + shell_line({report.inputs.front().path}));
    return next;
  }
  if (report.ranks.size() > 1) next.push_back("profgpu analyze" + paths + " --section cluster");
  next.push_back("profgpu analyze" + paths + std::string(next_section(report)));
  if (!options.page) next.push_back("profgpu analyze" + paths + " --html report.html");
  return next;
}

JobOptions job_options(const AnalyzeOptions& options) {
  return {options.paths, options.analysis, options.thresholds};
}

// What of a job is left for its page once the report is made.
struct PageSources {
  RankFiles files;
  std::map<int, std::unique_ptr<TraceFacts>> traces;   // that were kept, by rank
  SampleLog samples;
};

// A rank whose trace was kept, or read again.
Result<std::unique_ptr<TraceFacts>> events_of(int rank, PageSources& sources, const CallTimings* timings,
                                              const AnalysisOptions& analysis) {
  std::unique_ptr<TraceFacts>& kept = sources.traces[rank];
  if (!kept) {
    auto trace = sources.files.read(rank);
    if (!trace) return trace.error();
    kept = std::make_unique<TraceFacts>(*std::move(trace), analysis);
  }
  if (timings) kept->facts.provide(*timings);
  return std::move(kept);
}

// Events of the ranks that it shows are in memory at once, and no others.
Result<std::shared_ptr<const PageData>> page_of(const Report& report, PageSources sources,
                                                const AnalyzeOptions& options) {
  std::vector<int> there;
  for (const RankReport& r : report.ranks) there.push_back(r.rank);
  auto shown = page_ranks(there, report, options.page_ranks);
  if (!shown) return shown.error();
  PageInput input;
  std::vector<std::unique_ptr<TraceFacts>> events;
  for (const int rank : *shown) {
    const CallTimings* timings = report.job ? report.job->timings(rank) : nullptr;
    auto of_rank = events_of(rank, sources, timings, options.analysis);
    if (!of_rank) return of_rank.error();
    events.push_back(*std::move(of_rank));
    input.ranks.push_back({rank, &events.back()->facts});
  }
  sources.traces.clear();
  std::set_difference(there.begin(), there.end(), shown->begin(), shown->end(),
                      std::back_inserter(input.without_events));
  if (report.job)
    for (const RankClock& c : report.job->clocks) input.clock_offset_ns[c.rank] = c.offset_ns;
  input.samples = &sources.samples;
  return make_page(input, options.page_steps);
}

// Which ranks the page shows follows from what the report finds.
Result<Report> report_with_page(const AnalyzeOptions& options, Progress& progress) {
  JobOptions job = job_options(options);
  job.most_kept = kPageRanks;
  auto got = read_job(job, Processes(), progress);
  if (!got) return got.error();
  JobRead& read = **got;
  analyse_ranks(read);
  PageSources sources{std::move(read.files), std::move(read.traces), samples_of_ranks(read).log};
  Report report = job_report(std::move(read), options.thresholds);
  progress.stage = "drawing";
  auto page = page_of(report, std::move(sources), options);
  if (!page) return page.error();
  report.page = std::move(*page);
  return report;
}

}  // namespace

Result<std::optional<Report>> make_report(const AnalyzeOptions& options, const Processes& processes,
                                          Progress& progress) {
  std::optional<Report> report;
  if (options.page) {
    auto with_page = report_with_page(options, progress);
    if (!with_page) return with_page.error();
    report = *std::move(with_page);
  } else {
    auto read = read_job(job_options(options), processes, progress);
    if (!read) return read.error();
    if (*read) report = job_report(**std::move(read), options.thresholds);
  }
  if (report) report->next = next_commands(options, *report);
  return report;
}

Result<Report> make_report(const AnalyzeOptions& options, Progress& progress) {
  auto report = make_report(options, Processes(), progress);
  if (!report) return report.error();
  return **std::move(report);
}

}  // namespace profgpu
