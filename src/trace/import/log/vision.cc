// Examples of training vision models, from which many programs descend. A line has the time of one batch, and how much
// of it the loop waited for data:
//
//   Epoch: [0][ 10/500]  Time  0.123 ( 0.130)  Data  0.001 ( 0.020)  Loss 6.9e+00 (6.9e+00)
//     PyTorch's ImageNet example
//   Epoch: [0]  [ 10/500]  eta: 0:03:00  lr: 0.1  loss: 6.9 (7.0)  time: 0.5123  data: 0.0123  max mem: 3000
//     torchvision's references, DETR, DeiT, MAE: means over the last 20 batches
//   Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.520s,  492.34/s  LR: 1e-06  Data: 0.010 (0.020)       timm
//   Train: [0/300][10/1251]  eta 1:00:00 lr 0.0001  time 0.5123 (0.6000)  loss 6.9 (7.0)  mem 3000MB       Swin
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kVisionName = "vision";
constexpr int64_t kMaxEpoch = 1'000'000, kMaxBatches = 1'000'000'000;

struct Place {
  int64_t epoch = 0, batch = 0, batches = 0;

  [[nodiscard]] int64_t number() const { return epoch * batches + batch; }
};

// "[0][ 10/500]", "0 [  50/1251 (  4%)]", "[0/300][10/1251]": an epoch, then a batch of so many.
std::optional<Place> place_in_epochs(std::string_view text) {
  Place place;
  if (text.starts_with('[')) text.remove_prefix(1);
  const auto epoch = leading_integer(text, &text);
  const size_t bracket = text.find('[');
  if (!epoch || bracket == text.npos || bracket > 8) return std::nullopt;
  const auto batch = leading_integer(text.substr(bracket + 1), &text);
  const auto batches = batch && text.starts_with('/') ? leading_integer(text.substr(1)) : std::nullopt;
  if (!batches || *epoch < 0 || *epoch > kMaxEpoch || *batch < 0 || *batches < *batch || *batches > kMaxBatches)
    return std::nullopt;
  return Place{*epoch, *batch, *batches};
}

// timm's "Time: 0.512s, 2000.00/s": what follows the time.
std::optional<double> rate_behind(std::string_view time) {
  std::string_view rest;
  if (!printed_number(time, &rest) || !rest.starts_with("s, ")) return std::nullopt;
  const auto rate = printed_number(rest.substr(3), &rest);
  return rate && rest.starts_with("/s") ? rate : std::nullopt;
}

bool read_vision(const LogLine& line, LogBuilder& rows) {
  const std::string_view text = line.message;
  std::string_view head;
  for (const std::string_view begin : {"Epoch: ", "Train: "})
    if (text.starts_with(begin)) head = text.substr(begin.size());
  const auto place = place_in_epochs(head);
  const auto time = keyed_value(text, {"Time", "time"});
  const auto duration_ns = time ? leading_seconds(*time) : std::nullopt;
  if (!place || !duration_ns) return false;
  LogStep* step = rows.step(kVisionName, line, place->number());
  if (step == nullptr) return true;
  step->duration_ns = duration_ns, step->iterations = 1;
  if (const auto data = keyed_value(text, {"Data", "data"}))
    step->phase(LogPhase::kDataLoading) = leading_seconds(*data).value_or(0);
  step->figures.loss = keyed_number(text, {"Loss", "loss"});
  step->figures.learning_rate = keyed_number(text, {"LR", "lr"});
  step->figures.samples_per_s = keyed_number(text, {"img/s"});
  if (!step->figures.samples_per_s) step->figures.samples_per_s = rate_behind(*time);
  if (const auto bytes = keyed_mebibytes(text, {"max mem", "mem"})) {
    LogMemory memory{};
    memory.step = step->number;
    memory.max_allocated_bytes = bytes;
    rows.memory(memory, line);
  }
  return true;
}

}  // namespace

extern const LogFamily kVision = {kVisionName,
                                  "the ImageNet example's, torchvision's and timm's: \"Epoch: [0][10/500] Time 0.1 Data 0.0\"",
                                  {"Epoch: [", "Train: "},
                                  stateless<read_vision>};

}  // namespace profgpu
