// Watches the GPUs while a command of the shell runs, and prints what they did in each of two phases.
#include <profgpu/monitor.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  profgpu::MonitorOptions options;
  options.interval_s = 0.05;
  if (argc > 2) options.backend = argv[2];   // for a try without a GPU: replay:examples/replay.jsonl,loop
  profgpu::Monitor monitor(options);
  if (!monitor.problem().empty()) std::fprintf(stderr, "not watched: %s\n", monitor.problem().c_str());

  monitor.start();
  monitor.mark("before");
  std::system("sleep 0.2");
  monitor.mark("command");
  const int status = std::system(argc > 1 ? argv[1] : "sleep 1");
  monitor.stop();

  for (const profgpu::MonitorSummary& device : monitor.summary()) std::printf("%s\n", device.text().c_str());
  for (const profgpu::MonitorPhase& phase : monitor.phases())
    std::printf("GPU %s, %s: %.2f s, busy %.1f %%\n", monitor.devices()[phase.device].label.c_str(), phase.name.c_str(),
                phase.duration_s, phase.utilization_mean_pct.value_or(0));
  return status == 0 ? 0 : 1;
}
