// Programs: their environment, their places, and advice where a compiler misses a program. Reads
// the process's environment. Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::jit {

/// The environment of a child: this process's environment with `overrides` ("NAME=value") applied,
/// the usual PATH where neither sets PATH, and without variables that make compilers write files
/// for other compiles.
[[nodiscard]] std::vector<std::string> child_environment(const std::vector<std::string>& overrides);
/// The value of `name` for a child: from `overrides`, else from this process's environment.
[[nodiscard]] std::optional<std::string> child_variable(const std::vector<std::string>& overrides,
                                                        std::string_view name);
/// The search path of find_program() for names without a slash, for messages: "PATH=/usr/bin
/// (...)".
[[nodiscard]] std::string searched_path(const std::vector<std::string>& overrides);
/// Advice to append to a message, where a compiler's `output` reports a missing program or a lack
/// of processes; otherwise empty.
[[nodiscard]] std::string missing_program_advice(std::string_view output,
                                                 const std::vector<std::string>& overrides);
/// The executable file of `program`; a name without a slash is searched in the absolute folders of
/// the child's PATH, or in /usr/bin and /bin without PATH.
[[nodiscard]] std::optional<std::filesystem::path> find_program(
    const std::string& program, const std::vector<std::string>& overrides);

}  // namespace heddle::jit
