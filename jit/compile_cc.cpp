// The cc compiler: C text through the system compiler, as a child process in a private directory.
// compile() may be called from any thread at once; each call is one child.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <sstream>

#include "jit/emit_c.hpp"
#include "jit/module_loader.hpp"
#include "jit/process.hpp"
#include "jit/temp_dir.hpp"

namespace heddle::jit {
namespace {

using std::chrono::steady_clock;

/// Asking a compiler for its version takes milliseconds; a compiler that hangs shall not hang us.
constexpr std::chrono::milliseconds version_timeout_max{5'000};

/// "gcc" or "ccache gcc -m64": a file of that very name, else words.
std::vector<std::string> split_command(const std::string& command) {
  std::error_code error;
  if (command.find('/') != std::string::npos && std::filesystem::exists(command, error))
    return {command};
  std::istringstream words(command);
  std::vector<std::string> argv;
  for (std::string word; words >> word;) argv.push_back(word);
  return argv;
}

/// Both CPU compilers must give the same bits: nothing is contracted, and functions of the C
/// library are called, never folded or replaced. Strict aliasing is off because views may look at
/// one buffer through two types.
std::vector<std::string> own_flags(const ToolOptions& options) {
  std::vector<std::string> flags{fmt::format("-O{}", options.optimization_level)};
#if defined(__x86_64__)
  flags.emplace_back("-march=native");
#else
  flags.emplace_back("-mcpu=native");
#endif
  for (const char* flag :
       {"-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-fwrapv", "-fno-strict-aliasing",
        "-fno-builtin", "-fno-math-errno", "-fno-trapping-math"}) {
    flags.emplace_back(flag);
  }
  if (options.fast_math) {
    // Not -ffast-math: linking with it makes the whole process flush denormals.
    for (const char* flag :
         {"-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-ffp-contract=fast"}) {
      flags.emplace_back(flag);
    }
  } else {
    flags.emplace_back("-ffp-contract=off");
  }
  return flags;
}

class CcCompiler final : public Compiler {
 public:
  explicit CcCompiler(const ToolOptions& options)
      : options_(options), words_(split_command(options.cc)) {}

  std::string_view name() const noexcept override { return "cc"; }
  Target target() const noexcept override { return options_.target; }

  Status available() const override {
    if (words_.empty())
      return Status(ErrorCode::unavailable, "HEDDLE_CC is empty (expected a C compiler's command)");
    if (find_program(words_[0], options_.environment)) return {};
    return Status(ErrorCode::unavailable,
                  fmt::format("C compiler '{}' not found{}; install gcc or clang, or set HEDDLE_CC",
                              words_[0], where_searched()));
  }

  std::string describe() const override {
    const std::scoped_lock lock(describe_mutex_);
    if (!description_.empty()) return description_;
    const auto path = words_.empty() ? std::nullopt : find_program(words_[0], options_.environment);
    if (!path) return fmt::format("cc: {}", available().message());
    Command command{words_, environment()};
    command.argv[0] = path->string();
    command.argv.emplace_back("--version");
    std::string version;
    try {
      const RunResult result =
          run_command(command, std::min(options_.compile_timeout, version_timeout_max));
      version = result.exit.success() || result.exit.kind == Exit::Kind::unknown
                    ? result.output.substr(0, result.output.find('\n'))
                    : "does not tell its version: " + result.exit.describe();
    } catch (const Error& error) {
      version = error.status().message();
    }
    description_ =
        fmt::format("cc: {} ({}) -O{}", path->string(), version, options_.optimization_level);
    return description_;
  }

  std::shared_ptr<const Module> compile(const CompileUnit& unit) const override {
    const auto start = steady_clock::now();
    std::string source = emit_c(unit, options_.target);
    dump_unit(unit, source);
    throw_if_failed(available());
    const TempDir directory(options_);
    const std::string stem = file_stem(unit.name);
    const auto source_path = directory.path() / (stem + ".c");
    const auto library_path = directory.path() / (stem + ".so");
    write_file(source_path, source);
    Command command = command_for(source_path, library_path);
    // What the compiler drops when it is killed goes with our directory.
    command.environment.push_back("TMPDIR=" + directory.path().string());
    const RunResult result = run_command(command, options_.compile_timeout);
    if (result.timed_out || !(result.exit.success() || result.exit.kind == Exit::Kind::unknown)) {
      fail(unit, source, command, result, {});
    }
    try {
      Library library;
      library.bytes = read_file(library_path, library_bytes_max);
      library.sum = checksum(library.bytes);
      ModuleInfo info{unit.name, {}, source, steady_clock::now() - start};
      for (const KernelSource& kernel : unit.kernels) info.kernels.push_back(kernel.name);
      return load_module(library, std::move(info));
    } catch (const Error& error) {
      fail(unit, source, command, result, error.status());
    }
  }

 private:
  std::string where_searched() const {
    if (words_[0].find('/') != std::string::npos) return "";
    return fmt::format(" on PATH={}",
                       child_variable(options_.environment, "PATH").value_or("(unset)"));
  }

  /// Messages in one language, whatever the user's.
  std::vector<std::string> environment() const {
    std::vector<std::string> all{"LC_ALL=C"};
    all.insert(all.end(), options_.environment.begin(), options_.environment.end());
    return all;
  }

  Command command_for(const std::filesystem::path& source,
                      const std::filesystem::path& library) const {
    Command command{words_, environment()};
    command.argv[0] = find_program(words_[0], options_.environment).value_or(words_[0]).string();
    const auto add = [&command](const std::vector<std::string>& flags) {
      command.argv.insert(command.argv.end(), flags.begin(), flags.end());
    };
    add(own_flags(options_));
    add(options_.cflags);
    add({"-o", library.string(), source.string(), "-lm"});
    return command;
  }

  void dump_unit(const CompileUnit& unit, const std::string& source) const {
    if (options_.dump_dir.empty()) return;
    std::string loops;
    for (const KernelSource& kernel : unit.kernels) {
      loops += fmt::format("# kernel {}\n{}", kernel.name, print(*kernel.loop, &kernel.names));
    }
    dump(options_, unit.name, "loop", loops);
    dump(options_, unit.name, "c", source);
  }

  [[noreturn]] void fail(const CompileUnit& unit, const std::string& source, const Command& command,
                         const RunResult& result, const Status& cause) const {
    const std::string what = result.timed_out
                                 ? fmt::format("it did not end within {} ms and was killed",
                                               options_.compile_timeout.count())
                                 : result.exit.describe();
    throw Error(
        result.timed_out ? ErrorCode::deadline : ErrorCode::compile_failed,
        fmt::format("cc could not compile unit '{:.200}': {}\n  command: {}\n  {}\n  output: {}",
                    unit.name, what, fmt::join(command.argv, " "),
                    keep_source(options_, unit.name, "c", source),
                    result.output.empty() ? "(none)" : result.output),
        cause);
  }

  ToolOptions options_;
  std::vector<std::string> words_;
  mutable std::mutex describe_mutex_;
  mutable std::string description_;  // guarded by describe_mutex_
};

}  // namespace

std::shared_ptr<const Compiler> make_cc_compiler(const ToolOptions& options) {
  return std::make_shared<CcCompiler>(options);
}

}  // namespace heddle::jit
