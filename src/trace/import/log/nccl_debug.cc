// NCCL's own lines (NCCL_DEBUG=INFO or WARN), also RCCL's: version, network, transports, fallbacks, warnings.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kDebugName = "nccl_debug";
constexpr size_t kMostRemarks = 200, kMostTransports = 64, kMostSettings = 200, kMostSetups = 1'000;
constexpr std::string_view kSetupIncomplete = "setup_incomplete", kDifferentNetworks = "different_networks";

struct NcclSign {
  std::string_view words;
  std::string_view kind;
};
// What a line with these words tells. The first that fits.
constexpr std::array kNcclSigns = {
    NcclSign{"GPU Direct RDMA Disabled", "no_gpu_direct_rdma"},
    NcclSign{"NET/IB : No device found", "no_infiniband"},
    NcclSign{"P2P is disabled between", "no_p2p"},
    NcclSign{"Could not enable P2P", "no_p2p"},
    NcclSign{"Missing \"iommu=pt\"", "iommu"},
    NcclSign{"ACS is enabled", "pcie_acs"},
    NcclSign{"Call to ibv_reg_mr failed", "registration_failed"},
    NcclSign{"Got completion from peer", "network_error"},
    NcclSign{"async fatal event", "network_error"},
    NcclSign{"Got async event", "network_error"},
    NcclSign{"port error", "network_error"},
    NcclSign{"No space left on device", "shared_memory_full"},
    NcclSign{"Error while creating shared memory segment", "shared_memory_full"},
    NcclSign{"socket progress", "network_error"},
};

// What InfiniBand's verbs report while all is well: "Got async event : client reregistration".
bool is_routine_event(std::string_view said) {
  constexpr std::array<std::string_view, 7> kRoutine = {
      "client reregistration", "port active", "GID table change", "SM change", "P_Key change", "LID change",
      "communication established"};
  const auto event = after(said, "Got async event : ");
  return event && contains_any(*event, kRoutine);
}

bool read_nccl_version(std::string_view text, NcclLog& log) {
  const auto version = after(text, "NCCL version ");
  if (!version || version->empty() || !is_digit(version->front())) return false;
  if (log.version.empty()) log.version = quotable(version->substr(0, version->find(' ')));
  return true;
}

// "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", "Channel 01 : 3[cb0] -> 4[10] [send] via
// NET/IB/0/GDRDMA"
void read_nccl_channel(std::string_view said, NcclLog& log) {
  const auto via = after(said, " via ");
  if (!via) return;
  std::string way = quotable(without_blanks(*via));
  if (way.starts_with("NET/")) {
    const bool direct = has(way, "GDRDMA");
    const size_t device = way.find('/', 4);
    way = way.substr(0, device) + (direct ? "/GDRDMA" : "");
  } else {
    for (const std::string_view end : {"/read", "/write"})
      if (way.ends_with(end)) way.resize(way.size() - end.size());
  }
  if (log.transports.size() < kMostTransports || log.transports.contains(way)) ++log.transports[way];
}

void read_nccl_setting(std::string_view name, std::string_view value, NcclLog& log) {
  const size_t begin = name.rfind("NCCL_");
  if (begin == name.npos || log.environment.size() >= kMostSettings) return;
  value = without_blanks(value);
  if (value.ends_with('.')) value.remove_suffix(1);
  log.environment.try_emplace(quotable(name.substr(begin)), quotable(value));
}

void read_nccl_info(std::string_view said, NcclLog& log) {
  if (said.starts_with("NCCL version ")) {
    read_nccl_version(said, log);
  } else if (said.starts_with("Using network ")) {
    log.network = quotable(without_blanks(said.substr(14)));
  } else if (const auto devices = after(said, "NET/IB : Using ")) {
    log.network_devices = quotable(without_blanks(devices->substr(0, devices->find(';'))));
  } else if (const auto sockets = after(said, "NET/Socket : Using ")) {
    log.network_devices = quotable(without_blanks(*sockets));
  } else if (said.starts_with("Channel ")) {
    read_nccl_channel(said, log);
  } else if (const auto ranks = integer_after(said, "nranks "), more = integer_after(said, "nRanks ");
             ranks || more) {
    log.ranks =
        static_cast<int>(std::clamp<int64_t>(std::max(ranks.value_or(0), more.value_or(0)), log.ranks, 10'000'000));
    if (const auto nodes = integer_after(said, "nNodes "))
      log.hosts = static_cast<int>(std::clamp<int64_t>(*nodes, log.hosts, 10'000'000));
  } else if (has(said, " coll channels")) {
    log.channels = static_cast<int>(std::clamp<int64_t>(leading_integer(said).value_or(0), log.channels, 1024));
  } else if (const size_t set = said.find(" set by environment to "); set != said.npos) {
    read_nccl_setting(said.substr(0, set), said.substr(set + 23), log);
  }
}

void remark_nccl(std::string_view kind, std::string_view said, const LogLine& line, NcclLog& log) {
  const auto same = std::ranges::find_if(log.remarks, [&](const NcclLog::Remark& r) {
    return r.kind == kind &&
           (kind != "warning" || std::string_view(r.text).substr(0, 40) == quotable(said).substr(0, 40));
  });
  if (same != log.remarks.end())
    ++same->count;
  else if (log.remarks.size() < kMostRemarks)
    log.remarks.push_back({std::string(kind), quotable(said), line.number, 1});
}

bool read_nccl_debug(const LogLine& line, LogBuilder& rows) {
  const std::string_view text = line.text;
  NcclLog& log = rows.log().nccl;
  const auto info = after(text, "NCCL INFO "), warn = after(text, "NCCL WARN ");
  if (!info && !warn) return read_nccl_version(text, log);
  ++log.lines;
  rows.found(kDebugName);
  const std::string_view said = without_blanks(info ? *info : *warn);
  if (is_routine_event(said)) return true;
  for (const NcclSign& sign : kNcclSigns)
    if (has(said, sign.words)) {
      remark_nccl(sign.kind, said, line, log);
      return true;
    }
  if (warn)
    remark_nccl("warning", said, line, log);
  else
    read_nccl_info(said, log);
  return true;
}

// "ncclCommInitRank comm 0x55d00000 rank 0 nranks 16 … commId 0x6b8c - Init START": ends with "Init COMPLETE".
class NcclDebug : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    read_setup(line);
    read_network(line);
    return read_counts(line, rows) || read_nccl_debug(line, rows);
  }
  // Of a communicator that no rank has set up, who did not begin.
  void end(LogBuilder& rows) override {
    std::vector<NcclLog::Remark>& remarks = rows.log().nccl.remarks;
    std::erase_if(remarks, [](const NcclLog::Remark& r) {
      return r.kind == kSetupIncomplete || r.kind == kDifferentNetworks;
    });
    add_networks(rows.log().nccl);
    for (const auto& [id, s] : setups_)
      if (!s.completed && s.begun.size() > 1 && remarks.size() < kMostRemarks)
        remarks.push_back({std::string(kSetupIncomplete), text_of(id, s), s.line, 1});
    std::ranges::stable_sort(remarks, {}, &NcclLog::Remark::line);
  }

 private:
  struct Setup {
    int64_t ranks = 0, line = 0;
    std::set<int64_t> begun;
    bool completed = false;  // on one rank, at least
  };

  // "node07:4711:4720 [3] NCCL INFO Using network IB": of each process the last.
  void read_network(const LogLine& line) {
    constexpr std::string_view kUsing = "Using network ";
    const size_t at = place_of(line.text, kUsing), pid = line.text.find(':');
    if (at == line.text.npos || pid == line.text.npos) return;
    const std::string process(line.text.substr(0, std::min(line.text.find(':', pid + 1), at)));
    if (networks_.size() >= kMostProcesses && !networks_.contains(process)) return;
    networks_[process] = {quotable(without_blanks(line.text.substr(at + kUsing.size()))), line.number};
  }

  // Processes that use another one than the most do.
  void add_networks(NcclLog& log) const {
    std::map<std::string, std::pair<int64_t, int64_t>> counts;  // of each network: processes, the first line
    for (const auto& [process, of] : networks_) {
      auto& [count, line] = counts.try_emplace(of.first, 0, of.second).first->second;
      ++count, line = std::min(line, of.second);
    }
    if (counts.size() < 2) return;
    const auto by_count = [](const auto& c) { return c.second.first; };
    const auto most = std::ranges::max_element(counts, {}, by_count);
    log.network = most->first;
    std::set<std::string> hosts;
    for (const auto& [process, of] : networks_) hosts.insert(process.substr(0, process.find(':')));
    log.hosts = std::max(log.hosts, static_cast<int>(hosts.size()));
    std::string text;
    for (const auto& [name, c] : counts)
      append_listed(text, fmt::format("{} of {} processes use network {}", c.first, networks_.size(), name));
    int64_t line = INT64_MAX;
    for (const auto& [name, c] : counts)
      if (name != most->first) line = std::min(line, c.second);
    log.remarks.push_back({std::string(kDifferentNetworks), text, line, 1});
  }

  // Of ncclras: "1 rank has launched up to operation 6649", and below it "Rank 13 -- GPU 5 managed by process 3 on …".
  // "Missing communicator data from 1 job process", and below it "Process 3487984 on node 10.0.0.1 managing GPU 5".
  bool read_counts(const LogLine& line, LogBuilder& rows) {
    const std::string_view said = without_blanks(line.text);
    if (has(said, " launched up to operation ")) return counted_ = said, true;
    if (said.starts_with("Missing communicator data from ")) return missing_ = said, true;
    if (!missing_.empty() && said.starts_with("Process ") && has(said, " managing GPU")) {
      ++rows.log().nccl.lines;
      rows.found(kDebugName);
      remark_nccl("missing_process", fmt::format("{}: {}", missing_, said), line, rows.log().nccl);
      return true;
    }
    if (counted_.empty() || !said.starts_with("Rank ") || !has(said, " managed by process ")) return false;
    ++rows.log().nccl.lines;
    rows.found(kDebugName);
    remark_nccl("different_counts", fmt::format("{}: {}", counted_, said), line, rows.log().nccl);
    return true;
  }
  void read_setup(const LogLine& line) {
    const bool begins = has(line.text, "- Init START");
    if (!begins && !has(line.text, "- Init COMPLETE")) return;
    const auto id = after(line.text, "commId "), rank = after(line.text, " rank ");
    if (!id || !rank) return;
    const std::string name = quotable(id->substr(0, id->find(' ')));
    if (setups_.size() >= kMostSetups && !setups_.contains(name)) return;
    Setup& s = setups_[name];
    s.completed |= !begins;
    if (s.begun.empty()) s.line = line.number;
    s.ranks = integer_after(line.text, "nranks ").value_or(s.ranks);
    s.begun.insert(leading_integer(*rank).value_or(0));
  }
  static std::string text_of(const std::string& id, const Setup& s) {
    constexpr size_t kMostNamed = 4;
    std::vector<std::string> missing;
    for (int64_t rank = 0; rank < s.ranks && missing.size() <= kMostNamed; ++rank)
      if (!s.begun.contains(rank)) missing.push_back(std::to_string(rank));
    std::string text = fmt::format("{} of {} ranks began to set up communicator {}, and none completed it",
                                   s.begun.size(), s.ranks, id);
    if (missing.empty() || missing.size() > kMostNamed) return text;
    return text + fmt::format("; the log has no such line of {} {}", missing.size() == 1 ? "rank" : "ranks",
                              joined(missing));
  }

  static constexpr size_t kMostProcesses = 100'000;
  std::map<std::string, Setup> setups_;
  std::map<std::string, std::pair<std::string, int64_t>> networks_;  // of each process: name, line
  std::string counted_;  // how far the ranks below have come
  std::string missing_;  // what is said of the processes below
};

}  // namespace

extern const LogFamily kNcclDebug = {kDebugName,
                                     "NCCL_DEBUG=INFO: version, network, transports, fallbacks, warnings",
                                     {"NCCL INFO", "NCCL WARN", "NCCL version", " launched up to operation ",
                                      " managed by process ", "Missing communicator data", " managing GPU"},
                                     [] { return std::unique_ptr<LogReading>(new NcclDebug); }};

}  // namespace profgpu
