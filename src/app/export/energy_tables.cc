// What the measured steps drew, where there are samples of the devices.
#include "analyse/rank/energy.h"
#include "app/export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

bool is_phase(const From& f, size_t row) { return row < f.run.energy_of(*f.rank)->phases.size(); }
const EnergyPart& energy_part(const From& f, size_t row) {
  const EnergySection& e = *f.run.energy_of(*f.rank);
  return is_phase(f, row) ? e.phases[row] : e.parts[row - e.phases.size()];
}
const StepEnergy& step_energy(const From& f, size_t row) { return f.run.energy_of(*f.rank)->by_step[row]; }

Datum joules(const EnergyAmount& amount, double j) { return amount.known_ns > 0 ? Datum(j) : Datum(); }

}  // namespace

extern const DataTable kEnergyData, kStepEnergyData;

const DataTable kEnergyData{
    .name = "energy",
    .summary = "energy of the measured steps by phase and by what the device did, from samples",
    .columns = of_rank(
        {{"of", Kind::kText, "phase or state: each of them is a partition of the steps",
          [](const From& f, size_t i, size_t) -> Datum {
            return std::string_view(is_phase(f, i) ? "phase" : "state");
          }},
         {"name", Kind::kText, "forward, compute, idle and so on; waiting_for_ranks is a part of others",
          cell<energy_part, &EnergyPart::name, kTextIfAny>},
         {"total_ns", Kind::kInteger, "time over the measured steps", cell<energy_part, &EnergyPart::total_ns>},
         {"energy_j", Kind::kReal, "joules in the part of it that samples cover",
          [](const From& f, size_t i, size_t) {
            return joules(energy_part(f, i).amount, energy_part(f, i).amount.energy_j);
          }},
         {"error_j", Kind::kReal, "how far that may be off at the samples' resolution",
          [](const From& f, size_t i, size_t) {
            return joules(energy_part(f, i).amount, energy_part(f, i).amount.error_j);
          }},
         {"mean_power_w", Kind::kReal, "watts", cell<energy_part, &EnergyPart::mean_w>}}),
    .rows =
        [](const From& f) {
          const EnergySection* e = f.run.energy_of(*f.rank);
          return e != nullptr ? e->phases.size() + e->parts.size() : 0;
        },
};

const DataTable kStepEnergyData{
    .name = "step_energy",
    .summary = "energy of each measured step, from samples",
    .columns = of_rank(
        {{"step", Kind::kInteger, "number of the step", cell<step_energy, &StepEnergy::index>},
         {"duration_ns", Kind::kInteger, "how long it took", cell<step_energy, &StepEnergy::duration_ns>},
         {"energy_j", Kind::kReal, "joules in the part of it that samples cover",
          [](const From& f, size_t i, size_t) {
            return joules(step_energy(f, i).amount, step_energy(f, i).amount.energy_j);
          }},
         {"error_j", Kind::kReal, "how far that may be off at the samples' resolution",
          [](const From& f, size_t i, size_t) {
            return joules(step_energy(f, i).amount, step_energy(f, i).amount.error_j);
          }}}),
    .rows =
        [](const From& f) {
          const EnergySection* e = f.run.energy_of(*f.rank);
          return e != nullptr ? e->by_step.size() : 0;
        },
};

}  // namespace profgpu
