#include "cli/run_recording.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/dyn_lib.h"
#include "base/secrets.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/output.h"
#include "devices/system_files.h"
#include "view/json_text.h"
#include "view/wording.h"

namespace profgpu {
namespace {

// Variables that change how GPU programs run. Values of names that suggest secrets are never written, others without
// the secrets in them.
constexpr std::string_view kRecordedPrefixes[] = {
    "CUDA", "NVIDIA_", "NCCL_", "NVTX_", "TORCH", "PYTORCH_", "KINETO_", "OMP_", "MKL_", "SLURM_JOB_", "SLURM_N", "RANK",
    "WORLD_", "LOCAL_", "GROUP_", "MASTER_", "OMPI_COMM_", "UCX_", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHON",
    "CONDA_DEFAULT_ENV", "VIRTUAL_ENV", "PROFGPU_", "TF_", "XLA_", "JAX_", "HIP_", "ROCR_", "HSA_"};
constexpr std::string_view kSecretWords[] = {"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"};

bool is_recorded(std::string_view name) {
  return starts_with_any(name, kRecordedPrefixes) && !contains_any(name, kSecretWords);
}

Value environment_value(std::vector<std::string> variables) {
  std::sort(variables.begin(), variables.end());
  Record out;
  for (const std::string& v : variables)
    if (const size_t equals = v.find('='); is_recorded(v.substr(0, equals)) && equals != v.npos)
      out.add(v.substr(0, equals), masked_member(v.substr(0, equals), v.substr(equals + 1)));
  return out;
}

bool has_file(const std::string& folder, std::string_view ending) {
  const std::vector<std::string> names = folder_names(folder);
  return std::ranges::any_of(names, [&](const std::string& name) { return name.ends_with(ending); });
}
// What the Python hook writes for --torch-steps.
bool has_torch_trace(const std::string& folder) { return has_file(folder, ".pt.trace.json.gz"); }
// What it writes for --memory.
bool has_memory_snapshot(const std::string& folder) { return has_file(folder, ".pickle"); }

// The trace begins with a process's own fourth step.
std::string why_no_torch_trace(const std::vector<RecordedProcess>& processes) {
  int64_t most = 0;
  for (const RecordedProcess& p : processes) most = std::max(most, p.steps);
  const std::string steps = plural(most, "step", "steps");
  if (most > 3)
    return "PyTorch's profiler wrote no trace, although a process had " + steps +
           ": it was killed first, uses the profiler itself, or has no optimizer of PyTorch's";
  return fmt::format("PyTorch's profiler traced no step: it waits for the fourth optimizer step of a process; {} {} seen",
                     steps, most == 1 ? "was" : "were");
}

Value clock_value(const std::optional<HostClock>& clock) {
  if (!clock) return {};
  return Record()
      .add("synchronised", clock->synchronised)
      .add("max_error_ns", clock->max_error_ns)
      .add("estimated_error_ns", clock->estimated_error_ns);
}

}  // namespace

Result<std::unique_ptr<RunRecording>> RunRecording::begin(const TraceOptions& options, const std::string& folder,
                                                          const std::vector<std::string>& command) {
  auto out = std::make_unique<RunRecording>();
  auto parts = find_recording_parts(own_program());
  if (!parts) return parts.error();
  const bool shared = launched_processes() > 1;
  const std::string job = shared ? launched_job() : "";
  if (folder.empty() && shared && job.empty())
    return Error{"several profgpu processes were launched; pass a shared folder with -o",
                 "mpirun -n 8 profgpu run --trace -o FOLDER -- COMMAND"};
  auto taken = take_recording_folder(folder.empty() ? default_recording_folder(command, job) : folder, shared);
  if (!taken) return taken.error();
  out->command_ = command;
  out->options_ = options;
  out->parts_ = std::move(*parts);
  out->folder_ = std::move(*taken);
  out->begun_unix_ns_ = unix_ns();
  out->begun_host_ns_ = monotonic_ns();
  out->begun_clock_ = host_clock();
  out->started_by_launcher_ = shared;
  RecordingRequest& request = out->options_.request;
  request.folder = out->folder_.path;
  out->runs_mpi_ = runs_mpi(command);
  request.preload = request.preload || out->runs_mpi_;   // a program calls MPI by name
  request.run = fmt::format("{}:{}:{}", out->folder_.host, ::getpid(), out->begun_unix_ns_);
  out->environment_ = recording_environment(request, out->parts_, environ);
  return out;
}

Status RunRecording::start(const OpenDevices& open) {
  found_no_device_ = !open.backend && !open.notes.empty();
  for (const uint32_t d : open.devices) devices_.push_back(open.backend->devices()[d]);
  auto host = HostRecording::open(folder_.host_file, folder_.host);
  if (!host) return host.error();
  host_ = std::move(*host);
  if (auto status = write_session(nullptr); !status) return status;
  host_->start(options_.perf_events);
  return ok();
}

void RunRecording::cancel() {
  host_.reset();
  discard(folder_);
}

Status RunRecording::finish(const RunSession& session) {
  host_statistics_ = host_->stop();
  if (const CommandEnd& end = session.last; end.exit_code != 0 && end.signal == 0 && !end.interrupted)
    failure_ = fmt::format("{} ended with exit {}", base_name(command_.front()), end.exit_code);
  summary_ = summary_of_recording(folder_.path,
                                  {options_.request.run, folder_.host, started_by_launcher_, begun_unix_ns_});
  return write_session(&session);
}

RecordedProcess RunRecording::total() const {
  RecordedProcess sum;
  for (const RecordedProcess& p : processes()) {
    sum.kernels += p.kernels, sum.copies += p.copies, sum.ranges += p.ranges, sum.bytes += p.bytes;
    sum.collectives += p.collectives, sum.steps += p.steps, sum.events += p.events, sum.windows += p.windows;
  }
  return sum;
}

bool RunRecording::is_empty() const { return total().events == 0; }

bool RunRecording::has_no_device() const {
  const RecordedProcess sum = total();
  return found_no_device_ && !processes().empty() && sum.kernels == 0 && sum.windows == 0 &&
         std::all_of(processes().begin(), processes().end(), [](const auto& p) { return p.notes.empty(); });
}

Status RunRecording::write_session(const RunSession* session) const {
  utsname system{};
  ::uname(&system);
  std::error_code error;
  const RecordingRequest& request = options_.request;
  List devices;
  for (const DeviceInfo& device : devices_)
    devices.emplace_back(Record()
                             .add("label", device.label())
                             .add("name", device.name)
                             .add("uuid", device.uuid)
                             .add("pci_bus_id", device.pci_bus_id)
                             .add("driver_version", device.driver_version));
  Record d;
  d.add("schema", "profgpu.session.v1").add("command", value_of(masked_words(command_)));
  d.add("working_folder", std::filesystem::current_path(error).string());
  d.add("host", folder_.host).add("pid", int64_t{::getpid()});
  d.add("begun_unix_ns", begun_unix_ns_).add("begun_monotonic_ns", begun_host_ns_);
  d.add("ended_unix_ns", only_if(session != nullptr, unix_ns()));
  d.add("clock", Record()
                     .add("start", clock_value(begun_clock_))
                     .add("end", clock_value(session ? host_clock() : std::nullopt)));
  d.add("exit_code", session ? Value(session->last.exit_code) : Value());
  d.add("signal", session && session->last.signal != 0 ? Value(session->last.signal) : Value());
  d.add("options", request.options).add("python_hook", request.python_hook && !parts_.python_hook.empty());
  d.add("preload", request.preload).add("version", kVersion).add("library", parts_.library);
  d.add("kernel", system.release).add("processors", size_t{std::thread::hardware_concurrency()});
  d.add("devices", std::move(devices)).add("environment", environment_value(environment_.variables));
  d.add("problems", session ? value_of(problems()) : Value());
  return write_file(folder_.session, json_document(d));
}

std::vector<std::string> RunRecording::problems() const {
  std::vector<std::string> out = environment_.notes;
  std::vector<std::pair<std::string, int64_t>> notes;  // in their order, with the number of processes that have each
  std::map<std::string, int64_t> dropped;
  int64_t cut = 0;
  for (const RecordedProcess& p : processes()) {
    for (const std::string& text : p.notes) {
      auto it = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == text; });
      if (it == notes.end()) it = notes.insert(it, {text, 0});
      ++it->second;
    }
    for (const auto& [reason, rows] : p.dropped) dropped[reason] += rows;
    cut += p.ended ? 0 : 1;
  }
  for (const auto& [text, count] : notes)
    out.push_back(count == 1 ? text : fmt::format("{} (in {} processes)", text, count));
  for (const auto& [reason, rows] : dropped)
    out.push_back(fmt::format("{} missing: {}", plural(rows, "row is", "rows are"), reason));
  for (const std::string& path : summary_.unreadable) out.push_back(path + ": not a readable recording");
  if (cut > 0)
    out.push_back(plural(cut, "process", "processes") +
                  " did not end cleanly or still run: their last moments may be missing");
  if (!host_statistics_.problem.empty()) out.push_back(host_statistics_.problem);
  if (const int steps = options_.request.torch_steps; steps > 0 && !has_torch_trace(folder_.path))
    out.push_back(why_no_torch_trace(processes()));
  if (options_.request.memory && !has_memory_snapshot(folder_.path))
    out.emplace_back("no memory snapshot was written: its history begins when a program first uses a GPU through PyTorch");
  if (host_statistics_.left_out > 0)
    out.push_back(fmt::format("{} not sampled: the limit is {} at a time",
                              plural(static_cast<int64_t>(host_statistics_.left_out), "thread was", "threads were"),
                              format_count(ThreadWatch::kMaxThreads)));
  const RecordedProcess sum = total();
  if (failed_early())
    out.push_back(failure_ + " before anything was recorded: fix that first");
  else if (processes().empty())
    out.emplace_back(
        "no process was recorded: either none used CUDA, NVTX, NCCL, MPI or PyTorch, or the environment did not reach it "
        "(sudo, ssh, docker, srun --export=NONE, python -E)");
  else if (runs_mpi_ && sum.kernels == 0 && sum.collectives > 0)
    return out;   // of the host alone, as MPI programs are
  else if (has_no_device())
    out.emplace_back("no kernel was recorded: no GPU was found here (run `profgpu doctor` for details)");
  else if (sum.kernels == 0 && sum.windows == 0 && !options_.window.empty() && notes.empty())
    out.push_back(fmt::format("GPU activity was never recorded: {} never applied; {} seen", options_.window,
                              plural(sum.steps, "step was", "steps were")));
  else if (sum.kernels == 0 && notes.empty())
    out.emplace_back("no kernel was recorded: no process used CUDA");
  return out;
}

Record RunRecording::document() const {
  Table table{{"pid", "rank", "kernels", "copies", "calls", "ranges", "collectives", "steps", "bytes", "ended", "file"},
              {}};
  for (const RecordedProcess& p : processes())
    table.rows.push_back({p.pid, only_if(p.rank >= 0, p.rank), p.kernels, p.copies, p.calls, p.ranges, p.collectives,
                          p.steps, p.bytes, p.ended, p.path.substr(p.path.rfind('/') + 1)});
  const RecordedProcess sum = total();
  const HostRecording::Statistics& host = host_statistics_;
  Record d;
  d.add("folder", folder_.path).add("options", options_.request.options).add("session", folder_.session);
  d.add("kernels", sum.kernels).add("copies", sum.copies).add("ranges", sum.ranges);
  d.add("collectives", sum.collectives).add("steps", sum.steps).add("bytes", sum.bytes);
  d.add("processes", std::move(table));
  d.add("host_samples", Record()
                            .add("samples", host.samples)
                            .add("threads", host.threads)
                            .add("cpu_ns", host.cpu_ns)
                            .add("interval_ns", host.interval_ns)
                            .add("switches", host.no_switches.empty() ? "recorded" : host.no_switches)
                            .add("waits", host.waits)
                            .add("lost_switches", host.lost_switches));
  return d.add("problems", value_of(problems()));
}

}  // namespace profgpu
