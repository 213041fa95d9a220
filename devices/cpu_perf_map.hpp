// The names of kernels for external profilers. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "devices/cpu_debug_names.hpp"

namespace heddle::dev {

/// Where perf looks for the names of this process's generated code: /tmp/perf-PID.map.
[[nodiscard]] std::filesystem::path perf_map_path();

/// Adds a line for each function: "START SIZE NAME", numbers in hex without prefix
/// (tools/perf/Documentation/jit-interface.txt in the Linux sources). The functions lie in one
/// library just loaded from an anonymous file, and no thread runs them yet. Throws
/// Error(unavailable) naming the file and the reason.
void write_perf_map(const std::vector<NamedFunction>& functions);

}  // namespace heddle::dev
