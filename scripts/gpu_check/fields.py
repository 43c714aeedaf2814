"""Which of our metrics are compared with which of nvidia-smi's fields, and how far the two may be apart.

A field's value in a row of nvidia-smi agrees if it lies, give or take `absolute` and `relative`, between the least and the
most that we said from `window_s` before that row to `window_s` after it, the neighbours just outside included: the two
programs read at different times, and the driver averages over up to a second.
"""
import bisect
import dataclasses
import re

SHARE = 0.95   # of a field's rows must agree
STATES = {'Active': 1, 'Not Active': 0, 'Yes': 1, 'No': 0, 'Enabled': 1, 'Disabled': 0, 'None': 0, 'Reset': 1, 'Reboot': 2,
          'Drain P2P': 3, 'Drain and Reset': 4}
MIB, MICROSECOND = 1 << 20, 1000


@dataclasses.dataclass(frozen=True)
class Field:
    metric: str
    smi: tuple           # its names, the newest first
    absolute: float = 0  # in the metric's unit
    relative: float = 0
    window_s: float = 0.5
    scale: float = 1     # nvidia-smi's unit in the metric's


def field(metric, smi, *tolerance, **more):
    return Field(metric, tuple(smi.split()), *tolerance, **more)


FIELDS = [
    field('utilization_pct', 'utilization.gpu', 5, 0, 1.5),
    field('memory_utilization_pct', 'utilization.memory', 5, 0, 1.5),
    field('encoder_utilization_pct', 'utilization.encoder', 5, 0, 1.5),
    field('decoder_utilization_pct', 'utilization.decoder', 5, 0, 1.5),
    field('jpeg_utilization_pct', 'utilization.jpeg', 5, 0, 1.5),
    field('ofa_utilization_pct', 'utilization.ofa', 5, 0, 1.5),
    field('memory_total_bytes', 'memory.total', MIB, scale=MIB),
    field('memory_used_bytes', 'memory.used', 2 * MIB, scale=MIB),
    field('memory_free_bytes', 'memory.free', 2 * MIB, scale=MIB),
    field('memory_reserved_bytes', 'memory.reserved', 2 * MIB, scale=MIB),
    field('power_w', 'power.draw.average power.draw', 5, 0.03, 1.5),
    field('power_instant_w', 'power.draw.instant', 10, 0.05),
    field('power_limit_w', 'enforced.power.limit power.limit', 0.01),
    field('power_limit_default_w', 'power.default_limit', 0.01),
    field('power_limit_min_w', 'power.min_limit', 0.01),
    field('power_limit_max_w', 'power.max_limit', 0.01),
    field('temperature_c', 'temperature.gpu', 1, 0, 1),
    field('memory_temperature_c', 'temperature.memory', 1, 0, 1),
    field('temperature_margin_c', 'temperature.gpu.tlimit', 1, 0, 2),
    field('fan_speed_pct', 'fan.speed', 2, 0, 5),
    field('sm_clock_mhz', 'clocks.current.sm', 15, 0.02),
    field('memory_clock_mhz', 'clocks.current.memory', 1, 0, 1),
    field('graphics_clock_mhz', 'clocks.current.graphics', 15, 0.02, 1),
    field('video_clock_mhz', 'clocks.current.video', 15, 0.02, 1),
    field('sm_clock_max_mhz', 'clocks.max.sm', 0.5),
    field('memory_clock_max_mhz', 'clocks.max.memory', 0.5),
    field('graphics_clock_max_mhz', 'clocks.max.graphics', 0.5),
    field('performance_state', 'pstate', 0, 0, 2),
    field('clock_event_reasons', 'clocks_event_reasons.active clocks_throttle_reasons.active', 0, 0, 1),
    field('throttle_power_ns', 'clocks_event_reasons_counters.sw_power_cap', 5e7, scale=MICROSECOND),
    field('throttle_sync_boost_ns', 'clocks_event_reasons_counters.sync_boost', 5e7, scale=MICROSECOND),
    field('throttle_sw_thermal_ns', 'clocks_event_reasons_counters.sw_thermal_slowdown', 5e7, scale=MICROSECOND),
    field('throttle_hw_thermal_ns', 'clocks_event_reasons_counters.hw_thermal_slowdown', 5e7, scale=MICROSECOND),
    field('throttle_hw_power_brake_ns', 'clocks_event_reasons_counters.hw_power_brake_slowdown', 5e7, scale=MICROSECOND),
    field('pcie_generation', 'pcie.link.gen.gpucurrent pcie.link.gen.current', 0, 0, 5),
    field('pcie_generation_max', 'pcie.link.gen.max'),
    field('pcie_width', 'pcie.link.width.current', 0, 0, 5),
    field('pcie_width_max', 'pcie.link.width.max'),
    field('ecc_corrected_errors', 'ecc.errors.corrected.volatile.total', 0, 0, 5),
    field('ecc_uncorrected_errors', 'ecc.errors.uncorrected.volatile.total', 0, 0, 5),
    field('ecc_corrected_errors_lifetime', 'ecc.errors.corrected.aggregate.total', 0, 0, 5),
    field('ecc_uncorrected_errors_lifetime', 'ecc.errors.uncorrected.aggregate.total', 0, 0, 5),
    field('retired_pages_single_bit', 'retired_pages.single_bit_ecc.count', 0, 0, 5),
    field('retired_pages_double_bit', 'retired_pages.double_bit.count', 0, 0, 5),
    field('retired_pages_pending', 'retired_pages.pending', 0, 0, 5),
    field('remapped_rows_corrected', 'remapped_rows.correctable', 0, 0, 5),
    field('remapped_rows_uncorrected', 'remapped_rows.uncorrectable', 0, 0, 5),
    field('remapped_rows_pending', 'remapped_rows.pending', 0, 0, 5),
    field('remapped_rows_failed', 'remapped_rows.failure', 0, 0, 5),
    field('recovery_action', 'gpu_recovery_action', 0, 0, 5),
]


def number(text):
    """Of a cell of nvidia-smi's; None where it says that there is none."""
    if text in STATES:
        return STATES[text]
    if re.fullmatch(r'0x[0-9a-fA-F]+', text):
        return int(text, 16)
    match = re.fullmatch(r'P?(-?\d+(?:\.\d+)?)(?: .{1,6})?', text)
    return float(match.group(1)) if match else None


def distance(want, series, when_ns, window_s):
    """How far `want` is from what `series`, sorted (time, value) pairs, said around `when_ns`."""
    times = [t for t, _ in series]
    first = max(0, bisect.bisect_left(times, when_ns - window_s * 1e9) - 1)
    last = bisect.bisect_right(times, when_ns + window_s * 1e9) + 1
    values = [v for _, v in series[first:last]]
    return max(min(values) - want, want - max(values), 0)


def compare(f, ours, theirs):
    """The row of the results about one field of one device. `ours` and `theirs`: (time_ns, value) pairs in our unit."""
    row = {'metric': f.metric, 'nvidia_smi': f.smi[0], 'absolute': f.absolute, 'relative': f.relative, 'window_s': f.window_s,
           'rows': len(theirs), 'readings': len(ours), 'agreeing_pct': None, 'worst': None, 'ok': None}
    if not ours and not theirs:
        return row | {'said': 'neither says it'}
    if not theirs:
        return row | {'said': 'nvidia-smi does not say it'}
    if not ours:
        return row | {'ok': False, 'said': 'only nvidia-smi says it'}
    off = [(distance(v, ours, t, f.window_s), v) for t, v in theirs]
    agreeing = sum(d <= f.absolute + f.relative * abs(v) for d, v in off)
    row['agreeing_pct'] = round(100 * agreeing / len(off), 2)
    row['worst'] = max(d for d, _ in off)
    row['ok'] = agreeing >= SHARE * len(off)
    return row | {'said': f'{row["agreeing_pct"]} % of {len(off)} rows agree, the worst is {row["worst"]:g} off'}
