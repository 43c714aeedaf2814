#include "analyse/work/device_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json_reader.h"
#include "base/text.h"

namespace profgpu {
namespace {

/// A row of the table. Rates are dense and in tera-operations a second; where products of FP16 can sum up in FP32 or in
/// FP16, at different rates, it is the former, which frameworks use. FP64 and FP32 are those of the fastest units that
/// products of these types run on: on NVIDIA's data center devices FP64 tensor cores, on AMD's the matrix cores.
struct Known {
  std::string_view name;
  /// What a device's name must have, in words; `a|b`: either; `a?`: may have.
  std::string_view words;
  int32_t memory_gib, multiprocessors, clock_mhz, fp16_per_cycle;   // 0: unknown
  double fp64, fp32, tf32, bf16, fp16, fp8, fp4, int8;              // 0: unknown, or not there
  double memory_gbps;
  std::string_view source;
};

constexpr std::string_view kVolta = "NVIDIA Tesla V100 data sheet, specifications";
constexpr std::string_view kVoltaS = "NVIDIA V100 data sheet (V100S), specifications";
constexpr std::string_view kT4 = "NVIDIA T4 data sheet, specifications; Turing architecture white paper, appendix";
constexpr std::string_view kTuring = "NVIDIA Turing GPU architecture white paper, table 1 and appendices";
constexpr std::string_view kA100 = "NVIDIA A100 data sheet, specifications; A100 architecture white paper, table 4";
constexpr std::string_view kA800 = "NVIDIA A100 data sheet, specifications: the A800 is one with slower links";
constexpr std::string_view kA30 = "NVIDIA A30 data sheet, specifications";
constexpr std::string_view kA10 = "NVIDIA A10 data sheet, specifications";
constexpr std::string_view kGa102 = "NVIDIA Ampere GA102 GPU architecture white paper, tables of specifications";
constexpr std::string_view kRtxA = "NVIDIA RTX A5000 and A4000 data sheets, specifications";
constexpr std::string_view kAda = "NVIDIA Ada GPU architecture white paper, appendix A";
constexpr std::string_view kL4 = "NVIDIA L4 data sheet, specifications";
constexpr std::string_view kL40 = "NVIDIA L40 data sheet, specifications";
constexpr std::string_view kL40s = "NVIDIA L40S data sheet, specifications";
constexpr std::string_view kHopper = "NVIDIA H100 architecture white paper, table 2; H100 data sheet";
constexpr std::string_view kH100Nvl = "NVIDIA H100 data sheet, specifications (H100 NVL)";
constexpr std::string_view kH200 = "NVIDIA H200 data sheet, specifications";
constexpr std::string_view kGh200 = "NVIDIA GH200 Grace Hopper data sheet, specifications";
constexpr std::string_view kBlackwell = "NVIDIA Blackwell data sheet, individual GPU specifications";
constexpr std::string_view kBlackwellUltra = "NVIDIA HGX B300 and GB300 NVL72 specifications, per GPU";
constexpr std::string_view kOrin = "NVIDIA Jetson AGX Orin series technical brief, GPU";
constexpr std::string_view kRtxBlackwell = "NVIDIA RTX Blackwell GPU architecture white paper, appendices";
constexpr std::string_view kMi100 = "AMD Instinct MI100 data sheet, performance";
constexpr std::string_view kMi200 = "AMD Instinct MI200 series data sheets, performance; per die, which is one device";
constexpr std::string_view kMi210 = "AMD Instinct MI210 data sheet, performance";
constexpr std::string_view kMi300 = "AMD Instinct MI300A and MI300X data sheets, performance";
constexpr std::string_view kMi325 = "AMD Instinct MI325X data sheet, performance";
constexpr std::string_view kMi350 = "AMD Instinct MI350X and MI355X data sheets, performance";
constexpr std::string_view kRx7900 = "AMD Radeon RX 7900 XTX and XT product specifications";
constexpr std::string_view kGeForce20 = "NVIDIA GeForce RTX 20 series product specifications; Turing white paper's rates";
constexpr std::string_view kGeForce30 = "NVIDIA GeForce RTX 30 series product specifications; GA102 white paper's rates";
constexpr std::string_view kGeForce40 = "NVIDIA GeForce RTX 40 series product specifications; Ada white paper's rates";
constexpr std::string_view kRtxA4500 = "NVIDIA RTX A4500 data sheet, specifications";
constexpr std::string_view kRtxA2000 = "NVIDIA RTX A2000 data sheet, specifications";
constexpr std::string_view kRtx5000Ada = "NVIDIA RTX 5000 Ada Generation data sheet, specifications";
constexpr std::string_view kArc = "Intel Arc graphics product specifications: memory bandwidth; no rates of products";
constexpr std::string_view kMax = "Intel Data Center GPU Max series product brief and technical overview";

// clang-format off
constexpr Known kKnown[] = {
    // name, words, memory, multiprocessors, clock, FP16 per cycle, FP64, FP32, TF32, BF16, FP16, FP8, FP4, INT8, GB/s
    {"V100 SXM2", "V100 SXM2", 0, 80, 1530, 1024, 7.8, 15.7, 0, 0, 125, 0, 0, 0, 900, kVolta},
    {"V100 PCIe", "V100 PCIE", 0, 80, 1380, 1024, 7, 14, 0, 0, 112, 0, 0, 0, 900, kVolta},
    {"V100S PCIe", "V100S PCIE", 32, 80, 1597, 1024, 8.2, 16.4, 0, 0, 130, 0, 0, 0, 1134, kVoltaS},
    {"T4", "T4", 16, 40, 1590, 1024, 0, 8.1, 0, 0, 65, 0, 0, 130, 320, kT4},
    {"RTX 2070", "RTX 2070", 8, 36, 1620, 512, 0, 7.5, 0, 0, 29.9, 0, 0, 119.4, 448, kTuring},
    {"RTX 2060", "RTX 2060", 6, 30, 1680, 512, 0, 6.5, 0, 0, 25.8, 0, 0, 103.2, 336, kGeForce20},
    {"RTX 2070 Super", "RTX 2070 SUPER", 8, 40, 1770, 512, 0, 9.1, 0, 0, 36.2, 0, 0, 145, 448, kGeForce20},
    {"RTX 2080 Super", "RTX 2080 SUPER", 8, 48, 1815, 512, 0, 11.2, 0, 0, 44.6, 0, 0, 178.4, 496, kGeForce20},
    {"RTX 2080", "RTX 2080", 8, 46, 1710, 512, 0, 10.1, 0, 0, 40.3, 0, 0, 161.1, 448, kTuring},
    {"RTX 2080 Ti", "RTX 2080 TI", 11, 68, 1545, 512, 0, 13.4, 0, 0, 53.8, 0, 0, 215.2, 616, kTuring},
    {"Titan RTX", "TITAN RTX", 24, 72, 1770, 1024, 0, 16.3, 0, 0, 130.5, 0, 0, 261, 672, kTuring},
    {"Quadro RTX 6000", "QUADRO RTX 6000|8000", 0, 72, 1770, 1024, 0, 16.3, 0, 0, 130.5, 0, 0, 261, 672, kTuring},
    {"A100 SXM 40 GB", "A100 SXM4? PG509? 200?", 40, 108, 1410, 2048,
     19.5, 19.5, 156, 312, 312, 0, 0, 624, 1555, kA100},
    {"A100 PCIe 40 GB", "A100 PCIE", 40, 108, 1410, 2048, 19.5, 19.5, 156, 312, 312, 0, 0, 624, 1555, kA100},
    {"A100 SXM 80 GB", "A100 SXM4? SXM? PG509? 210?", 80, 108, 1410, 2048,
     19.5, 19.5, 156, 312, 312, 0, 0, 624, 2039, kA100},
    {"A100 PCIe 80 GB", "A100 PCIE", 80, 108, 1410, 2048, 19.5, 19.5, 156, 312, 312, 0, 0, 624, 1935, kA100},
    {"A800 SXM 80 GB", "A800 SXM4?", 80, 108, 1410, 2048, 19.5, 19.5, 156, 312, 312, 0, 0, 624, 2039, kA800},
    {"A800 PCIe 80 GB", "A800 PCIE", 80, 108, 1410, 2048, 19.5, 19.5, 156, 312, 312, 0, 0, 624, 1935, kA800},
    {"A30", "A30", 24, 56, 1440, 2048, 10.3, 10.3, 82, 165, 165, 0, 0, 330, 933, kA30},
    {"A10", "A10", 24, 72, 1695, 1024, 0, 31.2, 62.5, 125, 125, 0, 0, 250, 600, kA10},
    {"A40", "A40", 48, 84, 1740, 1024, 0, 37.4, 74.8, 149.7, 149.7, 0, 0, 299.3, 696, kGa102},
    {"RTX A6000", "RTX A6000", 48, 84, 1800, 1024, 0, 38.7, 77.4, 154.8, 154.8, 0, 0, 309.7, 768, kGa102},
    {"RTX A5000", "RTX A5000", 24, 64, 1695, 1024, 0, 27.8, 55.6, 111.1, 111.1, 0, 0, 222.2, 768, kRtxA},
    {"RTX A4500", "RTX A4500", 20, 56, 1650, 1024, 0, 23.7, 47.3, 94.6, 94.6, 0, 0, 189.2, 640, kRtxA4500},
    {"RTX A2000", "RTX A2000", 0, 26, 1200, 1024, 0, 8, 16, 31.9, 31.9, 0, 0, 63.9, 288, kRtxA2000},
    {"RTX A4000", "RTX A4000", 16, 48, 1560, 1024, 0, 19.2, 38.3, 76.7, 76.7, 0, 0, 153.4, 448, kRtxA},
    {"RTX 3070", "RTX 3070", 8, 46, 1725, 512, 0, 20.3, 20.3, 40.6, 40.6, 0, 0, 162.6, 448, kGa102},
    {"RTX 3060", "RTX 3060", 12, 28, 1777, 512, 0, 12.7, 12.7, 25.5, 25.5, 0, 0, 101.9, 360, kGeForce30},
    {"RTX 3060 Ti", "RTX 3060 TI", 8, 38, 1665, 512, 0, 16.2, 16.2, 32.4, 32.4, 0, 0, 129.6, 448, kGeForce30},
    {"RTX 3070 Ti", "RTX 3070 TI", 8, 48, 1770, 512, 0, 21.7, 21.7, 43.5, 43.5, 0, 0, 174, 608, kGeForce30},
    {"RTX 3080 Ti", "RTX 3080 TI", 12, 80, 1665, 512, 0, 34.1, 34.1, 68.2, 68.2, 0, 0, 272.8, 912, kGeForce30},
    {"RTX 3080", "RTX 3080", 10, 68, 1710, 512, 0, 29.8, 29.8, 59.5, 59.5, 0, 0, 238, 760, kGa102},
    {"RTX 3090", "RTX 3090", 24, 82, 1695, 512, 0, 35.6, 35.6, 71, 71, 0, 0, 284, 936, kGa102},
    {"RTX 3090 Ti", "RTX 3090 TI", 24, 84, 1860, 512, 0, 40, 40, 80, 80, 0, 0, 320, 1008, kAda},
    {"RTX 4060", "RTX 4060", 8, 24, 2460, 512, 0, 15.1, 15.1, 30.2, 30.2, 60.5, 0, 120.9, 272, kGeForce40},
    {"RTX 4060 Ti", "RTX 4060 TI", 0, 34, 2535, 512, 0, 22.1, 22.1, 44.1, 44.1, 88.3, 0, 176.5, 288, kGeForce40},
    {"RTX 4070", "RTX 4070", 12, 46, 2475, 512, 0, 29.1, 29.1, 58.3, 58.3, 116.6, 0, 233.2, 504, kGeForce40},
    {"RTX 4070 Super", "RTX 4070 SUPER", 12, 56, 2475, 512,
     0, 35.5, 35.5, 71, 71, 141.9, 0, 283.9, 504, kGeForce40},
    {"RTX 4070 Ti", "RTX 4070 TI", 12, 60, 2610, 512, 0, 40.1, 40.1, 80.2, 80.2, 160.4, 0, 320.7, 504, kAda},
    {"RTX 4070 Ti Super", "RTX 4070 TI SUPER", 16, 66, 2610, 512,
     0, 44.1, 44.1, 88.2, 88.2, 176.4, 0, 352.8, 672, kGeForce40},
    {"RTX 4080 Super", "RTX 4080 SUPER", 16, 80, 2550, 512,
     0, 52.2, 52.2, 104.4, 104.4, 208.9, 0, 417.8, 736, kGeForce40},
    {"RTX 4080", "RTX 4080", 16, 76, 2505, 512, 0, 48.7, 48.7, 97.5, 97.5, 194.9, 0, 389.9, 716.8, kAda},
    {"RTX 4090", "RTX 4090", 24, 128, 2520, 512, 0, 82.6, 82.6, 165.2, 165.2, 330.3, 0, 660.6, 1008, kAda},
    {"RTX 6000 Ada", "RTX 6000 ADA GENERATION?", 48, 142, 2505, 1024,
     0, 91.1, 182.1, 364.2, 364.2, 728.5, 0, 728.5, 960, kAda},
    {"RTX 5000 Ada", "RTX 5000 ADA GENERATION?", 32, 100, 2550, 1024,
     0, 65.3, 130.6, 261.1, 261.1, 522.2, 0, 522.2, 576, kRtx5000Ada},
    {"L4", "L4", 24, 58, 2040, 1024, 0, 30.3, 60, 121, 121, 242.5, 0, 242.5, 300, kL4},
    {"L40", "L40", 48, 142, 2490, 512, 0, 90.5, 90.5, 181, 181, 362, 0, 362, 864, kL40},
    {"L40S", "L40S", 48, 142, 2520, 1024, 0, 91.6, 183, 362, 362, 733, 0, 733, 864, kL40s},
    {"RTX 5070", "RTX 5070", 12, 48, 2512, 512, 0, 30.9, 30.9, 61.7, 61.7, 123.5, 493.9, 246.9, 672, kRtxBlackwell},
    {"RTX 5070 Ti", "RTX 5070 TI", 16, 70, 2452, 512,
     0, 43.9, 43.9, 87.9, 87.9, 175.8, 703, 351.5, 896, kRtxBlackwell},
    {"RTX 5080", "RTX 5080", 16, 84, 2617, 512, 0, 56.3, 56.3, 112.6, 112.6, 225.1, 900.4, 450.2, 960, kRtxBlackwell},
    {"RTX 5090", "RTX 5090", 32, 170, 2407, 512, 0, 104.8, 104.8, 209.5, 209.5, 419, 1676, 838, 1792, kRtxBlackwell},
    {"H100 PCIe", "H100 PCIE", 80, 114, 1620, 4096, 51, 51, 378, 756, 756, 1513, 0, 1513, 2000, kHopper},
    {"H100 SXM", "H100 SXM5?", 80, 132, 1830, 4096, 67, 67, 494.7, 989.4, 989.4, 1978.9, 0, 1978.9, 3350, kHopper},
    {"H100 NVL", "H100 NVL", 94, 132, 0, 4096, 60, 60, 417.5, 835.5, 835.5, 1670.5, 0, 1670.5, 3900, kH100Nvl},
    {"H200", "H200 SXM5?", 141, 132, 1830, 4096, 67, 67, 494.7, 989.4, 989.4, 1978.9, 0, 1978.9, 4800, kH200},
    {"H200 NVL", "H200 NVL", 141, 132, 0, 4096, 60, 60, 417.5, 835.5, 835.5, 1670.5, 0, 1670.5, 4800, kH200},
    {"GH200 96 GB", "GH200 480GB?", 96, 132, 1830, 4096, 67, 67, 494.7, 989.4, 989.4, 1978.9, 0, 1978.9, 4000, kGh200},
    {"GH200 144 GB", "GH200 144G?", 144, 132, 1830, 4096, 67, 67, 494.7, 989.4, 989.4, 1978.9, 0, 1978.9, 4900, kGh200},
    {"B200", "B200", 180, 148, 0, 8192, 37, 75, 1100, 2250, 2250, 4500, 9000, 4500, 7700, kBlackwell},
    {"GB200", "GB200", 186, 0, 0, 8192, 40, 80, 1250, 2500, 2500, 5000, 10000, 5000, 8000, kBlackwell},
    {"B300", "B300 SXM6? AC?", 270, 0, 0, 8192, 0, 75, 1100, 2250, 2250, 4500, 0, 0, 7700, kBlackwellUltra},
    {"GB300", "GB300", 279, 0, 0, 8192, 0, 80, 1250, 2500, 2500, 5000, 15000, 0, 8000, kBlackwellUltra},
    {"Jetson AGX Orin 64 GB", "ORIN", 64, 16, 1300, 2048, 0, 5.3, 0, 42.5, 42.5, 0, 0, 85, 204.8, kOrin},
    {"MI100", "MI100", 32, 120, 1502, 1024, 11.5, 46.1, 0, 92.3, 184.6, 0, 0, 184.6, 1228.8, kMi100},
    {"MI210", "MI210", 64, 104, 1700, 1024, 45.3, 45.3, 0, 181, 181, 0, 0, 181, 1638.4, kMi210},
    {"MI250, one die", "MI250|MI250X MI250?", 64, 104, 1700, 1024, 45.3, 45.3, 0, 181, 181, 0, 0, 181, 1638.4, kMi200},
    {"MI250X, one die", "MI250X MI250?", 64, 110, 1700, 1024, 47.9, 47.9, 0, 191.5, 191.5, 0, 0, 191.5, 1638.4, kMi200},
    {"MI300A", "MI300A", 128, 228, 2100, 2048, 122.6, 122.6, 490.3, 980.6, 980.6, 1961.2, 0, 1961.2, 5300, kMi300},
    {"MI300X", "MI300X VF?", 192, 304, 2100, 2048,
     163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 0, 2614.9, 5300, kMi300},
    {"MI325X", "MI325X VF?", 256, 304, 2100, 2048,
     163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 0, 2614.9, 6000, kMi325},
    {"MI350X", "MI350X VF?", 288, 256, 2200, 4096,
     72.1, 144.2, 0, 2306.9, 2306.9, 4613.7, 9227.5, 4613.7, 8000, kMi350},
    {"MI355X", "MI355X VF?", 288, 256, 2400, 4096,
     78.6, 157.3, 0, 2516.6, 2516.6, 5033.2, 10066.3, 5033.2, 8000, kMi350},
    {"RX 7900 XT", "RX 7900 XT", 20, 0, 2400, 0, 0, 51.6, 0, 103, 103, 0, 0, 0, 800, kRx7900},
    {"RX 7900 XTX", "RX 7900 XTX", 24, 0, 2500, 0, 0, 61.4, 0, 122.8, 122.8, 0, 0, 0, 960, kRx7900},
    {"Max 1550, both stacks", "MAX 1550", 128, 0, 1600, 0, 52.4, 52.4, 419, 839, 839, 0, 0, 1678, 3276.8, kMax},
    {"Arc A770 16 GB", "ARC A770", 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 560, kArc},
    {"Arc B580", "ARC B580", 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 456, kArc},
    {"Max 1550, one stack", "MAX 1550", 64, 0, 1600, 0, 26.2, 26.2, 209.5, 419.5, 419.5, 0, 0, 839, 1638.4, kMax},
};
// clang-format on

/// What the document of a row says of its last cache and links; what it lacks is 0. Links: both directions of all of
/// them together, as vendors count.
struct KnownParts {
  std::string_view name;
  double cache_mib, link_gbps, host_link_gbps;
};

// clang-format off
constexpr KnownParts kParts[] = {
    // name, last cache in MiB, links to other devices and to the host in GB/s
    {"V100 SXM2", 6, 300, 32},       {"V100 PCIe", 6, 0, 32},          {"V100S PCIe", 6, 0, 32},
    {"T4", 4, 0, 32},                {"RTX 2070", 4, 0, 32},           {"RTX 2080", 4, 50, 32},
    {"RTX 2080 Ti", 5.5, 100, 32},   {"Titan RTX", 6, 100, 32},        {"Quadro RTX 6000", 6, 100, 32},
    {"A100 SXM 40 GB", 40, 600, 64}, {"A100 PCIe 40 GB", 40, 600, 64}, {"A100 SXM 80 GB", 40, 600, 64},
    {"A100 PCIe 80 GB", 40, 600, 64}, {"A800 SXM 80 GB", 40, 400, 64}, {"A800 PCIe 80 GB", 40, 400, 64},
    {"A30", 24, 200, 64},            {"A10", 0, 0, 64},
    {"A40", 6, 112.5, 64},           {"RTX A6000", 6, 112.5, 64},      {"RTX 3070", 4, 0, 64},
    {"RTX 3080", 5, 0, 64},          {"RTX 3090", 6, 112.5, 64},       {"RTX 3090 Ti", 6, 112.5, 64},
    {"RTX 4080", 64, 0, 64},         {"RTX 4090", 72, 0, 64},          {"RTX 6000 Ada", 96, 0, 64},
    {"L4", 0, 0, 64},                {"L40", 0, 0, 64},                {"L40S", 0, 0, 64},
    {"RTX 5080", 64, 0, 128},        {"RTX 5090", 96, 0, 128},         {"H100 PCIe", 50, 600, 128},
    {"H100 SXM", 50, 900, 128},      {"H100 NVL", 0, 600, 128},        {"H200", 0, 900, 128},
    {"H200 NVL", 0, 900, 128},       {"GH200 96 GB", 0, 900, 900},     {"GH200 144 GB", 0, 900, 900},
    {"B200", 0, 1800, 0},            {"GB200", 0, 1800, 900},          {"B300", 0, 1800, 0},
    {"GB300", 0, 1800, 900},         {"MI100", 8, 276, 64},            {"MI210", 8, 300, 64},
    {"MI300X", 256, 896, 128},       {"MI325X", 256, 896, 128},        {"MI350X", 256, 1075, 128},
    {"MI355X", 256, 1075, 128},      {"RX 7900 XT", 80, 0, 64},        {"RX 7900 XTX", 96, 0, 64},
    {"Max 1550, both stacks", 408, 0, 128},
    {"RTX 3080 Ti", 6, 0, 64},       {"RTX 4070 Ti", 48, 0, 64},       {"RTX 5070 Ti", 48, 0, 128},
    {"RTX 5070", 48, 0, 128},
};
// clang-format on

static_assert(std::ranges::all_of(kParts, [](const KnownParts& parts) {
  return std::ranges::any_of(kKnown, [&](const Known& known) { return known.name == parts.name; });
}));

/// What the vendor measured that products reach at most, in tera-operations a second. A data sheet's rate is that of
/// the highest clock, which no power limit allows under such a load.
struct KnownAchievable {
  std::string_view name;
  Precision precision;
  double tera;
};
constexpr KnownAchievable kAchievable[] = {
    {"MI300X", Precision::kBf16, 708}, {"MI300X", Precision::kFp16, 654}, {"MI300X", Precision::kFp8, 1273}};
static_assert(std::ranges::all_of(kAchievable, [](const KnownAchievable& row) {
  return std::ranges::any_of(kKnown, [&](const Known& known) { return known.name == row.name; });
}));
constexpr std::string_view kAchievableSource = "AMD ROCm blog, \"Measuring Max-Achievable FLOPs, part 2\", AMD MAF results";

/// AMD's table "GPU specifications": which devices run the code of an architecture.
struct Architecture {
  std::string_view name, devices;
};
constexpr Architecture kArchitectures[] = {{"gfx908", "MI100"},
                                           {"gfx90a", "MI210, MI250 or MI250X"},
                                           {"gfx942", "MI300A, MI300X or MI325X"},
                                           {"gfx950", "MI350X or MI355X"}};

// Say nothing about the variant.
constexpr std::string_view kIdleWords[] = {"NVIDIA", "TESLA", "GEFORCE", "AMD", "INSTINCT", "RADEON", "TM",
                                           "INTEL", "R", "GPU", "DATA", "CENTER", "HBM2", "HBM2E", "HBM3", "HBM3E",
                                           "OAM", "GRAPHICS"};

std::vector<std::string> words_of_name(std::string_view name) {
  std::vector<std::string> words;
  bool open = false;
  for (const char c : name) {
    const bool part = is_letter(c) || is_digit(c);
    if (part && !open) words.emplace_back();
    if (part) words.back() += upper(c);
    open = part;
  }
  return words;
}

// What a driver calls a device whose product it does not know.
bool names_no_product(const std::vector<std::string>& words) {
  return std::ranges::all_of(words, [](const std::string& w) {
    return std::ranges::count(kIdleWords, std::string_view(w)) != 0;
  });
}

// "80GB"
std::optional<int> gigabytes_in(std::string_view word) {
  int size = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
  return error == std::errc() && std::string_view(end, word.data() + word.size()) == "GB" ? std::optional(size)
                                                                                          : std::nullopt;
}

bool is_named(const Known& known, std::vector<std::string> words) {
  std::erase_if(words, [](const std::string& w) { return std::ranges::count(kIdleWords, std::string_view(w)) != 0; });
  for (const std::string_view part : pieces_of(known.words, ' ')) {
    const bool optional = part.ends_with('?');
    const auto choices = pieces_of(optional ? part.substr(0, part.size() - 1) : part, '|');
    const auto found = std::ranges::find_if(
        words, [&](const std::string& w) { return std::ranges::count(choices, std::string_view(w)) != 0; });
    if (found != words.end()) words.erase(found);
    else if (!optional) return false;
  }
  return std::ranges::all_of(words, [&](const std::string& w) {
    const std::optional<int> size = gigabytes_in(w);
    return size && (known.memory_gib == 0 || *size == known.memory_gib);
  });
}

// A driver keeps some of the memory for itself, and gigabytes are of either kind.
bool fits_size(const Known& known, const DeviceDescription& device) {
  const double size = static_cast<double>(device.memory_bytes) / (1 << 30) / std::max(known.memory_gib, 1);
  if (known.memory_gib > 0 && device.memory_bytes > 0 && (size < 0.88 || size > 1.08)) return false;
  return known.multiprocessors == 0 || device.multiprocessors == 0 || known.multiprocessors == device.multiprocessors;
}

// "AMD Radeon Graphics": memory and multiprocessors tell the product, where both are recorded.
bool is_by_size(const Known& known, const std::vector<std::string>& words, const DeviceDescription& device) {
  return names_no_product(words) && std::ranges::count(words, known.source.substr(0, known.source.find(' '))) != 0 &&
         known.memory_gib > 0 && known.multiprocessors > 0 && device.memory_bytes > 0 && device.multiprocessors > 0;
}

DeviceLimits limits(const Known& known) {
  DeviceLimits all{std::string(known.name), {}, known.memory_gbps, known.multiprocessors, known.clock_mhz,
                   known.fp16_per_cycle, std::string(known.source), 0, 0, 0};
  const auto set = [&](Precision p, double tera) { all.tera[static_cast<size_t>(p)] = tera; };
  set(Precision::kFp64, known.fp64), set(Precision::kFp32, known.fp32), set(Precision::kTf32, known.tf32);
  set(Precision::kBf16, known.bf16), set(Precision::kFp16, known.fp16), set(Precision::kFp8, known.fp8);
  set(Precision::kFp4, known.fp4), set(Precision::kInt8, known.int8);
  for (const KnownAchievable& row : kAchievable) {
    if (row.name != known.name) continue;
    all.achievable_tera[static_cast<size_t>(row.precision)] = row.tera;
    all.achievable_source = kAchievableSource;
  }
  const auto* const parts = std::ranges::find(kParts, known.name, &KnownParts::name);
  if (parts == std::end(kParts)) return all;
  all.cache_bytes = std::llround(parts->cache_mib * (1 << 20));
  all.link_gbps = parts->link_gbps, all.host_link_gbps = parts->host_link_gbps;
  return all;
}

// What holds for each of these, which are as fast.
DeviceLimits any_of(const std::vector<DeviceLimits>& devices) {
  DeviceLimits all = devices.front();
  for (const DeviceLimits& d : devices) {
    if (d.cache_bytes != all.cache_bytes) all.cache_bytes = 0;
    if (d.link_gbps != all.link_gbps) all.link_gbps = 0;
    if (d.host_link_gbps != all.host_link_gbps) all.host_link_gbps = 0;
  }
  all.name = joined(devices, " or ", &DeviceLimits::name);
  return all;
}

// `wrong`: what is wrong with the member of that name.
bool read_rate(JsonReader& in, std::string_view name, double& x, std::string& wrong) {
  std::string_view token;
  const bool is_scalar = in.scalar(token);
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), x);
  const bool is_number = is_scalar && error == std::errc() && end == token.data() + token.size() && std::isfinite(x);
  if (is_number && x > 0) return true;
  wrong = std::string(name) + (is_number ? " is not above 0" : " is not a number");
  return false;
}

std::optional<Precision> precision_called(std::string_view name) {
  for (int i = 1; i < kPrecisions; ++i)
    if (precision_name(static_cast<Precision>(i)) == name) return static_cast<Precision>(i);
  return std::nullopt;
}

std::string precision_names() {
  std::string all;
  for (int i = 1; i < kPrecisions; ++i) append_listed(all, std::string(precision_name(static_cast<Precision>(i))));
  return all;
}

// Members of other names are for others.
bool read_device(JsonReader& in, DeviceLimits& device, std::string& wrong) {
  return read_object(in, [&](std::string_view key) {
    if (key == "memory_gbps") return read_rate(in, key, device.memory_gbps, wrong);
    if (key == "name") return read_text(in, device.name);
    if (key == "uuid" && in.peek() == '"') return read_text(in, device.uuid);
    if (key != "tflops") return in.skip_value();
    return read_object(in, [&](std::string_view precision) {
      const std::optional<Precision> p = precision_called(precision);
      if (!p) wrong = fmt::format("unknown precision \"{}\"; known: {}", precision, precision_names());
      return p && read_rate(in, "tflops." + std::string(precision), device.tera[static_cast<size_t>(*p)], wrong);
    });
  });
}

// "all_reduce_in_place_1024" is of all_reduce.
void add_collective(std::string_view name, int64_t ranks, double gbps, std::vector<CollectiveRate>& all) {
  name = name.substr(0, name.find_last_of('_'));
  if (name.ends_with("_in_place")) name.remove_suffix(std::string_view("_in_place").size());
  const auto known =
      std::ranges::find_if(all, [&](const CollectiveRate& c) { return c.op == name && c.ranks == ranks; });
  CollectiveRate& rate = known == all.end() ? all.emplace_back(std::string(name), ranks) : *known;
  rate.busbw_gbps = std::max(rate.busbw_gbps, gbps);
}

int64_t whole_ranks(double ranks) {
  constexpr double kMost = 1e9;
  return ranks > 0 && ranks < kMost ? static_cast<int64_t>(ranks) : 0;
}

// A figure of profgpu bench.
bool read_figure(JsonReader& in, MeasuredMachine& all) {
  std::string benchmark, name, used_by;
  StorageRate rate;
  double ranks = 0;
  const bool read = read_object(in, [&](std::string_view key) {
    const bool text = in.peek() == '"';
    if (key == "benchmark" && text) return read_text(in, benchmark);
    if (key == "name" && text) return read_text(in, name);
    if (key == "used_by" && text) return read_text(in, used_by);
    if (key == "label" && text) return read_text(in, rate.label);
    if (key == "unit" && text) return read_text(in, rate.unit);
    std::string_view token;
    double* const number = key == "value" ? &rate.value : key == "ranks" ? &ranks : nullptr;
    if (!number || text || in.peek() == '{' || in.peek() == '[') return in.skip_value();
    if (!in.scalar(token)) return false;
    std::from_chars(token.data(), token.data() + token.size(), *number);
    return true;
  });
  if (!used_by.empty()) return read;   // another process disturbed it: no limit of the machine
  if (benchmark == "collectives" && rate.unit == "GB/s")
    add_collective(name, whole_ranks(ranks), rate.value, all.collectives);
  if (benchmark == "storage" && rate.value > 0) all.storage.push_back(std::move(rate));
  return read;
}

}  // namespace

namespace {

// At `rate` operations and `memory_gbps` bytes per nanosecond.
std::optional<double> shortest_ns(const OpWork& work, double rate, double memory_gbps) {
  const int64_t flops = work.needed_flops();
  const bool nothing = flops <= 0 && work.bytes <= 0;   // some inputs were not recorded: something must move
  if (flops < 0 || work.bytes < 0 || nothing || work.lower_bound) return std::nullopt;
  if (work.bytes > 0 && memory_gbps <= 0) return std::nullopt;
  if (flops > 0 && rate <= 0) return std::nullopt;
  const double compute_ns = flops > 0 ? static_cast<double>(flops) / rate : 0;
  return std::max(compute_ns, work.bytes > 0 ? static_cast<double>(work.bytes) / memory_gbps : 0);
}

}  // namespace

std::optional<double> DeviceLimits::least_ns(const OpWork& work) const {
  return shortest_ns(work, operations_per_ns(work.precision), memory_gbps);
}

std::optional<double> DeviceLimits::achievable_ns(const OpWork& work) const {
  return shortest_ns(work, achievable_per_ns(work.precision), memory_gbps);
}

bool DeviceLimits::computes_longer(const OpWork& work) const {
  return static_cast<double>(work.needed_flops()) * bytes_per_ns() >
         static_cast<double>(work.bytes) * operations_per_ns(work.precision);
}

std::optional<double> DeviceLimits::peak_pct(const OpWork& work, int64_t ns) const {
  const double rate = operations_per_ns(work.precision);
  if (work.needed_flops() < 0 || rate <= 0 || ns <= 0) return std::nullopt;
  return 100 * static_cast<double>(work.needed_flops()) / (rate * static_cast<double>(ns));
}

const std::vector<DeviceLimits>& known_limits() {
  static const std::vector<DeviceLimits> all = [] {
    std::vector<DeviceLimits> rows;
    for (const Known& known : kKnown) rows.push_back(limits(known));
    return rows;
  }();
  return all;
}

std::string_view devices_of_architecture(std::string_view name) {
  const auto* const found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == std::end(kArchitectures) ? "" : found->devices;
}

FoundLimits find_limits(const DeviceDescription& device) {
  const std::vector<std::string> words = words_of_name(device.name);
  if (words.empty()) return {std::nullopt, "the trace does not name the device"};
  std::vector<DeviceLimits> fitting;
  bool named = false;
  for (const Known& known : kKnown) {
    if (words_of_name(known.name) == words && fits_size(known, device)) return {limits(known), ""};
    const bool by_size = is_by_size(known, words, device);
    if (!by_size && !is_named(known, words)) continue;
    named = named || !by_size;
    if (fits_size(known, device)) fitting.push_back(limits(known));
  }
  const std::string name(device.name);
  if (!named && fitting.empty()) return {std::nullopt, "no peak rates are known for " + name};
  if (fitting.empty())
    return {std::nullopt, name + " has other multiprocessors or memory than a whole one: a part of it, or a variant"};
  const auto differs = [&](const DeviceLimits& other) {
    return other.tera != fitting.front().tera || other.memory_gbps != fitting.front().memory_gbps;
  };
  if (std::ranges::any_of(fitting, differs))
    return {std::nullopt, fmt::format("{} may be {}", name, joined(fitting, " or ", &DeviceLimits::name))};
  return {named ? fitting.front() : any_of(fitting), ""};
}

Result<MeasuredMachine> measured_machine(std::string text, std::string_view path) {
  MeasuredMachine all;
  all.path = path;
  int64_t ranks = 0;
  std::string wrong;
  std::string schema;
  bool simulated = false;
  JsonReader in = JsonReader::over(text);
  const bool read = read_object(in, [&](std::string_view key) {
    if (key == "figures") return read_array(in, [&] { return read_figure(in, all); });
    if (key == "ranks") return read_array(in, [&] { return ++ranks, in.skip_value(); });
    if (key == "schema" && in.peek() == '"') return read_text(in, schema);
    if (key == "simulated" && in.peek() == 't') return simulated = true, in.skip_value();
    if (key != "devices") return in.skip_value();
    return read_array(in, [&] {
      DeviceLimits& device = all.devices.emplace_back();
      device.source = path;
      return read_device(in, device, wrong);
    });
  });
  const bool of_storage = schema == "profgpu.bench.v1" && !all.storage.empty();
  if (!read || in.peek() != 0 || (all.devices.empty() && !of_storage))
    return Error{std::string(path) + ": " + (wrong.empty() ? "not a file of peak rates" : wrong),
                 R"(it looks like {"devices": [{"name": "NVIDIA H100 80GB HBM3", "tflops": {"bf16": 800}, )"
                 R"("memory_gbps": 3000}]})"};
  // Older results do not say it of each figure.
  for (CollectiveRate& rate : all.collectives)
    if (rate.ranks == 0) rate.ranks = ranks > 0 ? ranks : static_cast<int64_t>(all.devices.size());
  if (simulated)
    for (DeviceLimits& device : all.devices) device.source += " (simulated: no device gave these rates)";
  return all;
}

const DeviceLimits* limits_called(std::span<const DeviceLimits> all, std::string_view device_name) {
  for (const DeviceLimits& device : all)
    if (device.name == device_name) return &device;
  for (const DeviceLimits& device : all)
    if (device.name.empty()) return &device;
  return nullptr;
}

const DeviceLimits* limits_of_uuid(std::span<const DeviceLimits> all, std::string_view uuid) {
  for (const DeviceLimits& device : all)
    if (!uuid.empty() && device.uuid == uuid && (device.memory_gbps > 0 || device.tera != decltype(device.tera){}))
      return &device;
  return nullptr;
}

}  // namespace profgpu
