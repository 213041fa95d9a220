// The cc compiler: C text through the system compiler, as a child process in a private directory.
// Any thread; each build is one child.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "files/ascii.hpp"
#include "files/temp_dir.hpp"
#include "jit/emit/c.hpp"
#include "jit/emit/emit.hpp"
#include "jit/system/limits.hpp"
#include "jit/system/process_room.hpp"
#include "jit/system/programs.hpp"
#include "jit/toolchain/link.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {
namespace {

using std::chrono::steady_clock;

/// A version query takes milliseconds; the limit guards against a compiler that hangs.
constexpr std::chrono::milliseconds version_timeout_max{5'000};

/// Splits "ccache gcc -m64" into words; a command that is an existing file stays whole.
std::vector<std::string> split_command(const std::string& command) {
  std::error_code error;
  if (command.find('/') != std::string::npos && std::filesystem::exists(command, error))
    return {command};
  WordStream words(command);
  std::vector<std::string> argv;
  for (std::string word; words >> word;) argv.push_back(word);
  return argv;
}

class CcToolchain final : public Toolchain {
 public:
  explicit CcToolchain(const ToolOptions& options)
      : options_(options), words_(split_command(options.cc)) {}

  std::string_view name() const noexcept override { return "cc"; }

  Status available() const override {
    if (words_.empty())
      return Status(ErrorCode::unavailable, "HEDDLE_CC is empty (expected a C compiler's command)");
    if (find_program(words_[0], options_.environment)) return check_cflags(added_flags());
    return Status(ErrorCode::unavailable,
                  fmt::format("C compiler '{}' not found{}; install gcc or clang, or set HEDDLE_CC",
                              words_[0], where_searched()));
  }

  std::string describe() const override {
    throw_if_failed(available());
    const std::string version = ask_version(deadline_after(options_.compile_timeout));
    return fmt::format("cc: {} ({}) -O{}", program().string(), version,
                       options_.optimization_level);
  }

  EmittedUnit emit(const CompileUnit& unit) const override {
    EmittedUnit emitted;
    for (const KernelSource& kernel : unit.kernels) emitted.source += heading(kernel, "//");
    emitted.source += emit_c(unit, options_.target);
    emitted.essence = without_comments(emitted.source, "//");
    return emitted;
  }

  Recipe recipe() const override {
    std::string text =
        fmt::format("{} {}\n", fmt::join(own_flags(), " "), fmt::join(options_.cflags, " "));
    for (const char* name : {"GCC_EXEC_PREFIX", "COMPILER_PATH"}) {
      text += child_variable(options_.environment, name).value_or("") + "\n";
    }
    return {std::move(text), stamps()};
  }

  bool recipe_is_whole() const override { return are_self_contained(added_flags()); }

  std::optional<std::string> version(KernelCache& cache, const std::string& files,
                                     const Patience& patience) const override {
    return versions_.find(cache, files, [&] { return ToldVersion{ask_version(patience), {}}; });
  }

  Compiled build(const CompileUnit& unit, const EmittedUnit& emitted,
                 const Patience& patience) const override {
    const auto start = steady_clock::now();
    const std::string& source = emitted.source;
    dump_unit(unit, source);
    throw_if_failed(available());
    const TempDir directory(options_.temp_dir);
    const std::string stem = file_stem(unit.name);
    const auto source_path = directory.path() / (stem + ".c");
    const auto library_path = directory.path() / (stem + ".so");
    write_file(source_path, source, files::temp_dir_advice);
    Command command = command_for(source_path, library_path);
    // Files that a killed compiler leaves behind go with the private directory.
    command.environment.push_back("TMPDIR=" + directory.path().string());
    check_process_room(compiler_processes);
    RunResult result = run_command(command, patience);
    if (!result.killed && !result.exit.success() &&
        result.output.find("internal compiler error") != std::string::npos) {
      // GCC 12.2 fails on some loops that it vectorises: the retry relies on the schedules'
      // vectors.
      command.argv.emplace_back("-fno-tree-vectorize");
      result = run_command(command, patience);
    }
    if (result.killed)
      give_up(unit, source, command, result, patience, steady_clock::now() - start);
    if (!(result.exit.success() || result.exit.kind == Exit::Kind::unknown)) {
      fail(unit, source, command, result, {});
    }
    try {
      Library library;
      library.bytes = read_file(library_path, image_bytes_max);
      library.sum = checksum(library.bytes);
      return compiled(unit, emitted, std::move(library), start);
    } catch (const Error& error) {
      fail(unit, source, command, result, error.status());
    }
  }

 private:
  /// The flags in the compiler's command, and the user's flags.
  std::vector<std::string> added_flags() const {
    std::vector<std::string> flags;
    for (std::size_t k = 1; k < words_.size(); ++k) {
      if (words_[k].starts_with('-') || words_[k].starts_with('@')) flags.push_back(words_[k]);
    }
    flags.insert(flags.end(), options_.cflags.begin(), options_.cflags.end());
    return flags;
  }

  std::vector<std::string> own_flags() const {
    std::vector<std::string> flags = cc_flags(options_);
    // Added flags may need start files (clang's --coverage does), or choose another linker.
    if (added_flags().empty())
      flags.insert(flags.end(), kernel_link_options.begin(), kernel_link_options.end());
    return flags;
  }

  std::filesystem::path program() const {
    return find_program(words_[0], options_.environment).value_or(words_[0]);
  }

  std::string where_searched() const {
    if (words_[0].find('/') != std::string::npos) return "";
    return " on " + searched_path(options_.environment);
  }

  /// Requests untranslated messages, whatever the user's locale.
  std::vector<std::string> environment() const {
    std::vector<std::string> all{"LC_ALL=C"};
    all.insert(all.end(), options_.environment.begin(), options_.environment.end());
    return all;
  }

  Command command_for(const std::filesystem::path& source,
                      const std::filesystem::path& library) const {
    Command command{words_, environment()};
    command.argv[0] = program().string();
    const auto add = [&command](const std::vector<std::string>& flags) {
      command.argv.insert(command.argv.end(), flags.begin(), flags.end());
    };
    add(own_flags());
    add(options_.cflags);
    add({"-o", library.string(), source.string(), "-lm"});
    return command;
  }

  void dump_unit(const CompileUnit& unit, const std::string& source) const {
    if (options_.dump_dir.empty()) return;
    std::string loops;
    for (const KernelSource& kernel : unit.kernels) {
      loops += heading(kernel, "#") + print(*kernel.loop, &kernel.names);
    }
    dump_unoptimized(options_, unit);
    dump(options_.dump_dir, unit.name, "loop", loops);
    dump(options_.dump_dir, unit.name, "c", source);
  }

  /// The stamps of the command's files: "ccache gcc" depends on both. The words are included,
  /// because links named gcc and clang may lead to one program that acts by its name.
  std::string stamps() const {
    std::string text;
    for (const std::string& word : words_) {
      const auto path = find_program(word, options_.environment);
      text += fmt::format("{} {}\n", word, path ? file_stamp(*path) : "");
    }
    return text;
  }

  /// Throws Error when the compiler cannot be run, or gives no answer in time.
  std::string ask_version(const Patience& patience) const {
    Command command{words_, environment()};
    command.argv[0] = program().string();
    command.argv.emplace_back("--version");
    const RunResult result = run_command(
        command, Patience(std::min(patience.deadline(), deadline_after(version_timeout_max)),
                          patience.stop()));
    if (result.killed || !(result.exit.success() || result.exit.kind == Exit::Kind::unknown)) {
      throw Error(ErrorCode::unavailable,
                  fmt::format("C compiler '{}' does not tell its version ({}); mend it, or set "
                              "HEDDLE_CC to another",
                              options_.cc, result.exit.describe()));
    }
    return result.output.substr(0, result.output.find('\n'));
  }

  [[noreturn]] void give_up(const CompileUnit& unit, const std::string& source,
                            const Command& command, const RunResult& result,
                            const Patience& patience, steady_clock::duration elapsed) const {
    if (patience.stopped()) {
      throw Error(ErrorCode::cancelled,
                  fmt::format("the compile of unit '{:.200}' was cancelled", unit.name));
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count();
    throw_failure(
        ErrorCode::deadline,
        fmt::format("it did not end within {} ms and was killed; {}", ms, out_of_time_advice), unit,
        source, command, result, {});
  }

  [[noreturn]] void fail(const CompileUnit& unit, const std::string& source, const Command& command,
                         const RunResult& result, const Status& cause) const {
    throw_failure(ErrorCode::compile_failed, result.exit.describe(), unit, source, command, result,
                  cause);
  }

  [[noreturn]] void throw_failure(ErrorCode code, std::string_view what, const CompileUnit& unit,
                                  const std::string& source, const Command& command,
                                  const RunResult& result, const Status& cause) const {
    throw Error(
        code,
        fmt::format(
            "cc could not compile unit '{:.200}': {}{}{}\n  command: {}\n  {}\n  output: {}",
            unit.name, what, lacks_room(result.output) ? files::temp_dir_advice : "",
            missing_program_advice(result.output, options_.environment),
            fmt::join(command.argv, " "), keep_source(options_.temp_dir, unit.name, "c", source),
            result.output.empty() ? "(none)" : result.output),
        cause);
  }

  /// True if the output, in the language of environment(), reports a full disk or quota.
  static bool lacks_room(const std::string& output) {
    return output.find(errno_text(ENOSPC)) != std::string::npos ||
           output.find(errno_text(EDQUOT)) != std::string::npos;
  }

  ToolOptions options_;
  std::vector<std::string> words_;
  mutable VersionMemory versions_{"cc"};
};

}  // namespace

std::shared_ptr<const Compiler> make_cc_compiler(const ToolOptions& options) {
  return make_compile_service(std::make_unique<CcToolchain>(options), options);
}

}  // namespace heddle::jit
