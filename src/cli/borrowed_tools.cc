#include "cli/borrowed_tools.h"

#include <algorithm>

namespace profgpu {

const std::vector<BorrowedCommand>& borrowed_commands() {
  static const std::vector<BorrowedCommand> kAll = {
      {"nvidia-smi", "dmon", {"log"}, true},
      {"nvidia-smi", "pmon", {"stat", "--full", "--watch", "1"}, true},
      {"nvidia-smi", "topo", {"devices"}, true},
      {"nvidia-smi", "nvlink", {"devices"}, true},
      {"nvidia-smi", "-L", {"devices"}, true},
      {"nvidia-smi", "--list-gpus", {"devices"}, true},
      {"nvidia-smi", "-q", {"devices"}},
      {"nvidia-smi", "", {"stat"}},
      {"gpustat", "", {"stat"}},
      {"nvitop", "", {"top"}},
      {"nvtop", "", {"top"}},
      {"rocm-smi", "--showtopo", {"devices"}},
      {"rocm-smi", "--showid", {"devices"}},
      {"rocm-smi", "-i", {"devices"}},
      {"rocm-smi", "--showproductname", {"devices"}},
      {"rocm-smi", "--showuniqueid", {"devices"}},
      {"rocm-smi", "--showbus", {"devices"}},
      {"rocm-smi", "--showhw", {"devices"}},
      {"rocm-smi", "", {"stat"}},
      {"amd-smi", "list", {"devices"}},
      {"amd-smi", "static", {"devices"}},
      {"amd-smi", "topology", {"devices"}},
      {"amd-smi", "monitor", {"log"}},
      {"amd-smi", "metric", {"stat"}},
      {"amd-smi", "", {"stat"}},
      {"nsys", "profile", {"run", "--trace"}, true},
      {"nsys", "launch", {"run", "--trace", "--capture-range", "attach"}, false,
       "`profgpu attach PID start` and `profgpu attach PID stop` begin and end the recording"},
      {"nsys", "start", {"attach"}, false,
       "`profgpu attach PID start` begins to record a program that `profgpu run --trace --capture-range attach` runs"},
      {"nsys", "stop", {"attach"}, false, "`profgpu attach PID stop` ends the recording; the program runs on"},
      {"nsys", "cancel", {"attach"}, false, "`profgpu attach PID stop` ends the recording; the program runs on"},
      {"nsys", "shutdown", {"attach"}, false, "`profgpu attach PID stop` ends the recording; the program runs on"},
      {"nsys", "sessions", {"attach"}, false, "sessions have no names: `profgpu attach PID` shows a program's recording"},
      {"nsys", "status", {"doctor"}},
      {"nsys", "stats", {"analyze"}, true},
      {"nsys", "analyze", {"analyze"}},
      {"nsys", "export", {"export"}},
      {"nsys-ui", "", {"analyze"}},
      {"tensorboard", "", {"analyze"}},
      {"rocprofv3", "", {"run", "--trace"}},
      {"dcgmi", "dmon", {"log"}},
      {"dcgmi", "discovery", {"devices"}},
      {"dcgmi", "health", {"doctor"}},
      {"dcgmi", "diag", {"doctor"}},
      {"dcgm-exporter", "", {"exporter"}},
      {"py-spy", "record", {"run", "--trace"}, true},   // perf's, too
      {"py-spy", "top", {"top"}},
      {"py-spy", "dump", {}, false, "profgpu prints no stacks of a process"},
      {"", "trace", {"run", "--trace"}, true},
  };
  return kAll;
}

namespace {

constexpr std::string_view kAllEvents = "a recording has all kinds of events";
constexpr std::string_view kScreenDecides = "the layout follows the screen's size";
constexpr std::string_view kFieldsByName = "--query chooses fields, by name";
constexpr std::string_view kLineOfPython = "samples have their line of Python";
constexpr std::string_view kNoHostEngine = "the driver is read directly, without DCGM's host engine",
                           kNoDcgm = "the driver is read directly, without DCGM",
                           kOnlyGpus = "only GPUs are shown, no switches and no CPUs",
                           kFieldsFromFile = "--collectors FILE chooses the fields",
                           kXidsSinceStart = "Xid errors are counted since the start",
                           kNewNamespace = "metrics have the names of the 2.0 namespace and later; --dcgm-names chooses them";

constexpr BorrowedFlag kBorrowedFlags[] = {
    {"", "--no-color", Takes::kNone, "--color never"},
    {"", "--no-colour", Takes::kNone, "--color never"},
    {"", "--colour", Takes::kNext, "--color {}"},
    {"", "--force-color", Takes::kNone, "--color always"},
    {"export", "--format", Takes::kNext, "--to {}"},
    // nvidia-smi
    {"log", "-l", Takes::kNumber, "--interval {}", "", "5"},
    {"log", "--loop", Takes::kNumber, "--interval {}", "", "5"},
    {"log", "-lms", Takes::kNext, "--interval {}ms"},
    {"log", "--loop-ms", Takes::kNext, "--interval {}ms"},
    {"log", "--query-gpu", Takes::kNext, "--query {}"},
    {"log", "--help-query-gpu", Takes::kNone, "--help-query"},
    {"log", "--id", Takes::kNext, "--device {}"},
    {"log", "--format", Takes::kList, "{}"},
    {"log", "-t", Takes::kNone, "", "it has no effect on a log"},
    {"log", "-e", Takes::kNext, "", kFieldsByName},
    {"analyze", "--logdir", Takes::kNext, "{}"},
    {"log", "-f", Takes::kNext, "--output {}"},
    {"log", "--filename", Takes::kNext, "--output {}"},
    {"devices", "-m", Takes::kNone, "", "the matrix of links is always shown"},
    // gpustat
    {"stat", "-i", Takes::kNumber, "--watch {}"},
    {"stat", "--interval", Takes::kNumber, "--watch {}"},
    {"stat", "-l", Takes::kNumber, "--watch {}", "", "5"},
    {"stat", "--loop", Takes::kNumber, "--watch {}", "", "5"},
    {"stat", "--id", Takes::kNext, "--device {}"},
    {"stat", "--show-all", Takes::kNone, "--all"},
    // nvitop
    {"top", "-m", Takes::kNext, "", kScreenDecides},
    {"top", "--monitor", Takes::kNext, "", kScreenDecides},
    {"top", "-1", Takes::kNone, "--once"},
    {"top", "-l", Takes::kNumber, "--interval {}", "", "5"},
    {"top", "--loop", Takes::kNumber, "--interval {}", "", "5"},
    {"top", "--pid", Takes::kNext, "--filter {}", "--filter shows processes with this text in pid, user or command"},
    {"attach", "--pid", Takes::kNext, "{}"},
    // nsys
    {"run", "--trace", Takes::kAttached, "--trace", kAllEvents},
    {"run", "--trace", Takes::kKinds, "--trace", kAllEvents},
    {"run", "-t", Takes::kNext, "--trace", kAllEvents},
    {"run", "-c", Takes::kNext, "--capture-range {}"},
    {"run", "--capture-range-end", Takes::kNext, "", "recording stops at each cudaProfilerStop, and the program runs on"},
    {"run", "--cuda-graph-trace", Takes::kNext, "--graphs {}"},
    {"run", "-y", Takes::kNext, "--delay {}"},
    {"run", "-d", Takes::kNext, "--duration {}"},
    {"run", "--gpu-metrics-device", Takes::kNext, "--device {}"},
    {"run", "--gpu-metrics-devices", Takes::kNext, "--device {}"},
    {"run", "--force-overwrite", Takes::kNext, "", "a folder that holds a recording is never overwritten"},
    {"run", "-w", Takes::kNext, "", "the program's output is always shown"},
    {"run", "--stats", Takes::kNext, "", "`profgpu analyze` shows the statistics"},
    {"run", "-s", Takes::kNext, "", "threads are always sampled"},
    {"run", "--sample", Takes::kNext, "", "threads are always sampled"},
    {"run", "--cpuctxsw", Takes::kNext, "", "context switches are recorded where the kernel allows it"},
    {"run", "--backtrace", Takes::kNext, "", kLineOfPython},
    {"run", "--cudabacktrace", Takes::kNext, "", kLineOfPython},
    {"run", "--python-sampling", Takes::kNext, "", "the training loop's Python stack is always sampled"},
    {"run", "--cuda-memory-usage", Takes::kNext, "", "allocations of CUDA are always recorded"},
    {"run", "--trace-fork-before-exec", Takes::kNext, "", "all child processes are recorded"},
    {"run", "--show-output", Takes::kNext, "", "the program's output is always shown"},
    {"run", "--export", Takes::kNext, "", "`profgpu export` writes other formats"},
    // dcgm-exporter
    {"exporter", "-a", Takes::kNext, "--listen {}"},
    {"exporter", "--address", Takes::kNext, "--listen {}"},
    {"exporter", "-c", Takes::kNext, "--interval {}ms"},
    {"exporter", "--collect-interval", Takes::kNext, "--interval {}ms"},
    {"exporter", "-d", Takes::kGpus},
    {"exporter", "--devices", Takes::kGpus},
    {"exporter", "-n", Takes::kNone, "--no-hostname"},
    {"exporter", "--web-config-file", Takes::kNext, "--web.config.file {}"},
    {"exporter", "-r", Takes::kNext, "", kNoHostEngine},
    {"exporter", "--remote-hostengine-info", Takes::kNext, "", kNoHostEngine},
    {"exporter", "-s", Takes::kNext, "", kOnlyGpus},
    {"exporter", "--switch-devices", Takes::kNext, "", kOnlyGpus},
    {"exporter", "-p", Takes::kNext, "", kOnlyGpus},
    {"exporter", "--cpu-devices", Takes::kNext, "", kOnlyGpus},
    {"exporter", "-m", Takes::kNext, "", kFieldsFromFile},
    {"exporter", "--configmap-data", Takes::kNext, "", kFieldsFromFile},
    {"exporter", "-x", Takes::kNext, "", kXidsSinceStart},
    {"exporter", "--xid-count-window-size", Takes::kNext, "", kXidsSinceStart},
    {"exporter", "-o", Takes::kNone, "", kNewNamespace},
    {"exporter", "--use-old-namespace", Takes::kNone, "", kNewNamespace},
    {"exporter", "--enable-dcgm-log", Takes::kNone, "", kNoDcgm},
    {"exporter", "--dcgm-log-level", Takes::kNext, "", kNoDcgm},
};

// nvidia-smi dmon's letters of -s, with its columns of each.
constexpr std::pair<char, std::string_view> kMonitored[] = {
    {'p', "power_w,temperature_c,memory_temperature_c"},
    {'u', "utilization_pct,memory_utilization_pct,encoder_utilization_pct,decoder_utilization_pct,jpeg_utilization_pct,"
          "ofa_utilization_pct"},
    {'c', "memory_clock_mhz,sm_clock_mhz"},
    {'v', "throttle_power_pct,throttle_thermal_pct"},
    {'m', "memory_used_bytes,bar1_used_bytes"},
    {'e', "ecc_corrected_errors,ecc_uncorrected_errors,pcie_replays"},
    {'t', "pcie_rx_bytes_per_second,pcie_tx_bytes_per_second"},
};

constexpr BorrowedFlag kMonitorFlags[] = {
    {"", "-d", Takes::kNext, "--interval {}"}, {"", "--delay", Takes::kNext, "--interval {}"},
    {"", "-c", Takes::kNext, "--count {}"},    {"", "-i", Takes::kNext, "--device {}"},
    {"", "--id", Takes::kNext, "--device {}"}, {"", "-f", Takes::kNext, "--output {}"},
    {"", "-o", Takes::kNext, "--timestamps iso"}, {"", "-s", Takes::kNext, "{}"},
    {"", "--select", Takes::kNext, "{}"},
};

// Options that mean something else to this tool than to others. Those of nvidia-smi for what `profgpu stat` shows.
constexpr BorrowedFlag kSmiFlags[] = {
    {"stat", "-i", Takes::kNext, "--device {}"},
    {"stat", "-lms", Takes::kNext, "--watch {}ms"},
    {"stat", "--loop-ms", Takes::kNext, "--watch {}ms"},
    {"devices", "-s", Takes::kNone, "", "links between GPUs are shown where there are any"},
    {"devices", "--status", Takes::kNone, "", "links between GPUs are shown where there are any"},
    {"devices", "-e", Takes::kNone, "", "`profgpu doctor` reports errors of links"},
    {"devices", "-i", Takes::kNext, "--device {}"},
    {"devices", "-d", Takes::kNext, "", "everything is shown"},
    {"devices", "--display", Takes::kNext, "", "everything is shown"},
    {"devices", "-x", Takes::kNone, "--json"},
    {"devices", "--xml-format", Takes::kNone, "--json"},
    {"stat", "--query-compute-apps", Takes::kNext, "--full"},
    {"stat", "--query-accounted-apps", Takes::kNext, "--full"},
    {"stat", "--format", Takes::kNext, "", "`profgpu log --query` writes CSV, `profgpu stat --json` JSON"},
};
constexpr BorrowedFlag kGpustatFlags[] = {
    {"stat", "--json", Takes::kNone, "--format gpustat-json"},
    {"stat", "--watch", Takes::kNumber, "--watch {}"},
    {"stat", "--color", Takes::kOptional, "--color {}", "", "always"},
    {"stat", "--show-cmd", Takes::kNone, "--cmd"},
    {"stat", "--show-user", Takes::kNone, "--user"},
    {"stat", "--show-pid", Takes::kNone, "--pid"},
    {"stat", "--show-fan", Takes::kNone, "--fan"},
    {"stat", "--show-fan-speed", Takes::kNone, "--fan"},
    {"stat", "--show-full-cmd", Takes::kNone, "--full"},
    {"stat", "-e", Takes::kOptional, "--codec"},
    {"stat", "--show-codec", Takes::kOptional, "--codec"},
    {"stat", "-P", Takes::kOptional, "--power"},
    {"stat", "--show-power", Takes::kOptional, "--power"},
    {"stat", "--gpuname-width", Takes::kNext, "", "names have the width that they need"},
    {"stat", "--debug", Takes::kNone, "", "`profgpu doctor` lists why a GPU cannot be read"},
};
constexpr std::string_view kTerminalsColours = "colors are the terminal's own";
constexpr BorrowedFlag kNvitopFlags[] = {
    {"top", "-o", Takes::kNext, "--device {}"},
    {"top", "--only", Takes::kNext, "--device {}"},
    {"top", "-a", Takes::kNone, "", kScreenDecides},
    {"top", "--auto", Takes::kNone, "", kScreenDecides},
    {"top", "-f", Takes::kNone, "", kScreenDecides},
    {"top", "--full", Takes::kNone, "", kScreenDecides},
    {"top", "-c", Takes::kNone, "", kScreenDecides},
    {"top", "--compact", Takes::kNone, "", kScreenDecides},
    {"top", "-ov", Takes::kNone, "", "without --device, top shows what CUDA_VISIBLE_DEVICES leaves"},
    {"top", "-u", Takes::kNext, "--filter {}"},
    {"top", "--user", Takes::kNext, "--filter {}"},
    {"top", "-p", Takes::kNext, "--filter {}"},
    {"top", "--ascii", Takes::kNone, "", "LC_ALL=C draws in ASCII"},
    {"top", "-U", Takes::kNone, "", "LC_ALL=C draws in ASCII"},
    {"top", "--colorful", Takes::kNone, "", kTerminalsColours},
    {"top", "--light", Takes::kNone, "", kTerminalsColours},
};
constexpr BorrowedFlag kDcgmFlags[] = {
    {"doctor", "-r", Takes::kNext, "", "doctor only reads; `profgpu bench burn` puts load on the GPUs"},
    {"doctor", "-c", Takes::kNone, "", "everything is checked"},
    {"devices", "-l", Takes::kNone, "", "all are listed"},
    {"log", "-e", Takes::kNext, "{}"},
    {"log", "--field-id", Takes::kNext, "{}"},
    {"log", "-d", Takes::kNext, "--interval {}ms"},
    {"log", "--delay", Takes::kNext, "--interval {}ms"},
    {"log", "-f", Takes::kNext, "", kFieldsByName},
    {"log", "--field-group-id", Takes::kNext, "", kFieldsByName},
    {"log", "-g", Takes::kNext, "", "--device chooses GPUs"},
    {"log", "--group-id", Takes::kNext, "", "--device chooses GPUs"},
    {"log", "-l", Takes::kNone, "--help-query"},
    {"log", "--list", Takes::kNone, "--help-query"},
};

// Ids of dcgm_fields.h that `dcgmi dmon -e` takes.
constexpr std::pair<int64_t, std::string_view> kDcgmFields[] = {
    {100, "sm_clock_mhz"},         {101, "memory_clock_mhz"},        {102, "video_clock_mhz"},
    {140, "memory_temperature_c"}, {150, "temperature_c"},           {155, "power_w"},
    {156, "energy_j"},             {190, "performance_state"},       {191, "fan_speed_pct"},
    {202, "pcie_replays"},         {203, "utilization_pct"},         {204, "memory_utilization_pct"},
    {206, "encoder_utilization_pct"}, {207, "decoder_utilization_pct"}, {250, "memory_total_bytes"},
    {251, "memory_free_bytes"},    {252, "memory_used_bytes"},       {1001, "graphics_active_pct"},
    {1002, "sm_active_pct"},       {1003, "sm_occupancy_pct"},       {1004, "tensor_active_pct"},
    {1005, "dram_active_pct"},     {1006, "fp64_active_pct"},        {1007, "fp32_active_pct"},
    {1008, "fp16_active_pct"},     {1009, "pcie_tx_bytes_per_second"}, {1010, "pcie_rx_bytes_per_second"},
};
constexpr std::string_view kUse = "use is always shown", kMemory = "memory is always shown",
                           kTemperatures = "temperature is always shown", kPowers = "power is always shown",
                           kClocks = "`profgpu log --query sm_clock_mhz,memory_clock_mhz` shows clocks",
                           kOtherFigures = "`profgpu log --help-query` lists what else can be shown",
                           kOfDevices = "`profgpu devices` shows names, numbers and links",
                           kAllOfDevices = "everything is shown";
constexpr BorrowedFlag kRocmFlags[] = {
    {"stat", "-d", Takes::kNext, "--device {}"},
    {"stat", "-u", Takes::kNone, "", kUse},
    {"stat", "--showuse", Takes::kNone, "", kUse},
    {"stat", "--showmemuse", Takes::kNone, "", kMemory},
    {"stat", "--showmeminfo", Takes::kNext, "", kMemory},
    {"stat", "-t", Takes::kNone, "", kTemperatures},
    {"stat", "--showtemp", Takes::kNone, "", kTemperatures},
    {"stat", "-P", Takes::kNone, "", kPowers},
    {"stat", "--showpower", Takes::kNone, "", kPowers},
    {"stat", "--showpids", Takes::kOptional, "", "processes are always shown"},
    {"stat", "-f", Takes::kNone, "--fan"},
    {"stat", "--showfan", Takes::kNone, "--fan"},
    {"stat", "-c", Takes::kNone, "", kClocks},
    {"stat", "--showclocks", Takes::kNone, "", kClocks},
    {"stat", "-g", Takes::kNone, "", kClocks},
    {"stat", "--showgpuclocks", Takes::kNone, "", kClocks},
    {"stat", "-s", Takes::kNone, "", kClocks},
    {"stat", "--showclkfrq", Takes::kNone, "", kClocks},
    {"stat", "-p", Takes::kNone, "", kOtherFigures},
    {"stat", "--showperflevel", Takes::kNone, "", kOtherFigures},
    {"stat", "-b", Takes::kNone, "", kOtherFigures},
    {"stat", "--showbw", Takes::kNone, "", kOtherFigures},
    {"stat", "-M", Takes::kNone, "", kOtherFigures},
    {"stat", "--showmaxpower", Takes::kNone, "", kOtherFigures},
    {"stat", "--showvoltage", Takes::kNone, "", kOtherFigures},
    {"stat", "-i", Takes::kNone, "", kOfDevices},
    {"stat", "--showid", Takes::kNone, "", kOfDevices},
    {"stat", "--showproductname", Takes::kNone, "", kOfDevices},
    {"stat", "--showuniqueid", Takes::kNone, "", kOfDevices},
    {"stat", "--showbus", Takes::kNone, "", kOfDevices},
    {"stat", "--showdriverversion", Takes::kNone, "", kOfDevices},
    {"stat", "-a", Takes::kNone, "--full"},
    {"stat", "--showallinfo", Takes::kNone, "--full"},
    {"stat", "--alldevices", Takes::kNone, "", "all are shown"},
    {"stat", "--csv", Takes::kNone, "", "`profgpu log` writes CSV"},
    {"devices", "-d", Takes::kNext, "--device {}"},
    {"devices", "-i", Takes::kNone, "", kAllOfDevices},
    {"devices", "--showid", Takes::kNone, "", kAllOfDevices},
    {"devices", "--showproductname", Takes::kNone, "", kAllOfDevices},
    {"devices", "--showuniqueid", Takes::kNone, "", kAllOfDevices},
    {"devices", "--showbus", Takes::kNone, "", kAllOfDevices},
    {"devices", "--showhw", Takes::kNone, "", kAllOfDevices},
    {"devices", "--showtopo", Takes::kNone, "", kAllOfDevices},
    {"devices", "--showdriverversion", Takes::kNone, "", kAllOfDevices},
};
constexpr BorrowedFlag kAmdFlags[] = {
    {"stat", "-g", Takes::kNext, "--device {}"},
    {"stat", "--gpu", Takes::kNext, "--device {}"},
    {"stat", "-w", Takes::kNext, "--watch {}"},
    {"stat", "-i", Takes::kNext, "--count {}"},
    {"stat", "--iterations", Takes::kNext, "--count {}"},
    {"stat", "-u", Takes::kNone, "", kUse},
    {"stat", "--usage", Takes::kNone, "", kUse},
    {"stat", "-m", Takes::kNone, "", kMemory},
    {"stat", "--mem-usage", Takes::kNone, "", kMemory},
    {"stat", "-t", Takes::kNone, "", kTemperatures},
    {"stat", "--temperature", Takes::kNone, "", kTemperatures},
    {"stat", "-p", Takes::kNone, "", kPowers},
    {"stat", "--power", Takes::kNone, "", kPowers},
    {"stat", "-f", Takes::kNone, "--fan"},
    {"stat", "-c", Takes::kNone, "", kClocks},
    {"stat", "--clock", Takes::kNone, "", kClocks},
    {"stat", "-P", Takes::kNone, "", kOtherFigures},
    {"stat", "--pcie", Takes::kNone, "", kOtherFigures},
    {"stat", "-e", Takes::kNone, "", "`profgpu doctor` reports errors of memory"},
    {"stat", "--ecc", Takes::kNone, "", "`profgpu doctor` reports errors of memory"},
    {"stat", "--csv", Takes::kNone, "", "`profgpu log` writes CSV"},
    {"devices", "-g", Takes::kNext, "--device {}"},
    {"devices", "--gpu", Takes::kNext, "--device {}"},
    {"devices", "-a", Takes::kNone, "", kAllOfDevices},
    {"devices", "--asic", Takes::kNone, "", kAllOfDevices},
    {"devices", "-b", Takes::kNone, "", kAllOfDevices},
    {"devices", "--bus", Takes::kNone, "", kAllOfDevices},
    {"devices", "-d", Takes::kNone, "", kAllOfDevices},
    {"devices", "--driver", Takes::kNone, "", kAllOfDevices},
    {"devices", "-v", Takes::kNone, "", kAllOfDevices},
    {"devices", "--vram", Takes::kNone, "", kAllOfDevices},
    {"log", "-g", Takes::kNext, "--device {}"},
    {"log", "--gpu", Takes::kNext, "--device {}"},
    {"log", "-w", Takes::kNext, "--interval {}"},
    {"log", "--watch", Takes::kNext, "--interval {}"},
    {"log", "-W", Takes::kNext, "--duration {}"},
    {"log", "--watch_time", Takes::kNext, "--duration {}"},
    {"log", "-i", Takes::kNext, "--count {}"},
    {"log", "--iterations", Takes::kNext, "--count {}"},
    {"log", "--csv", Takes::kNone, "--format csv"},
    {"log", "--json", Takes::kNone, "--format json"},
    {"log", "-p", Takes::kNone, "", kFieldsByName},
    {"log", "-t", Takes::kNone, "", kFieldsByName},
    {"log", "-u", Takes::kNone, "", kFieldsByName},
    {"log", "-m", Takes::kNone, "", kFieldsByName},
    {"log", "-v", Takes::kNone, "", kFieldsByName},
    {"log", "-e", Takes::kNone, "", kFieldsByName},
    {"log", "-r", Takes::kNone, "", kFieldsByName},
};
constexpr std::string_view kOwnNames = "its files have names of their own; rocprofv3's -d names the folder";
constexpr std::string_view kOneFolder = "a recording is a folder, named by -o";
constexpr BorrowedFlag kRocprofFlags[] = {
    {"run", "--sys-trace", Takes::kNone, "", kAllEvents},
    {"run", "--runtime-trace", Takes::kNone, "", kAllEvents},
    {"run", "--hip-trace", Takes::kNone, "", kAllEvents},
    {"run", "--hip-runtime-trace", Takes::kNone, "", kAllEvents},
    {"run", "--hsa-trace", Takes::kNone, "", kAllEvents},
    {"run", "--kernel-trace", Takes::kNone, "", kAllEvents},
    {"run", "--memory-copy-trace", Takes::kNone, "", kAllEvents},
    {"run", "--marker-trace", Takes::kNone, "", kAllEvents},
    {"run", "--rccl-trace", Takes::kNone, "", kAllEvents},
    {"run", "--scratch-memory-trace", Takes::kNone, "", kAllEvents},
    {"run", "-s", Takes::kNone, "", kAllEvents},
    {"run", "-r", Takes::kNone, "", kAllEvents},
    {"run", "--stats", Takes::kNone, "", "`profgpu analyze` shows the statistics"},
    {"run", "-d", Takes::kNext, "-o {}", kOneFolder},
    {"run", "--output-directory", Takes::kNext, "-o {}", kOneFolder},
    {"run", "-o", Takes::kNext, "", kOwnNames},
    {"run", "--output-file", Takes::kNext, "", kOwnNames},
    {"run", "-f", Takes::kNext, "", "`profgpu export` writes other formats"},
    {"run", "--output-format", Takes::kNext, "", "`profgpu export` writes other formats"},
};
constexpr std::string_view kFlameGraphs = "`profgpu export` writes flame graphs and speedscope profiles of a recording";
constexpr BorrowedFlag kSpyFlags[] = {
    {"run", "-o", Takes::kNext, "-o {}", "a recording is a folder; `profgpu export` writes flame graphs of it"},
    {"run", "--output", Takes::kNext, "-o {}", "a recording is a folder; `profgpu export` writes flame graphs of it"},
    {"run", "-i", Takes::kNone, "", "threads that wait are sampled, too"},
    {"run", "--idle", Takes::kNone, "", "threads that wait are sampled, too"},
    {"run", "-g", Takes::kNone, "", "threads are sampled with the GIL and without"},
    {"run", "--gil", Takes::kNone, "", "threads are sampled with the GIL and without"},
    {"attach", "-o", Takes::kNext, "-o {}", "traces go into a folder; `profgpu export` writes flame graphs of them"},
    {"attach", "--output", Takes::kNext, "-o {}", "traces go into a folder; `profgpu export` writes flame graphs of them"},
    {"run", "-r", Takes::kNext, "", "--python-stacks TIME sets the time between samples"},
    {"run", "--rate", Takes::kNext, "", "--python-stacks TIME sets the time between samples"},
    {"run", "-f", Takes::kNext, "", kFlameGraphs},
    {"run", "--format", Takes::kNext, "", kFlameGraphs},
    {"run", "-s", Takes::kNone, "", "all child processes are recorded"},
    {"run", "--subprocesses", Takes::kNone, "", "all child processes are recorded"},
    {"run", "-n", Takes::kNone, "", "calls of CUDA are recorded, native stacks are not"},
    {"run", "--native", Takes::kNone, "", "calls of CUDA are recorded, native stacks are not"},
    {"run", "-t", Takes::kNone, "", "threads are always sampled"},
    {"run", "--threads", Takes::kNone, "", "threads are always sampled"},
    {"attach", "-p", Takes::kNext, "{}"},
    {"attach", "-d", Takes::kNext, "--duration {}"},
    {"attach", "-r", Takes::kNext, "", "a trace has every call, not samples"},
    {"attach", "--rate", Takes::kNext, "", "a trace has every call, not samples"},
    {"attach", "-f", Takes::kNext, "", "`profgpu export` writes flame graphs and speedscope profiles of a trace"},
    {"attach", "--format", Takes::kNext, "", "`profgpu export` writes flame graphs and speedscope profiles of a trace"},
};
constexpr std::string_view kStacks = "threads are always sampled", kOneSession = "one recording needs no session's name",
                           kOwnMetrics = "the same metrics are always sampled; --interval sets the time between samples";
constexpr BorrowedFlag kNsysFlags[] = {
    {"run", "--trace", Takes::kNext, "--trace", kAllEvents},
    {"run", "-t", Takes::kNext, "--trace", kAllEvents},
    {"run", "-c", Takes::kNext, "--capture-range {}"},
    {"run", "--capture-range", Takes::kNext, "--capture-range {}"},
    {"run", "-p", Takes::kNext, "--range {}"},
    {"run", "--nvtx-capture", Takes::kNext, "--range {}"},
    {"run", "-Y", Takes::kNext, "--capture-range attach"},
    {"run", "--start-later", Takes::kNext, "--capture-range attach"},
    {"run", "-e", Takes::kVariables},
    {"run", "--env-var", Takes::kVariables},
    {"run", "--cuda-flush-interval", Takes::kNext, "--flush {}ms"},
    {"run", "-x", Takes::kNext, "", "a recording ends with its program"},
    {"run", "--stop-on-exit", Takes::kNext, "", "a recording ends with its program"},
    {"run", "--kill", Takes::kNext, "", "the program runs on when the recording stops"},
    {"run", "--wait", Takes::kNext, "", "the command ends with the program that it started"},
    {"run", "-f", Takes::kNext, "", "a folder that holds a recording is never overwritten"},
    {"run", "-n", Takes::kNext, "", "the program has the same environment"},
    {"run", "--inherit-environment", Takes::kNext, "", "the program has the same environment"},
    {"run", "-b", Takes::kNext, "", kLineOfPython},
    {"run", "--python-backtrace", Takes::kNext, "", kLineOfPython},
    {"run", "--python-functions-trace", Takes::kNext, "", "--python-stacks samples the training loop's functions"},
    {"run", "--pytorch", Takes::kNext, "", "--torch-steps N records operators with PyTorch's own profiler"},
    {"run", "--gpu-metrics-set", Takes::kNext, "", kOwnMetrics},
    {"run", "--gpu-metrics-frequency", Takes::kNext, "", kOwnMetrics},
    {"run", "--osrt-threshold", Takes::kNext, "", kStacks},
    {"run", "--osrt-backtrace-threshold", Takes::kNext, "", kStacks},
    {"run", "--sampling-period", Takes::kNext, "", kStacks},
    {"run", "--sampling-frequency", Takes::kNext, "", kStacks},
    {"run", "--samples-per-backtrace", Takes::kNext, "", kStacks},
    {"run", "--process-scope", Takes::kNext, "", kStacks},
    {"run", "--mpi-impl", Takes::kNext, "", "the implementation of MPI is found at run time"},
    {"run", "--session", Takes::kNext, "", kOneSession},
    {"run", "--session-new", Takes::kNext, "", kOneSession},
    {"doctor", "-e", Takes::kNone, "", "everything is checked"},
    {"doctor", "--environment", Takes::kNone, "", "everything is checked"},
    {"export", "--type", Takes::kNext, "--to {}"},
    {"export", "-t", Takes::kNext, "--to {}"},
    {"analyze", "--report", Takes::kNext, "", "--section NAME shows one table: kernels, copies, api_calls, ops …"},
    {"analyze", "-r", Takes::kNext, "", "--section NAME shows one table: kernels, copies, api_calls, ops …"},
};
constexpr BorrowedFlag kProcessFlags[] = {   // nvidia-smi pmon's
    {"stat", "-d", Takes::kNext, "--watch {}"},
    {"stat", "-c", Takes::kNext, "--count {}"},
    {"stat", "-i", Takes::kNext, "--device {}"},
    {"stat", "-s", Takes::kNext, "", "all of it is shown"},
    {"stat", "-o", Takes::kNext, "", "the time is always shown"},
};

}  // namespace

std::span<const BorrowedFlag> borrowed_flags() { return kBorrowedFlags; }
std::span<const BorrowedFlag> monitor_flags() { return kMonitorFlags; }

std::span<const BorrowedFlag> flags_of_tool(const BorrowedCommand& command) {
  const std::string_view tool = command.tool;
  if (command.theirs == "pmon") return kProcessFlags;
  if (tool == "nvidia-smi") return kSmiFlags;
  if (tool == "gpustat") return kGpustatFlags;
  if (tool == "nvitop") return kNvitopFlags;
  if (tool == "rocm-smi") return kRocmFlags;
  if (tool == "amd-smi") return kAmdFlags;
  if (tool == "dcgmi") return kDcgmFlags;
  if (tool == "nsys") return kNsysFlags;
  if (tool == "rocprofv3") return kRocprofFlags;
  return tool == "py-spy" ? std::span<const BorrowedFlag>(kSpyFlags) : std::span<const BorrowedFlag>();
}

bool is_setting_of_smi(std::string_view option) {
  constexpr std::string_view kSettings[] = {
      "-pm",  "--persistence-mode",    "-e",    "--ecc-config",           "-p",    "--reset-ecc-errors",
      "-c",   "--compute-mode",        "-r",    "--gpu-reset",            "-pl",   "--power-limit",
      "-ac",  "--applications-clocks", "-rac",  "--reset-applications-clocks",
      "-lgc", "--lock-gpu-clocks",     "-rgc",  "--reset-gpu-clocks",     "-lmc",  "--lock-memory-clocks",
      "-rmc", "--reset-memory-clocks", "-mig",  "--multi-instance-gpu",   "--gom", "-acp", "-am", "-caa"};
  return std::ranges::find(kSettings, option.substr(0, option.find('='))) != std::end(kSettings);
}

std::string_view dcgm_field(int64_t id) {
  const auto* found = std::ranges::find(kDcgmFields, id, [](const auto& field) { return field.first; });
  return found == std::end(kDcgmFields) ? std::string_view() : found->second;
}

std::string monitored_fields(std::string_view letters) {
  std::string fields = "device";
  for (const char letter : letters) {
    const auto* found = std::find_if(std::begin(kMonitored), std::end(kMonitored),
                                     [&](const auto& group) { return group.first == letter; });
    if (found == std::end(kMonitored)) return {};
    fields += "," + std::string(found->second);
  }
  return fields;
}

}  // namespace profgpu
