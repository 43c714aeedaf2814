// What the screen is about: the newest view, what was before, what should be said of it, and what the user chose. No
// terminal and no clock in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rules/rule.h"
#include "watch/live/live_view.h"
#include "watch/top/frame.h"
#include "watch/top/history.h"
#include "watch/top/process_list.h"

namespace profgpu {

struct DeviceAdvice : Advice {
  size_t device = 0;             ///< position in the view
};

/// Worst first, then by device.
std::vector<DeviceAdvice> advice_on(const LiveView& view, const Histories& histories);

enum class TopPage : uint8_t { kOverview, kDevice, kTopology, kUsers, kHelp };
/// What the lowest line asks for.
enum class Question : uint8_t { kNone, kFilter, kInterval, kSignal, kNice, kSure };

/// What the user wants done to a process.
struct ProcessCommand {
  int64_t pid = 0;                    ///< in our /proc
  std::optional<int64_t> start_ns;    ///< of the process that was meant, so that no other with its number is hit
  int signal = 0;                     ///< 0: a new nice value instead
  int nice = 0;
  std::string what;                   ///< "SIGTERM to 4711 python train.py"
};

/// Signals by the letter that chooses them.
struct SignalChoice {
  char letter;
  int signal;
  std::string_view name;
};
const std::vector<SignalChoice>& signal_choices();

class TopModel {
 public:
  explicit TopModel(int64_t interval_ns, ProcessOrder order = {})
      : interval_ns_(interval_ns), order_(std::move(order)) {}

  /// A newer view of the same devices.
  void take(LiveView view);
  void take(LiveTopology topology) { topology_ = std::move(topology); }
  /// False: the user leaves.
  bool press(const KeyPress& key);
  bool click(const Hit& hit);
  /// What is to be done now, once.
  std::optional<ProcessCommand> next_command();
  /// A line for the user, until the next key.
  void say(std::string message) { message_ = std::move(message); }

  [[nodiscard]] const LiveView& view() const { return view_; }
  [[nodiscard]] const Histories& histories() const { return histories_; }
  [[nodiscard]] const std::vector<DeviceAdvice>& advice() const { return advice_; }
  [[nodiscard]] const LiveTopology& topology() const { return topology_; }
  [[nodiscard]] const std::vector<ProcessEntry>& processes() const { return entries_; }
  [[nodiscard]] const ProcessOrder& order() const { return order_; }
  [[nodiscard]] TopPage page() const { return page_; }
  [[nodiscard]] size_t device() const { return device_; }      ///< that is chosen
  /// Where the chosen process stands in processes().
  [[nodiscard]] std::optional<size_t> selected() const;
  [[nodiscard]] Question question() const { return question_; }
  [[nodiscard]] const std::string& typed() const { return typed_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  [[nodiscard]] const ProcessCommand& command() const { return command_; }
  [[nodiscard]] bool paused() const { return paused_; }
  /// Between samples, as the user wants it by now.
  [[nodiscard]] int64_t interval_ns() const { return interval_ns_; }

 private:
  void list();
  void move(int by);
  void choose_device(int by);
  void turn_to(TopPage page) { page_ = page_ == page ? TopPage::kOverview : page, list(); }
  void sort_by(ProcessColumn column);
  void next_column(int by);
  bool press_character(uint32_t c);
  void press_sort(uint32_t c);
  void step_interval(bool longer);
  void answer(const KeyPress& key);
  void answer_filter(const KeyPress& key);
  void answer_interval(const KeyPress& key);
  void answer_nice(const KeyPress& key);
  void answer_signal(uint32_t c);
  void ask_about_process(Question question);
  void escape();

  int64_t interval_ns_;
  ProcessOrder order_;
  LiveView view_;
  Histories histories_;
  std::vector<DeviceAdvice> advice_;
  LiveTopology topology_;
  std::vector<ProcessEntry> entries_;   // into view_

  TopPage page_ = TopPage::kOverview;
  size_t device_ = 0;
  std::optional<ProcessKey> selected_;
  size_t selected_at_ = 0;              // where it was, should it go
  Question question_ = Question::kNone;
  std::string typed_, message_;         // typed_: the answer so far
  ProcessCommand command_;
  bool sure_ = false, paused_ = false;
};

/// The screen as it should be now. `height` 0: as high as it gets, for a frame that is printed, without keys.
Frame top_frame(const TopModel& model, int width, int height);

}  // namespace profgpu
