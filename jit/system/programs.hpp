// Programs: what environment they are given, where they are found, and what to do where a compiler
// does not find those that it needs. Reads the process's environment. Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::jit {

/// The environment of a child: this process's, under what `overrides` says ("NAME=value"), with the
/// usual PATH where neither has one, and without what has compilers write files of other compiles.
[[nodiscard]] std::vector<std::string> child_environment(const std::vector<std::string>& overrides);
/// The value of `name` for a child: from `overrides`, else from this process's environment.
[[nodiscard]] std::optional<std::string> child_variable(const std::vector<std::string>& overrides,
                                                        std::string_view name);
/// Where find_program() looks for what has no slash, for messages: "PATH=/usr/bin (...)".
[[nodiscard]] std::string searched_path(const std::vector<std::string>& overrides);
/// What to do, to follow a message, where a compiler says in its `output` that it lacks a program
/// or processes; else empty.
[[nodiscard]] std::string missing_program_advice(std::string_view output,
                                                 const std::vector<std::string>& overrides);
/// The executable file that `program` means, looked up on the child's PATH when it has no slash,
/// in its absolute folders. Without PATH, in /usr/bin and /bin.
[[nodiscard]] std::optional<std::filesystem::path> find_program(
    const std::string& program, const std::vector<std::string>& overrides);

}  // namespace heddle::jit
