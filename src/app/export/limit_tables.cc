// Operators beside the limit that their work has on the device, and the distance of the steps from theirs.
#include "analyse/rank/distance.h"
#include "analyse/rank/roofline.h"
#include "app/export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

const RooflineRow& roofline_row(const From& f, size_t row) { return f.rank->facts().get<Roofline>().ops[row]; }
const DistancePart& distance_part(const From& f, size_t row) { return f.rank->facts().get<Distance>().parts[row]; }

constexpr auto kText = [](const std::optional<std::string>& text) {
  return text ? Datum(std::string_view(*text)) : Datum();
};

}  // namespace

extern const DataTable kRooflineData, kDistanceData;

const DataTable kRooflineData{
    .name = "roofline",
    .summary = "operators by name, shapes and precision, beside the limit that their work has on the busiest device",
    .columns = of_rank(
        {{"name", Kind::kText, "name of the operator", cell<roofline_row, &RooflineRow::name, kTextIfAny>},
         {"shapes", Kind::kText, "of its inputs, as recorded", cell<roofline_row, &RooflineRow::shapes, kText>},
         {"precision", Kind::kText, "bf16, tf32 and so on",
          [](const From& f, size_t i, size_t) -> Datum {
            return unless_empty(precision_name(roofline_row(f, i).precision));
          }},
         {"kernel", Kind::kText, "the kernel that takes the most time",
          cell<roofline_row, &RooflineRow::kernel, kText>},
         {"count", Kind::kInteger, "calls in the measured steps", cell<roofline_row, &RooflineRow::count>},
         {"total_ns", Kind::kInteger, "sum of its kernels' durations", cell<roofline_row, &RooflineRow::total_ns>},
         {"flops", Kind::kInteger, "floating-point operations needed", cell<roofline_row, &RooflineRow::flops>},
         {"flops_is_lower_bound", Kind::kInteger, "1: at least so many, since lengths of sequences are not in the trace",
          cell<roofline_row, &RooflineRow::flops_is_lower_bound>},
         {"bytes", Kind::kInteger, "the least that must move", cell<roofline_row, &RooflineRow::bytes>},
         {"intensity", Kind::kReal, "FLOPs per byte", cell<roofline_row, &RooflineRow::intensity>},
         {"tflops", Kind::kReal, "10^12 FLOPs a second, reached", cell<roofline_row, &RooflineRow::tflops>},
         {"memory_gbps", Kind::kReal, "bytes a second, reached", cell<roofline_row, &RooflineRow::memory_gbps>},
         {"limit_ns", Kind::kInteger, "the least time for its work", cell<roofline_row, &RooflineRow::limit_ns>},
         {"limit_pct", Kind::kReal, "that, of the time it took", cell<roofline_row, &RooflineRow::limit_pct>},
         {"bound", Kind::kText, "compute, memory, latency or unknown",
          [](const From& f, size_t i, size_t) -> Datum { return bound_name(roofline_row(f, i).bound); }},
         {"recomputed", Kind::kInteger, "1: a forward operator that runs again in the backward pass",
          cell<roofline_row, &RooflineRow::recomputed>}}),
    .rows = [](const From& f) { return f.rank->facts().get<Roofline>().ops.size(); },
};

const DataTable kDistanceData{
    .name = "distance",
    .summary = "the measured steps' wall time, from the least time for their work on; adds up",
    .columns = of_rank(
        {{"part", Kind::kText, "necessary_work, products, memory_bound, idle: host_bound and so on",
          cell<distance_part, &DistancePart::name, kTextIfAny>},
         {"total_ns", Kind::kInteger, "on the busiest device", cell<distance_part, &DistancePart::total_ns>},
         {"wall_pct", Kind::kReal, "of the steps' wall time", cell<distance_part, &DistancePart::wall_pct>}}),
    .rows = [](const From& f) { return f.rank->facts().get<Distance>().parts.size(); },
};

}  // namespace profgpu
