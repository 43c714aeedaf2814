// The tool behind every copy of NVTX in the process: ranges, marks and names go to the recorder. NVTX calls these
// functions directly, on the program's own threads.
//
// Budget: 100 ns a range event.
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "record/inject/nvtx_payloads.h"
#include "record/inject/recorder.h"

namespace profgpu::inject::nvtx {
namespace {

// UTF-8 of a wide string (UTF-32 here), cut to what a small stack can hold.
class Narrow {
 public:
  explicit Narrow(const wchar_t* wide) {
    for (; wide != nullptr && *wide != 0 && length_ + 4 <= sizeof text_; ++wide) put(static_cast<uint32_t>(*wide));
  }
  [[nodiscard]] const char* text() const { return text_; }
  [[nodiscard]] size_t length() const { return length_; }

 private:
  void put(uint32_t c) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    if (c < 0x80) {
      add(c);
    } else if (c < 0x800) {
      add(0xc0 | c >> 6);
      add(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      add(0xe0 | c >> 12);
      add(0x80 | (c >> 6 & 0x3f));
      add(0x80 | (c & 0x3f));
    } else {
      add(0xf0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3f));
      add(0x80 | (c >> 6 & 0x3f));
      add(0x80 | (c & 0x3f));
    }
  }
  void add(uint32_t byte) { text_[length_++] = static_cast<char>(byte); }

  size_t length_ = 0;
  char text_[1024];
};

uint32_t intern_wide(const wchar_t* wide) {
  const Narrow narrow(wide);
  return intern(narrow.text(), narrow.length());
}

uint32_t message(int32_t type, const void* text) {
  if (text == nullptr) return 0;
  if (type == kAscii) return intern(static_cast<const char*>(text));
  if (type == kUnicode) return intern_wide(static_cast<const wchar_t*>(text));
  return type == kRegistered ? name_of(static_cast<const Handle*>(text)) : 0;
}

void set_payload(wire::RangeEvent& row, const EventAttributes& attributes, const Handle* domain) {
  row.payload = attributes.payload;
  const auto low = static_cast<uint32_t>(attributes.payload);
  row.payload_type = wire::PayloadType::kInteger;
  switch (attributes.payload_type) {
    case kUnsigned64:
    case kSigned64: return;
    case kUnsigned32: row.payload = low; return;
    case kSigned32: row.payload = static_cast<uint64_t>(int64_t{static_cast<int32_t>(low)}); return;
    case kDouble: row.payload_type = wire::PayloadType::kDouble; return;
    case kFloat: {
      float narrow;
      memcpy(&narrow, &low, sizeof narrow);
      const double wide = narrow;
      memcpy(&row.payload, &wide, sizeof wide);
      row.payload_type = wire::PayloadType::kDouble;
      return;
    }
    case kExtended: {
      const auto* const data = reinterpret_cast<const PayloadData*>(attributes.payload);
      return attach_payloads(row, domain, data, static_cast<size_t>(attributes.payloads));
    }
    default: row.payload = 0; row.payload_type = wire::PayloadType::kNone;
  }
}

void send(wire::RangeOp op, const Handle* domain, uint32_t name, const EventAttributes* attributes, uint64_t range) {
  wire::RangeEvent row;
  row.time_ns = host_now();
  row.thread = thread_id();
  row.name = name;
  row.domain = name_of(domain);
  row.op = op;
  row.range = range;
  if (attributes != nullptr && attributes->size >= sizeof *attributes) {
    row.category = attributes->category;
    row.name = message(attributes->message_type, attributes->message);
    set_payload(row, *attributes, domain);
  }
  post(row);
}

void mark(const char* text) {
  if (recording_here()) send(wire::RangeOp::kMark, nullptr, intern(text), nullptr, 0);
}
void mark_wide(const wchar_t* text) {
  if (recording_here()) send(wire::RangeOp::kMark, nullptr, intern_wide(text), nullptr, 0);
}
void domain_mark(const Handle* domain, const EventAttributes* attributes) {
  if (recording_here()) send(wire::RangeOp::kMark, domain, 0, attributes, 0);
}
void mark_with(const EventAttributes* attributes) { domain_mark(nullptr, attributes); }

uint64_t start(const char* text) {
  const uint64_t range = next_range();
  if (recording_here()) send(wire::RangeOp::kStart, nullptr, intern(text), nullptr, range);
  return range;
}
uint64_t start_wide(const wchar_t* text) {
  const uint64_t range = next_range();
  if (recording_here()) send(wire::RangeOp::kStart, nullptr, intern_wide(text), nullptr, range);
  return range;
}
uint64_t domain_start(const Handle* domain, const EventAttributes* attributes) {
  const uint64_t range = next_range();
  if (recording_here()) send(wire::RangeOp::kStart, domain, 0, attributes, range);
  return range;
}
uint64_t start_with(const EventAttributes* attributes) { return domain_start(nullptr, attributes); }
void domain_end(const Handle* domain, uint64_t range) {
  if (recording_here()) send(wire::RangeOp::kEnd, domain, 0, nullptr, range);
}
void end(uint64_t range) { domain_end(nullptr, range); }

int push(const char* text) {
  if (recording_here()) send(wire::RangeOp::kPush, nullptr, intern(text), nullptr, 0);
  return kNoTracking;
}
int push_wide(const wchar_t* text) {
  if (recording_here()) send(wire::RangeOp::kPush, nullptr, intern_wide(text), nullptr, 0);
  return kNoTracking;
}
int domain_push(const Handle* domain, const EventAttributes* attributes) {
  if (recording_here()) send(wire::RangeOp::kPush, domain, 0, attributes, 0);
  return kNoTracking;
}
int push_with(const EventAttributes* attributes) { return domain_push(nullptr, attributes); }
int domain_pop(const Handle* domain) {
  if (recording_here()) send(wire::RangeOp::kPop, domain, 0, nullptr, 0);
  return kNoTracking;
}
int pop() { return domain_pop(nullptr); }

// As properties "nvtx_category DOMAIN NUMBER".
void name_category_in(const char* domain, size_t domain_length, uint32_t category, const char* name) {
  if (name == nullptr || !recording_here()) return;
  Text<256> key;
  key << "nvtx_category ";
  for (size_t i = 0; i < domain_length; ++i) key << domain[i];
  key << ' ' << category;
  property(key.c_str(), name);
}
void domain_name_category(const Handle* domain, uint32_t category, const char* name) {
  size_t length = 0;
  const char* const text = text_of(domain, length);
  name_category_in(text, length, category, name);
}
void domain_name_category_wide(const Handle* domain, uint32_t category, const wchar_t* name) {
  Text<1024> text;
  const Narrow narrow(name);
  for (size_t i = 0; i < narrow.length(); ++i) text << narrow.text()[i];
  domain_name_category(domain, category, text.c_str());
}
void name_category(uint32_t category, const char* name) { domain_name_category(nullptr, category, name); }
void name_category_wide(uint32_t category, const wchar_t* name) { domain_name_category_wide(nullptr, category, name); }

void name_os_thread(uint32_t tid, const char* name) {
  if (recording_here()) name_thread(tid, intern(name));
}
void name_os_thread_wide(uint32_t tid, const wchar_t* name) {
  if (recording_here()) name_thread(tid, intern_wide(name));
}

// The only resource whose name is shown is a thread; the program gets its attributes back as a handle, never null.
const void* create_resource(const Handle*, const ResourceAttributes* attributes) {
  if (attributes != nullptr && attributes->size >= sizeof *attributes &&
      attributes->identifier_type == kResourceNativeThread && recording_here())
    name_thread(static_cast<uint32_t>(attributes->identifier), message(attributes->message_type, attributes->message));
  return attributes;
}
void destroy_resource(const void*) {}

const Handle* make_handle(const char* text) {
  return text != nullptr ? handle_of(text, strnlen(text, kMaxNameBytes)) : nullptr;
}
const Handle* make_handle_wide(const wchar_t* text) {
  const Narrow narrow(text);
  return handle_of(narrow.text(), narrow.length());
}
const Handle* register_string(const Handle*, const char* text) { return make_handle(text); }
const Handle* register_string_wide(const Handle*, const wchar_t* text) { return make_handle_wide(text); }
void destroy_domain(const Handle*) {}
void initialize(const void*) {}

struct Entry {
  uint32_t id;
  Function function;
};
template <class F>
Function any(F* function) {
  return reinterpret_cast<Function>(function);
}

void fill(const CallbacksTable& callbacks, Module module, const Entry* entries, size_t count) {
  Function** table = nullptr;
  unsigned int size = 0;
  if (callbacks.function_table(module, &table, &size) == 0 || table == nullptr) return;
  for (size_t i = 0; i < count; ++i)
    if (entries[i].id < size && table[entries[i].id] != nullptr) *table[entries[i].id] = entries[i].function;
}

void attach(const CallbacksTable& callbacks) {
  const Entry core[] = {
      {kMarkEx, any(mark_with)}, {kMarkA, any(mark)}, {kMarkW, any(mark_wide)},
      {kRangeStartEx, any(start_with)}, {kRangeStartA, any(start)}, {kRangeStartW, any(start_wide)},
      {kRangeEnd, any(end)}, {kRangePushEx, any(push_with)}, {kRangePushA, any(push)}, {kRangePushW, any(push_wide)},
      {kRangePop, any(pop)}, {kNameCategoryA, any(name_category)}, {kNameCategoryW, any(name_category_wide)},
      {kNameOsThreadA, any(name_os_thread)}, {kNameOsThreadW, any(name_os_thread_wide)},
  };
  const Entry core2[] = {
      {kDomainMarkEx, any(domain_mark)}, {kDomainRangeStartEx, any(domain_start)}, {kDomainRangeEnd, any(domain_end)},
      {kDomainRangePushEx, any(domain_push)}, {kDomainRangePop, any(domain_pop)},
      {kDomainResourceCreate, any(create_resource)}, {kDomainResourceDestroy, any(destroy_resource)},
      {kDomainNameCategoryA, any(domain_name_category)}, {kDomainNameCategoryW, any(domain_name_category_wide)},
      {kDomainRegisterStringA, any(register_string)}, {kDomainRegisterStringW, any(register_string_wide)},
      {kDomainCreateA, any(make_handle)}, {kDomainCreateW, any(make_handle_wide)},
      {kDomainDestroy, any(destroy_domain)}, {kInitialize, any(initialize)},
  };
  fill(callbacks, kModuleCore, core, sizeof core / sizeof *core);
  fill(callbacks, kModuleCore2, core2, sizeof core2 / sizeof *core2);
}

}  // namespace

bool is_wanted() {
  Options options;
  Text<256> not_understood;
  parse_options(getenv("PROFGPU_RECORD_OPTIONS"), options, not_understood);
  return options.nvtx;
}

// Counts on in a forked child, so that no number of the parent comes back.
uint64_t next_range() {
  static std::atomic<uint64_t> last_range;
  return last_range.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace profgpu::inject::nvtx

/// Called by every copy of NVTX at its first use. 0: that copy switches itself off for good.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    profgpu::inject::nvtx::GetExportTable get_table) {
  using namespace profgpu::inject;
  if (get_table == nullptr || !nvtx::is_wanted() || !start_recorder("nvtx")) return 0;
  const auto* const callbacks = static_cast<const nvtx::CallbacksTable*>(get_table(nvtx::kCallbacksTable));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return 0;
  nvtx::attach(*callbacks);
  return 1;
}
