// See rival_python.hpp. Arrays travel in files of a temporary directory, commands in lines
// (rival_protocol.py).
#include "tools/bench/rival_python.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "heddle/status.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/rival_openblas.hpp"

namespace heddle::bench {
namespace {

namespace fs = std::filesystem;

/// A temporary directory, removed with its contents.
class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "heddle-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::unavailable, fmt::format("no temporary directory '{}'", name));
    path_ = name;
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(std::size_t k) const {
    return (path_ / std::to_string(k)).string();
  }

 private:
  fs::path path_;
};

/// A Python process that answers each line with a line.
class Python {
 public:
  Python(const Framework& framework, int threads) {
    std::array<int, 2> in{}, out{};
    if (pipe2(in.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::exhausted, "no descriptors for a pipe");
    to_.reset(fdopen(in[1], "w"));
    const Descriptor input{in[0]};
    if (pipe2(out.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::exhausted, "no descriptors for a pipe");
    from_.reset(fdopen(out[0], "r"));
    const Descriptor output{out[1]};
    start(framework, threads, input.number, output.number);
  }
  Python(const Python&) = delete;
  Python& operator=(const Python&) = delete;
  ~Python() {
    to_.reset();  // closing its input ends the process
    from_.reset();
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }

  std::string ask(const std::string& command) {
    std::fputs((command + "\n").c_str(), to_.get());
    std::fflush(to_.get());
    return read_line();
  }
  /// Without the line's end; empty when the process is gone.
  std::string read_line() {
    std::string line;
    for (int c = std::fgetc(from_.get()); c != EOF && c != '\n'; c = std::fgetc(from_.get()))
      line += static_cast<char>(c);
    return line;
  }

 private:
  struct Descriptor {
    int number;
    ~Descriptor() { close(number); }
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  /// Settings given to the process, whatever this process has: the number of threads, and reuse of
  /// memory. The user's choice of OpenBLAS's kernels stays.
  static std::vector<std::string> variables(int threads) {
    std::vector<std::string> chosen{
        fmt::format("OMP_NUM_THREADS={}", threads),
        fmt::format("OPENBLAS_NUM_THREADS={}", threads),
        "JAX_PLATFORMS=cpu",
        fmt::format("XLA_FLAGS=--xla_cpu_multi_thread_eigen={} intra_op_parallelism_threads={}",
                    threads > 1, threads),
        "MALLOC_MMAP_MAX_=0",
        "MALLOC_TRIM_THRESHOLD_=17179869184",
    };
    // PyTorch multiplies through OpenBLAS.
    if (std::getenv("OPENBLAS_CORETYPE") == nullptr && openblas_core() != nullptr)
      chosen.push_back(fmt::format("OPENBLAS_CORETYPE={}", openblas_core()));
    for (char** at = environ; *at != nullptr; ++at) {
      const std::string_view each = *at;
      const std::string_view name = each.substr(0, each.find('=') + 1);
      if (std::ranges::none_of(chosen, [&](const auto& one) { return one.starts_with(name); }))
        chosen.emplace_back(each);
    }
    return chosen;
  }

  void start(const Framework& framework, int threads, int input, int output) {
    std::optional<Unpinned> on_all;  // the process inherits the permitted processors
    if (threads > 1) on_all.emplace();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string python = framework.python.string();
    std::string script = std::string(HEDDLE_BENCH_SCRIPTS "/") + framework.script;
    std::array<char*, 3> argv{python.data(), script.data(), nullptr};
    std::vector<std::string> variables = Python::variables(threads);
    std::vector<char*> environment;
    for (std::string& each : variables) environment.push_back(each.data());
    environment.push_back(nullptr);
    const int failed =
        posix_spawnp(&process_, python.c_str(), &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
      process_ = 0;
      throw Error(ErrorCode::unavailable, fmt::format("'{}' cannot be started", python));
    }
  }

  std::unique_ptr<std::FILE, Close> to_, from_;
  pid_t process_ = 0;
};

/// A framework's process, used by several rows in turn; started by the first row.
class FrameworkProcess {
 public:
  FrameworkProcess(Framework& framework, int threads) : framework_(framework), threads_(threads) {}

  [[nodiscard]] const char* name() const { return framework_.name; }
  /// Waits until the process's threads sleep: OpenMP threads look for work for some milliseconds
  /// after each call, on processors that the other side of a row is about to use.
  void leave_processors() const {
    if (threads_ > 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string ask(const std::string& command) {
    if (!python_) start();
    return python_->ask(command);
  }

 private:
  void start() {
    auto python = std::make_unique<Python>(framework_, threads_);
    framework_.version = python->read_line();
    if (!framework_.version.starts_with(framework_.module)) {
      throw Error(ErrorCode::unavailable,
                  fmt::format("'{0}' has no {1}: install it there (pip install {2})",
                              framework_.python.string(), framework_.name, framework_.module));
    }
    python_ = std::move(python);
  }

  Framework& framework_;
  int threads_;
  std::unique_ptr<Python> python_;
};

/// "f4": the kind, and the bytes.
std::string numpy_name(DType dtype) {
  if (dtype == DType::bool_) return "bool";
  const char* const kind = is_floating(dtype) ? "f" : info(dtype).is_signed ? "i" : "u";
  return fmt::format("{}{}", kind, size_of(dtype));
}

/// The program of the process from here on, for one row.
class FrameworkRow {
 public:
  FrameworkRow(std::shared_ptr<FrameworkProcess> process, const KernelSetup& setup)
      : process_(std::move(process)), setup_(setup) {
    nlohmann::json command{{"program", setup.program.name()},
                           {"arrays", nlohmann::json::array()},
                           {"results", setup.results}};
    for (std::size_t k = 0; k < setup.arrays.size(); ++k) {
      const std::string file = directory_.file(k);
      std::ofstream(file, std::ios::binary)
          .write(static_cast<const char*>(setup.arrays[k].data()),
                 static_cast<std::streamsize>(setup.arrays[k].num_bytes()));
      command["arrays"].push_back({{"path", file},
                                   {"dtype", numpy_name(setup.tensors[k].dtype())},
                                   {"shape", setup.tensors[k].dims()}});
    }
    if (const std::string answer = process_->ask(command.dump()); answer != "ready")
      throw Error(ErrorCode::unavailable, fmt::format("{}: {}", process_->name(), answer));
  }

  double time(std::size_t count) {
    const std::string answer = process_->ask(fmt::format("run {}", count));
    process_->leave_processors();
    double ns = 0;
    const auto [end, error] = std::from_chars(answer.data(), answer.data() + answer.size(), ns);
    if (error != std::errc()) {
      throw Error(ErrorCode::internal,
                  fmt::format("{} answered '{}', no time", process_->name(), answer));
    }
    return ns;
  }
  void fetch() {
    static_cast<void>(process_->ask("fetch"));
    for (std::size_t k = setup_.arrays.size() - setup_.results; k < setup_.arrays.size(); ++k) {
      const HostArray& result = setup_.arrays[k];
      std::ifstream(directory_.file(k), std::ios::binary)
          .read(static_cast<char*>(result.data()),
                static_cast<std::streamsize>(result.num_bytes()));
    }
  }

 private:
  std::shared_ptr<FrameworkProcess> process_;
  const KernelSetup& setup_;
  Directory directory_;
};

void require_same(std::span<const float> ours, std::span<const float> theirs,
                  const std::string& rival) {
  for (std::size_t k = 0; k < ours.size(); ++k) {
    if (std::abs(ours[k] - theirs[k]) <= 1e-5F * std::max(1.0F, std::abs(ours[k]))) continue;
    throw Error(ErrorCode::internal, fmt::format("{} has {} where heddle has {} in element {}",
                                                 rival, theirs[k], ours[k], k));
  }
}

/// A program run by a framework, with its process.
struct Running {
  explicit Running(KernelSetup made) : setup(std::move(made)) {}
  KernelSetup setup;
  Prepared prepared;
  double ns = 0;  ///< approximate time of a call
};

}  // namespace

std::span<Framework> frameworks() {
  static std::array all{Framework{"JAX", "jax", "rival_jax.py", true, {}, {}},
                        Framework{"PyTorch", "torch", "rival_torch.py", true, {}, {}},
                        Framework{"NumPy", "numpy", "rival_numpy.py", false, {}, {}}};
  return all;
}

namespace {

/// The Python of some framework, since each comes with NumPy; empty if there is none.
std::filesystem::path any_python() {
  for (const Framework& each : frameworks()) {
    if (!each.python.empty()) return each.python;
  }
  return {};
}

}  // namespace

std::vector<Alternative> framework_alternatives(int threads, bool written) {
  std::vector<Alternative> found;
  for (Framework& each : frameworks()) {
    if (!each.has_kernels && !written) continue;
    if (!each.has_kernels && each.python.empty()) each.python = any_python();
    if (each.python.empty()) continue;
    const auto process = std::make_shared<FrameworkProcess>(each, threads);
    found.push_back({each.name, Kind::rival, [process](const KernelSetup& setup) {
                       const auto row = std::make_shared<FrameworkRow>(process, setup);
                       return Prepared{[row](std::size_t count) { return row->time(count); },
                                       [row] { row->fetch(); }};
                     }});
  }
  return found;
}

Contender framework_contender(const Alternative& framework, std::function<KernelSetup()> make,
                              std::function<std::vector<float>(const KernelSetup&)> ours) {
  const auto slot = std::make_shared<std::unique_ptr<Running>>();
  return {framework.name, framework.kind,
          [slot, framework, make = std::move(make), ours = std::move(ours)](nanoseconds length,
                                                                            Samples&) {
            if (!*slot) {
              auto running = std::make_unique<Running>(make());
              const std::vector<float> expected = ours(running->setup);
              running->prepared = framework.prepare(running->setup);
              if (running->prepared.fetch) {
                running->prepared.fetch();  // of the first run
              } else {
                running->prepared.time(1);
              }
              require_same(expected, running->setup.arrays.back().values<float>(), framework.name);
              running->prepared.time(1);
              running->ns = running->prepared.time(4);
              *slot = std::move(running);
            }
            Running& running = **slot;
            const double count = static_cast<double>(length.count()) / running.ns;
            running.ns = running.prepared.time(static_cast<std::size_t>(std::max(1.0, count)));
            return running.ns;
          }};
}

}  // namespace heddle::bench
