// See compile_bare.hpp. libgccjit runs in a separate program (compile_bare_gccjit.cpp), as for
// users who protect their process from a crash, but warm.
#include "tools/bench/compile_bare.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "heddle/status.hpp"
#include "jit/emit/c.hpp"
#include "jit/toolchain/link.hpp"
#include "jit/toolchain/toolchain.hpp"

extern char** environ;

namespace heddle::bench {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::unavailable, what); }

/// Runs a program to a successful end, with its output in `output`.
void run_command(const std::vector<std::string>& command, const fs::path& output) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(pid, &status, 0) != pid || status != 0)
    fail(fmt::format("'{}' failed", fmt::join(command, " ")));
}

void load_one(const fs::path& library, const std::vector<std::string>& symbols) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(dlerror());
  for (const std::string& symbol : symbols) {
    if (dlsym(handle, symbol.c_str()) == nullptr) fail(dlerror());
  }
  dlclose(handle);
}

}  // namespace

BenchDirectory::BenchDirectory() {
  std::string pattern = (fs::temp_directory_path() / "heddle-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) fail("no directory can be made in " + pattern);
  path_ = pattern;
}

BenchDirectory::~BenchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

BareUnits::BareUnits(const std::string& compiler, const std::vector<jit::CompileUnit>& units)
    : compiler_(compiler) {
  for (const jit::CompileUnit& unit : units) {
    const std::string stem = fmt::format("{:03}", units_.size());
    Unit files{directory_.path() / (stem + (compiler == "cc" ? ".c" : ".loop")),
               directory_.path() / (stem + ".so"),
               {}};
    std::ofstream source(files.source);
    if (compiler == "cc") source << jit::emit_c(unit, jit::native_target());
    for (const jit::KernelSource& kernel : unit.kernels) {
      if (compiler == "gccjit") source << jit::print(*kernel.loop);
      files.symbols.push_back(jit::kernel_symbol(compiler == "cc" ? kernel.name : "kernel"));
      ++kernels_;
    }
    units_.push_back(std::move(files));
  }
}

double BareUnits::compile(nanoseconds length) const {
  if (compiler_ == "gccjit") return compile_by_gccjit(length);
  return timed_loop(length, kernels_, [this](std::size_t) {
    for (const Unit& unit : units_) {
      std::vector<std::string> command{"cc"};
      for (std::string& flag : jit::cc_flags({})) command.push_back(std::move(flag));
      command.insert(command.end(), jit::kernel_link_options.begin(),
                     jit::kernel_link_options.end());
      for (const std::string& word :
           {std::string("-o"), unit.library.string(), unit.source.string(), std::string("-lm")})
        command.push_back(word);
      run_command(command, directory_.path() / "output");
      load_one(unit.library, unit.symbols);
    }
  });
}

double BareUnits::compile_by_gccjit(nanoseconds length) const {
  const fs::path program = fs::canonical("/proc/self/exe").parent_path() / "bare-gccjit";
  const fs::path output = directory_.path() / "output";
  run_command({program.string(), directory_.path().string(), std::to_string(length.count())},
              output);
  double ns = 0;
  if (!(std::ifstream(output) >> ns)) fail("bare-gccjit gave no time");
  return ns;
}

double BareUnits::load(nanoseconds length) const {
  return timed_loop(length, kernels_, [this](std::size_t) {
    for (const Unit& unit : units_) load_one(unit.library, unit.symbols);
  });
}

}  // namespace heddle::bench
