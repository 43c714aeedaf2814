#include <algorithm>

#include "base/text_source.h"
#include "trace/import/importer.h"

namespace profgpu {
namespace {

constexpr size_t kSniffedBytes = 64 << 10;

// The start of a file as it can stand in a message: printable, short.
std::string seen(std::string_view head) {
  if (head.empty()) return "is empty";
  std::string text;
  int strange = 0;
  head.remove_prefix(std::min(head.size(), head.find_first_not_of(" \t\r\n")));
  for (const char c : head.substr(0, 24)) {
    const bool printable = c >= ' ' && c < 0x7F;
    strange += !printable && c != '\n' && c != '\t' && c != '\r';
    text.push_back(printable ? c : ' ');
  }
  if (strange > 4) return "is not text";
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return "starts with \"" + text + (head.size() > 24 ? "…" : "") + "\"";
}

}  // namespace

Result<Imported> import_file(const std::string& path, const ImportOptions& options) {
  auto source = open_text(path);
  if (!source) return source.error();
  std::string head(kSniffedBytes, '\0');
  head.resize((*source)->read(head.data(), head.size()));
  if ((*source)->end() == TextSource::End::kUnreadable) return Error{path + ": " + (*source)->problem()};
  if (head.empty() && (*source)->end() != TextSource::End::kComplete)
    return Error{path + " " + (*source)->problem() + ", before anything can be read", "copy or record it again"};
  const int64_t file_bytes = (*source)->file_bytes();
  source = Error{};  // closes the file
  for (const Importer* importer : importers()) {
    if (!importer->sniff(head)) continue;
    auto trace = importer->read(path, options);
    if (!trace) return trace.error();
    return Imported{*std::move(trace), importer, file_bytes};
  }
  return Error{path + ": not a trace that profgpu knows (" + seen(head) + ")", "`profgpu formats` lists what it reads"};
}

}  // namespace profgpu
