// See rival_jax.hpp. Arrays travel in files of a temporary directory, commands in lines
// (rival_jax.py).
#include "tools/bench/rival_jax.hpp"

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

fs::path& chosen_python() {
  static fs::path python;
  return python;
}

/// One Python process, for one row.
class Jax {
 public:
  explicit Jax(const KernelSetup& setup) : setup_(setup) {
    std::string name = (fs::temp_directory_path() / "heddle-jax-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::unavailable, fmt::format("no temporary directory '{}'", name));
    directory_ = name;
    start();
    if (!read_line().starts_with("jax")) {
      throw Error(ErrorCode::unavailable,
                  fmt::format("'{}' has no JAX: install it there (pip install jax)",
                              chosen_python().string()));
    }
    nlohmann::json command{{"program", setup.program.name()}, {"arrays", nlohmann::json::array()}};
    for (std::size_t k = 0; k < setup.arrays.size(); ++k) {
      std::ofstream(file(k), std::ios::binary)
          .write(static_cast<const char*>(setup.arrays[k].data()),
                 static_cast<std::streamsize>(setup.arrays[k].num_bytes()));
      command["arrays"].push_back({{"path", file(k)}, {"shape", setup.tensors[k].dims()}});
    }
    if (const std::string answer = ask(command.dump()); answer != "ready")
      throw Error(ErrorCode::unavailable, fmt::format("JAX: {}", answer));
  }
  Jax(const Jax&) = delete;
  Jax& operator=(const Jax&) = delete;
  ~Jax() {
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
      throw Error(ErrorCode::internal, fmt::format("JAX answered '{}', no time", answer));
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
    std::string python = chosen_python().string();
    std::string script = HEDDLE_BENCH_JAX_SCRIPT;
    std::array<char*, 3> argv{python.data(), script.data(), nullptr};
    std::vector<std::string> variables{
        "OMP_NUM_THREADS=1", "JAX_PLATFORMS=cpu",
        "XLA_FLAGS=--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"};
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

  const KernelSetup& setup_;
  fs::path directory_;
  pid_t process_ = 0;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace

void use_jax_of(fs::path python) { chosen_python() = std::move(python); }

std::optional<Alternative> jax_alternative() {
  if (chosen_python().empty()) return std::nullopt;
  return Alternative{"JAX", Kind::rival, [](const KernelSetup& setup) {
                       const auto jax = std::make_shared<Jax>(setup);
                       return Prepared{[jax](std::size_t count) { return jax->time(count); },
                                       [jax] { jax->fetch(); }};
                     }};
}

}  // namespace heddle::bench
