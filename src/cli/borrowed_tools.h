// Commands and options of other tools, as tables, with our words for each: for borrowed_words.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// `theirs`: a tool's command, or its first option. Empty: whatever else follows the tool's name.
struct BorrowedCommand {
  std::string_view tool, theirs;
  std::vector<std::string> ours;
  bool without_tool = false;       ///< their command alone is clear enough: `profgpu dmon`
  std::string_view note = {};      ///< what is different here; where `ours` is empty: why there is nothing like it
};

enum class Takes : uint8_t {
  kNone,
  kNext,         ///< "-l 1", "--loop=1", "-l1"
  kAttached,     ///< "--trace=cuda": without the equals sign it is our own flag
  kKinds,        ///< "--trace cuda,nvtx": our own flag, unless kinds of events follow
  kNumber,       ///< gpustat's "-i": `otherwise` where no number follows
  kOptional,     ///< gpustat's "-P": a value, or another option
  kList,         ///< nvidia-smi's "--format=csv,noheader,nounits"
  kVariables,    ///< nsys' "--env-var=A=1,B=2": for the program
  kGpus,         ///< dcgm-exporter's "--devices g:0,1", "f", "i"
};

struct BorrowedFlag {
  std::string_view command;        ///< ours; empty: any that has our flag
  std::string_view theirs;
  Takes value = Takes::kNone;
  std::string_view ours = {};      ///< "--interval {}"; empty: nothing is needed
  std::string_view why = {};       ///< nothing is needed, because; or what is different
  std::string_view otherwise = "1";
};

const std::vector<BorrowedCommand>& borrowed_commands();
/// Options of nvidia-smi that change a GPU's settings.
bool is_setting_of_smi(std::string_view option);
/// Of any tool, where the command does not have them itself.
std::span<const BorrowedFlag> borrowed_flags();
/// `nvidia-smi dmon`'s.
std::span<const BorrowedFlag> monitor_flags();
/// Options that mean something else to this tool than to others, or to us.
std::span<const BorrowedFlag> flags_of_tool(const BorrowedCommand& command);

/// The fields that nvidia-smi dmon's letters of -s stand for. Empty: one is no such letter.
std::string monitored_fields(std::string_view letters);
/// Ours for a field id of DCGM, as `dcgmi dmon -e` takes it. Empty: none.
std::string_view dcgm_field(int64_t id);

}  // namespace profgpu
