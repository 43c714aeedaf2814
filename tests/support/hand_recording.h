// Recordings written by hand, row by row, as the injected library writes them.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "record/wire/chunk_writer.h"
#include "record/wire/rows.h"

namespace profgpu {

/// Rows become chunks when they are added; names, threads and queues get their numbers as they come.
class HandRecording {
 public:
  explicit HandRecording(uint32_t version = wire::kFormatVersion) {
    wire::FileHeader h{{}, version, 0};
    for (size_t i = 0; i < sizeof h.magic; ++i) h.magic[i] = wire::kFileMagic[i];
    bytes_.assign(reinterpret_cast<const char*>(&h), sizeof h);
  }

  template <class Row>
  HandRecording& add(const std::vector<Row>& rows) {
    if (rows.empty()) return *this;
    std::string chunk(wire::max_chunk_bytes<Row>(rows.size()), '\0');
    chunk.resize(wire::put_chunk(rows.data(), rows.size(), reinterpret_cast<uint8_t*>(chunk.data())));
    bytes_ += chunk;
    return *this;
  }
  template <class Row>
  HandRecording& add(const Row& row) { return add(std::vector<Row>{row}); }

  uint32_t string(std::string_view text) {
    if (text.empty()) return 0;
    const auto [it, fresh] = strings_.try_emplace(std::string(text), static_cast<uint32_t>(strings_.size() + 1));
    if (fresh) {
      const wire::StringRef ref{it->second, static_cast<uint32_t>(text.size()), text.data()};
      std::string chunk(wire::max_chunk_bytes<wire::StringRef>(1, text.size()), '\0');
      chunk.resize(wire::put_chunk(&ref, 1, reinterpret_cast<uint8_t*>(chunk.data())));
      bytes_ += chunk;
    }
    return it->second;
  }
  uint32_t thread(uint32_t pid, uint32_t tid, std::string_view name = "") {
    const auto [it, fresh] = threads_.try_emplace({pid, tid}, static_cast<uint32_t>(threads_.size() + 1));
    if (fresh) {
      const uint32_t text = string(name);
      add(wire::ThreadRow{it->second, pid, tid, text});
    }
    return it->second;
  }
  uint32_t queue(uint32_t device, uint32_t stream, uint32_t context = 1) {
    const auto [it, fresh] = queues_.try_emplace({device, stream}, static_cast<uint32_t>(queues_.size() + 1));
    if (fresh) add(wire::QueueRow{it->second, device, context, stream});
    return it->second;
  }
  HandRecording& property(std::string_view key, std::string_view value) {
    const uint32_t k = string(key), v = string(value);
    return add(wire::Property{k, v});
  }
  HandRecording& process(uint32_t pid, uint32_t ppid, std::string_view host, int rank = -1) {
    property("pid", std::to_string(pid)).property("ppid", std::to_string(ppid)).property("host", host);
    if (rank >= 0) property("rank", std::to_string(rank));
    return *this;
  }
  HandRecording& sync(int64_t host_ns, int64_t unix_ns, int64_t device_ns) {
    return add(wire::ClockSync{host_ns, unix_ns, device_ns});
  }
  HandRecording& window(wire::WindowEvent event, int64_t time_ns, std::string_view reason = "start") {
    const uint32_t text = string(reason);
    return add(wire::Window{time_ns, event, text});
  }
  HandRecording& note(wire::Severity severity, std::string_view text) {
    const uint32_t id = string(text);
    return add(wire::Note{0, severity, id});
  }
  /// A launching call of 5 µs and its kernel; device times.
  HandRecording& kernel(std::string_view name, uint32_t thread, int64_t launch_ns, int64_t start_ns,
                        int64_t duration_ns, uint32_t stream = 7) {
    const uint32_t call = string("cudaLaunchKernel_v7000"), text = string(name), on = queue(0, stream);
    ++correlation_;
    add(wire::Call{launch_ns, 5000, call, thread, correlation_, 0, 0});
    return add(wire::Kernel{start_ns, duration_ns, text, on, correlation_, 0, 0, 0});
  }
  HandRecording& range(wire::RangeOp op, int64_t time_ns, uint32_t thread, std::string_view name = "",
                       std::string_view domain = "", uint64_t range = 0, uint64_t payload = 0) {
    const uint32_t text = string(name), of = string(domain);
    return add(wire::RangeEvent{time_ns, thread, text, of, 0, op, wire::PayloadType::kNone, range, payload});
  }
  /// Of `event`, which is a range event's payload.
  HandRecording& payload(uint64_t event, std::string_view domain, uint64_t schema, std::string_view data) {
    const auto length = static_cast<uint32_t>(data.size());
    const wire::PayloadRef row{event, string(domain), schema, length, length, data.data()};
    std::string chunk(wire::max_chunk_bytes<wire::PayloadRef>(1, data.size()), '\0');
    chunk.resize(wire::put_chunk(&row, 1, reinterpret_cast<uint8_t*>(chunk.data())));
    return raw(chunk);
  }
  HandRecording& end() {
    uint8_t chunk[sizeof(wire::ChunkHeader)];
    bytes_.append(reinterpret_cast<const char*>(chunk), wire::seal_chunk(chunk, wire::ChunkKind::kEnd, 0));
    return *this;
  }
  HandRecording& raw(std::string_view bytes) { return bytes_ += bytes, *this; }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] uint32_t last_correlation() const { return correlation_; }
  /// Returns the path.
  std::string write(const std::string& path) const {
    if (std::FILE* f = std::fopen(path.c_str(), "wb")) {
      std::fwrite(bytes_.data(), 1, bytes_.size(), f);
      std::fclose(f);
    }
    return path;
  }

 private:
  std::string bytes_;
  std::map<std::string, uint32_t> strings_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> threads_, queues_;
  uint32_t correlation_ = 0;
};

}  // namespace profgpu
