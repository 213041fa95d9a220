// See system/programs.hpp.
#include "jit/system/programs.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "files/descriptor.hpp"
#include "jit/system/process_room.hpp"

extern char** environ;

namespace heddle::jit {
namespace {

/// The search path of a host without PATH, as in shells.
constexpr std::string_view usual_path = "/usr/bin:/bin";

/// The environment that children inherit: empty where this process has more rights than its starter
/// (AT_SECURE), as PATH and other variables name programs and files.
char** inherited() noexcept {
  static char* none = nullptr;
  return getauxval(AT_SECURE) != 0 || environ == nullptr ? &none : environ;
}

/// Variables that make GCC write files for the host's build.
constexpr std::string_view for_other_compiles[] = {"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"};

/// Variables with the places of GCC's programs; they take precedence over PATH.
constexpr std::array<const char*, 2> searched_before_path{"GCC_EXEC_PREFIX", "COMPILER_PATH"};

bool names(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

}  // namespace

std::vector<std::string> child_environment(const std::vector<std::string>& overrides) {
  std::vector<std::string> all;
  for (char** entry = inherited(); *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::find(for_other_compiles, name) != std::end(for_other_compiles)) continue;
    if (std::ranges::none_of(overrides, [&](const auto& o) { return names(o, name); }))
      all.emplace_back(text);
  }
  all.insert(all.end(), overrides.begin(), overrides.end());
  // Compilers search their assemblers and linkers on PATH, where the compilers were found.
  if (std::ranges::none_of(all, [](const auto& entry) { return names(entry, "PATH"); }))
    all.push_back(fmt::format("PATH={}", usual_path));
  return all;
}

std::optional<std::string> child_variable(const std::vector<std::string>& overrides,
                                          std::string_view name) {
  for (const std::string& entry : overrides) {
    if (names(entry, name)) return entry.substr(name.size() + 1);
  }
  for (char** entry = inherited(); *entry != nullptr; ++entry) {
    if (names(*entry, name)) return std::string(*entry + name.size() + 1);
  }
  return std::nullopt;
}

std::string searched_path(const std::vector<std::string>& overrides) {
  if (const auto path = child_variable(overrides, "PATH"))
    return fmt::format("PATH={} (absolute folders of it)", *path);
  return fmt::format("{}, as PATH is unset", usual_path);
}

std::string missing_program_advice(std::string_view output,
                                   const std::vector<std::string>& overrides) {
  if (output.find(files::errno_text(EAGAIN)) != std::string_view::npos)
    return process_room_advice();
  for (const std::string_view said : {"cannot execute '", "cannot find 'ld'", "Executable \"ld"}) {
    if (output.find(said) == std::string_view::npos) continue;
    for (const char* name : searched_before_path) {
      const std::string folder = child_variable(overrides, name).value_or("");
      if (folder.empty()) continue;
      return fmt::format(
          "\n  it looked for assembler and linker where {}={} says; unset that, or have it name "
          "their folder",
          name, folder);
    }
    return fmt::format(
        "\n  it looked for assembler and linker on {}; install binutils there, or have PATH name "
        "their folder",
        searched_path(overrides));
  }
  return {};
}

std::optional<std::filesystem::path> find_program(const std::string& program,
                                                  const std::vector<std::string>& overrides) {
  const auto executable = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
  };
  if (program.empty()) return std::nullopt;
  if (program.find('/') != std::string::npos) {
    return executable(program) ? std::optional(std::filesystem::absolute(program)) : std::nullopt;
  }
  const std::string path = child_variable(overrides, "PATH").value_or(std::string(usual_path));
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::filesystem::path directory = path.substr(at, end - at);
    at = end + 1;
    // An empty or relative entry would run any program in the current directory.
    if (directory.is_absolute() && executable(directory / program)) return directory / program;
  }
  return std::nullopt;
}

}  // namespace heddle::jit
