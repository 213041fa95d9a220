// `heddle tune --machine`: measures the machine and keeps its profile. One thread.
#pragma once

#include <filesystem>
#include <string>

#include "jit/machine/measure.hpp"

namespace heddle::tools {

struct TuneReport {
  std::string text;
  bool ok = true;  ///< the measurement was stored
};

/// Measures this machine, within 5 s, and stores its profile in the folder of the kernel cache if
/// the repetitions agree. Throws Error: failed_precondition when the cache is switched off,
/// unavailable when the folder is not to be trusted or cannot be written, or no thread starts.
[[nodiscard]] TuneReport tune_machine(bool json, bool colour);
/// The second half: stores the measurement in `folder`, if its repetitions agree, and reports the
/// result.
[[nodiscard]] TuneReport keep_if_it_agrees(const jit::MeasuredMachine& measured,
                                           const std::filesystem::path& folder, bool json,
                                           bool colour);

}  // namespace heddle::tools
