// MaxText and what descends from it, on JAX. Each line is one step's, rates are of one device:
//
//   completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, total_weights: 196608,
//   loss: 10.374
//   completed step: 9, seconds: 2.164, TFLOP/s: 36.771, loss: 2.173                                        of old ones
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kMaxTextName = "maxtext";

bool read_maxtext(const LogLine& line, LogBuilder& rows) {
  const auto rest = after(line.message, "completed step:");
  const auto number = rest ? leading_integer(*rest) : std::nullopt;
  const auto seconds = rest ? after(*rest, ", seconds:") : std::nullopt;
  if (!number || *number < 0 || !seconds) return false;
  LogStep* step = rows.step(kMaxTextName, line, *number);
  if (step == nullptr) return true;
  step->duration_ns = leading_seconds(*seconds), step->iterations = 1;
  LogFigures& f = step->figures;
  f.tflops = number_after(*rest, "TFLOP/s/device:");
  if (!f.tflops) f.tflops = number_after(*rest, "TFLOP/s:");
  f.device_tokens_per_s = number_after(*rest, "Tokens/s/device:");
  f.loss = number_after(*rest, " loss:");
  return true;
}

}  // namespace

extern const LogFamily kMaxText = {kMaxTextName, "MaxText on JAX: \"completed step: 9, seconds: 5.667\"", {"completed step:"},
                                   stateless<read_maxtext>};

}  // namespace profgpu
