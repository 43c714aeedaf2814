// The processes that read one job together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// All calls are collective: every process makes them, in the same order.
struct Processes {
  int place = 0;   ///< of this one; 0 puts the job together
  int count = 1;
  std::vector<int> hosts{0};   ///< of each process; those of one host share its cores
  uint64_t* taken =
      nullptr;  ///< how many of their host's units the processes there have taken; null: nobody shares them
  /// What each process gives, in their order; on process 0 alone, elsewhere nothing.
  std::function<std::vector<std::string>(const std::string& mine)> gather =
      [](const std::string& mine) { return std::vector{mine}; };
};

// Processes that `mpirun` or `srun` started together, through the component that knows MPI.

/// Ends MPI when destroyed: after the last call of `processes`.
class MpiProcesses {
 public:
  /// `program`: this program's own file, beside which the component lies. The error says where it was looked for.
  static Result<std::unique_ptr<MpiProcesses>> begin(const std::string& program);
  ~MpiProcesses();
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  [[nodiscard]] const Processes& processes() const { return processes_; }

 private:
  MpiProcesses() = default;
  [[nodiscard]] std::vector<std::string> gathered(const std::string& mine) const;

  Processes processes_;
  void (*sizes_)(uint64_t, uint64_t*) = nullptr;
  void (*gather_)(const char*, char* const*, const uint64_t*) = nullptr;
  void (*finish_)() = nullptr;
};

}  // namespace profgpu
