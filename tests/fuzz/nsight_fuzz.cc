// Any bytes as an export of Nsight Systems: as the database itself, and again as the cells of tables that the importer
// reads, so that what stands behind SQLite's own checks is reached too.
#include <sqlite3.h>

#include <cstring>
#include <string>

#include "tests/fuzz/whole_report.h"
#include "trace/import/nsight_rows.h"

namespace {

/// Takes cells off the bytes; zeros once they are used up.
class Cells {
 public:
  Cells(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  [[nodiscard]] bool empty() const { return size_ == 0; }
  uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  int64_t number(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | byte();
    return static_cast<int64_t>(value);
  }
  // Mostly small numbers, so that times, ids and kinds fit each other.
  void bind(sqlite3_stmt* insert, int column) {
    const uint8_t kind = byte();
    if (kind < 160) sqlite3_bind_int64(insert, column, kind % 64);
    else if (kind < 200) sqlite3_bind_int64(insert, column, number(3));
    else if (kind < 215) sqlite3_bind_int64(insert, column, number(8));
    else if (kind < 225) sqlite3_bind_double(insert, column, static_cast<double>(number(8)) / 3);
    else if (kind < 245) {
      std::string text;
      for (int left = byte() % 48; left > 0; --left) text += static_cast<char>(byte());
      if (kind < 240) sqlite3_bind_text(insert, column, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
      else sqlite3_bind_blob(insert, column, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    } else sqlite3_bind_null(insert, column);
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

void add_table(sqlite3* db, std::string_view name, const std::vector<std::string_view>& columns, int rows, Cells& cells) {
  std::string create = "CREATE TABLE \"" + std::string(name) + "\" (", insert = "INSERT INTO \"" + std::string(name) + "\" VALUES (";
  for (size_t i = 0; i < columns.size(); ++i) {
    create += (i > 0 ? ", \"" : "\"") + std::string(columns[i]) + '"';
    insert += i > 0 ? ", ?" : "?";
  }
  sqlite3_exec(db, (create + ")").c_str(), nullptr, nullptr, nullptr);
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, (insert + ")").c_str(), -1, &statement, nullptr) != SQLITE_OK) return;
  for (int row = 0; row < rows && !cells.empty(); ++row) {
    for (size_t i = 0; i < columns.size(); ++i) cells.bind(statement, static_cast<int>(i) + 1);
    sqlite3_step(statement);
    sqlite3_reset(statement);
  }
  sqlite3_finalize(statement);
}

/// Tables beside those that are read in pieces.
struct Other {
  std::string_view name;
  std::vector<std::string_view> columns;
};
const Other kOthers[] = {
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "syncType", "globalPid"}},
    {"TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"}},
    {"GPU_METRICS", {"timestamp", "typeId", "metricId", "value"}},
    {"SCHED_EVENTS", {"start", "isSchedIn", "globalTid"}},
    {"TARGET_INFO_GPU", {"id", "name", "busLocation", "totalMemory", "smCount", "pwGpuId", "uuid", "cuDevice"}},
    {"TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"}},
    {"TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}},
    {"ANALYSIS_DETAILS", {"duration"}},
    {"MPI_RANKS", {"globalTid", "rank"}},
    {"ThreadNames", {"globalTid", "nameId"}},
    {"DIAGNOSTIC_EVENT", {"severity", "text", "globalPid"}},
    {"NVTX_PAYLOAD_SCHEMA_ENTRIES", {"domainId", "schemaId", "idx", "type", "name", "offset"}},
};

void report_on_cells(const uint8_t* data, size_t size) {
  sqlite3* db = nullptr;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) return;
  Cells cells(data, size);
  add_table(db, "StringIds", {"id", "value"}, cells.byte() % 16, cells);
  while (!cells.empty()) {
    const size_t which = cells.byte();
    const auto& tables = profgpu::nsight_tables();
    const int rows = cells.byte() % 32;
    if (which % 4 == 3) {
      const Other& other = kOthers[which / 4 % std::size(kOthers)];
      add_table(db, other.name, other.columns, rows, cells);
      continue;
    }
    const profgpu::NsightTable& table = tables[which / 4 % tables.size()];
    std::vector<std::string_view> columns = table.columns;
    if (table.owner == "globalPid") columns.push_back(table.owner);
    add_table(db, table.name, columns, rows, cells);
  }
  sqlite3_int64 bytes = 0;
  if (unsigned char* image = sqlite3_serialize(db, "main", &bytes, 0); image != nullptr) {
    profgpu::report_on_bytes(image, static_cast<size_t>(bytes));
    sqlite3_free(image);
  }
  sqlite3_close(db);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  profgpu::report_on_bytes(data, size);
  report_on_cells(data, size);
  return 0;
}
