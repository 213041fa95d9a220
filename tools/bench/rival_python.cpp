// See rival_python.hpp. Arrays travel in files of a temporary directory, commands in lines
// (rival_protocol.py).
#include "tools/bench/rival_python.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "heddle/status.hpp"

namespace heddle::bench {
namespace {

namespace fs = std::filesystem;

/// One Python process, for one row.
class PythonProcess {
 public:
  PythonProcess(const Framework& framework, const KernelSetup& setup)
      : framework_(framework), setup_(setup) {
    std::string name = (fs::temp_directory_path() / "heddle-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::unavailable, fmt::format("no temporary directory '{}'", name));
    directory_ = name;
    start();
    if (!read_line().starts_with(framework.module)) {
      throw Error(ErrorCode::unavailable,
                  fmt::format("'{0}' has no {1}: install it there (pip install {2})",
                              framework.python.string(), framework.name, framework.module));
    }
    nlohmann::json command{{"program", setup.program.name()}, {"arrays", nlohmann::json::array()}};
    for (std::size_t k = 0; k < setup.arrays.size(); ++k) {
      std::ofstream(file(k), std::ios::binary)
          .write(static_cast<const char*>(setup.arrays[k].data()),
                 static_cast<std::streamsize>(setup.arrays[k].num_bytes()));
      command["arrays"].push_back({{"path", file(k)}, {"shape", setup.tensors[k].dims()}});
    }
    if (const std::string answer = ask(command.dump()); answer != "ready")
      throw Error(ErrorCode::unavailable, fmt::format("{}: {}", framework.name, answer));
  }
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;
  ~PythonProcess() {
    std::fclose(to_);  // the end of its input ends it
    std::fclose(from_);
    waitpid(process_, nullptr, 0);
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  double time(std::size_t count) {
    const std::string answer = ask(fmt::format("run {}", count));
    double ns = 0;
    const auto [end, error] = std::from_chars(answer.data(), answer.data() + answer.size(), ns);
    if (error != std::errc())
      throw Error(ErrorCode::internal,
                  fmt::format("{} answered '{}', no time", framework_.name, answer));
    return ns;
  }
  void fetch() {
    static_cast<void>(ask("fetch"));
    const HostArray& result = setup_.arrays.back();
    std::ifstream(file(setup_.arrays.size() - 1), std::ios::binary)
        .read(static_cast<char*>(result.data()), static_cast<std::streamsize>(result.num_bytes()));
  }

 private:
  [[nodiscard]] std::string file(std::size_t k) const {
    return (directory_ / std::to_string(k)).string();
  }

  void start() {
    std::array<int, 2> in{}, out{};
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::exhausted, "no descriptors for a pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string python = framework_.python.string();
    std::string script = std::string(HEDDLE_BENCH_SCRIPTS "/") + framework_.script;
    std::array<char*, 3> argv{python.data(), script.data(), nullptr};
    std::vector<std::string> variables{
        "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "JAX_PLATFORMS=cpu",
        "XLA_FLAGS=--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"};
    // As in rival_openblas.cpp: PyTorch multiplies by OpenBLAS.
    if (__builtin_cpu_supports("avx512f") != 0)
      variables.emplace_back("OPENBLAS_CORETYPE=SkylakeX");
    std::vector<char*> environment;
    for (char** at = environ; *at != nullptr; ++at) environment.push_back(*at);
    for (std::string& each : variables) environment.push_back(each.data());
    environment.push_back(nullptr);
    const int failed =
        posix_spawnp(&process_, python.c_str(), &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
    if (failed != 0)
      throw Error(ErrorCode::unavailable, fmt::format("'{}' cannot be started", python));
  }

  std::string ask(const std::string& command) {
    std::fputs((command + "\n").c_str(), to_);
    std::fflush(to_);
    return read_line();
  }
  /// Without its end; empty when the process is gone.
  std::string read_line() {
    std::string line;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_))
      line += static_cast<char>(c);
    return line;
  }

  const Framework& framework_;
  const KernelSetup& setup_;
  fs::path directory_;
  pid_t process_ = 0;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace

std::span<Framework> frameworks() {
  static std::array all{Framework{"JAX", "jax", "rival_jax.py", {}},
                        Framework{"PyTorch", "torch", "rival_torch.py", {}}};
  return all;
}

std::vector<Alternative> framework_alternatives() {
  std::vector<Alternative> found;
  for (const Framework& each : frameworks()) {
    if (each.python.empty()) continue;
    found.push_back({each.name, Kind::rival, [&each](const KernelSetup& setup) {
                       const auto process = std::make_shared<PythonProcess>(each, setup);
                       return Prepared{
                           [process](std::size_t count) { return process->time(count); },
                           [process] { process->fetch(); }};
                     }});
  }
  return found;
}

}  // namespace heddle::bench
