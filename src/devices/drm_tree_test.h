// For tests: a tree of /sys and /proc as the kernel's documents describe them, in a temporary folder.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/clock.h"
#include "devices/backend.h"

namespace profgpu {

class DrmTree {
 public:
  DrmTree() {
    std::string path = std::filesystem::temp_directory_path() / "profgpu_sysfs_XXXXXX";
    root_ = ::mkdtemp(path.data()) ? path : "";
    std::filesystem::create_directories(root_ + "/sys/class/drm");
    write("proc/sys/kernel/osrelease", "6.12.0-test\n");
    ::setenv("PROFGPU_SYSFS_ROOT", (root_ + "/sys").c_str(), 1);
    ::setenv("PROFGPU_PROC_ROOT", (root_ + "/proc").c_str(), 1);
  }
  ~DrmTree() {
    ::unsetenv("PROFGPU_SYSFS_ROOT"), ::unsetenv("PROFGPU_PROC_ROOT");
    std::filesystem::remove_all(root_);
  }
  DrmTree(const DrmTree&) = delete;
  DrmTree& operator=(const DrmTree&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_ + "/" + path); }

  void card(const std::string& name, const std::string& vendor, const std::string& device, const std::string& driver,
            const std::string& pci) const {
    const std::string folder = "sys/class/drm/" + name + "/device/";
    write(folder + "vendor", "0x" + vendor + "\n");
    write(folder + "device", "0x" + device + "\n");
    write(folder + "uevent", "DRIVER=" + driver + "\nPCI_CLASS=38000\nPCI_ID=" + vendor + ":" + device +
                                 "\nPCI_SLOT_NAME=" + pci + "\nMODALIAS=pci:v0000\n");
    write(folder + "numa_node", "1\n");
    write(folder + "hwmon/hwmon4/name", driver + "\n");
  }
  /// A file in the card's device folder, and in its sensors'.
  void device(const std::string& card, const std::string& file, const std::string& text) const {
    write("sys/class/drm/" + card + "/device/" + file, text);
  }
  void hwmon(const std::string& card, const std::string& file, const std::string& text) const {
    device(card, "hwmon/hwmon4/" + file, text);
  }
  /// An open file of a card.
  void client(int pid, int fd, const std::string& fdinfo, const std::string& node = "/dev/dri/renderD128") const {
    const std::string folder = root_ + "/proc/" + std::to_string(pid);
    std::filesystem::create_directories(folder + "/fd");
    std::filesystem::remove(folder + "/fd/" + std::to_string(fd));
    std::filesystem::create_symlink(node, folder + "/fd/" + std::to_string(fd));
    write("proc/" + std::to_string(pid) + "/fdinfo/" + std::to_string(fd), "pos:\t0\nflags:\t02100002\n" + fdinfo);
  }
  /// The kernel's threads are in sight: no container.
  void host() const { write("proc/2/comm", "kthreadd\n"), std::filesystem::create_directories(root_ + "/proc/2/fd"); }

  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  std::string root_;
};

/// One reading of everything; the last value of each metric.
struct OneReading {
  OneReading(Backend& backend, uint32_t device, int64_t now_ns, bool everything = true, bool processes = true) {
    reading.device = device, reading.time_ns = now_ns + 1'000'000'000'000'000'000;
    const Status status = backend.read({now_ns, processes, everything}, reading);
    error = status ? "" : status.error().message;
    for (const Sample& s : reading.samples) values[s.metric] = s.value;
  }
  [[nodiscard]] std::optional<double> operator[](Metric metric) const {
    const auto at = values.find(metric);
    return at == values.end() ? std::nullopt : std::optional(at->second);
  }
  Reading reading;
  std::map<Metric, double> values;
  std::string error;
};

}  // namespace profgpu
