#include "cli/bench_products.h"

#include <algorithm>

#include "analyse/rank/work.h"
#include "app/loaded_run.h"
#include "cli/terminal.h"

namespace profgpu {

Result<std::vector<WantedProduct>> products_of(const std::string& path, size_t most) {
  Progress progress;
  const ProgressBar bar(progress, stderr_is_terminal());
  const auto run = load_run({path}, {}, progress);
  if (!run) return run.error();
  if (run->only_samples()) return Error{path + ": there are no events in it"};
  const auto events = run->read_again(run->read.outlines.begin()->first);
  if (!events) return events.error();
  const auto& work = (*events)->facts.get<DeviceWork>();
  std::vector<WantedProduct> all;
  for (const WorkRun& r : work.runs) {
    const ProductSizes& sizes = r.work->product;
    if (sizes.batch <= 0 || r.device_ns <= 0) continue;
    const WantedProduct one{std::string(precision_name(r.work->precision)), sizes.m, sizes.n, sizes.k, sizes.batch, 1,
                            r.device_ns};
    WantedProduct* known = first_where(all, [&](const WantedProduct& w) { return w.same_product(one); });
    if (known) ++known->calls, known->device_ns += r.device_ns;
    else all.push_back(one);
  }
  if (all.empty())
    return Error{path + ": no GEMM with known sizes is in it",
                 "record with shapes: torch.profiler.profile(record_shapes=True)"};
  std::ranges::stable_sort(all, std::greater<>(), &WantedProduct::device_ns);
  all.resize(std::min(all.size(), most));
  return all;
}

}  // namespace profgpu
