#include "present/first_screen.h"

#include <algorithm>

#include "present/wording.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr int kCheckGap = 3;

struct Mark {
  std::string_view text;
  Style style;
};

// One GPU does not communicate: that is no gap in what is known.
bool not_applicable(const Check& check, const Report& report) {
  return check.id == "communication" && report.ranks.size() < 2 && check.verdict == Verdict::kUnknown;
}

Mark mark_of(const Check& check, const Report& report) {
  if (not_applicable(check, report)) return {"· ", Style::kFaint};
  switch (check.verdict) {
    case Verdict::kPass: return {"✓ ", Style::kGood};
    case Verdict::kFail: return {"✗ ", Style::kBad};
    case Verdict::kUnknown: break;
  }
  return {"? ", Style::kFaint};
}

std::string name_of(const Check& check) {
  if (!check.brief.empty()) return check.brief;
  std::string name = check.id;
  for (char& c : name)
    if (c == '-') c = ' ';
  return name;
}

}  // namespace

Lines checklist_lines(const Report& report, const PresentOptions& options) {
  if (report.checklist.empty()) return {};
  Line line("Checklist   ", Style::kStrong);
  const int indent = line.width();
  Lines out;
  for (const Check& check : report.checklist) {
    const Mark mark = mark_of(check, report);
    std::string name = sanitised(name_of(check));
    // On a narrow terminal the verdict stands without its limit.
    if (indent + 2 + display_width(name) > layout_width(options)) name.resize(std::min(name.size(), name.rfind(" (")));
    const int cells = 2 + display_width(name);
    if (line.width() > indent && line.width() + kCheckGap + cells > layout_width(options)) {
      out.push_back(std::move(line));
      line = Line().skip(indent);
    }
    if (line.width() > indent) line.skip(kCheckGap);
    line.add(mark.text, mark.style).add(name, check.verdict == Verdict::kUnknown ? Style::kFaint : Style::kPlain);
  }
  out.push_back(std::move(line));
  return out;
}

}  // namespace profgpu
