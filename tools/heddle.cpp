// The heddle command: info, env, explain, cache, tune, demo, stress. Exit codes: 0 done, 1 failed,
// 2 misuse, 3 unknown or unusable device or backend.
#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <new>
#include <optional>
#include <random>
#include <string>

#include "files/descriptor.hpp"
#include "heddle/heddle.hpp"
#include "tools/command_line.hpp"
#include "tools/explain/explain.hpp"
#include "tools/explain/program_file.hpp"
#include "tools/explain/whole_file.hpp"
#include "tools/info.hpp"
#include "tools/stress/simulate.hpp"
#include "tools/stress/simulated_graph.hpp"
#include "tools/stress/simulated_runtime.hpp"
#include "tools/stress/soak.hpp"
#include "tools/stress/threaded_runtime.hpp"
#include "tools/stress/wide_devices.hpp"
#include "tools/terminal.hpp"
#include "tools/tune.hpp"
#include "tools/tune_program.hpp"

namespace heddle::tools {
namespace {

enum Exit : int { done = 0, failed = 1, misuse = 2, no_device = 3 };

/// Prints the message on stderr, in one write.
int complain(Exit code, std::string_view words) {
  fmt::print(stderr, "{} {}\n", paint("heddle:", Colour::bad, use_colour(stderr)), words);
  return code;
}

/// Never throws, because tasks print too; after_writing() reports errors at the end.
void print_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string_view without_prefix(std::string_view text) {
  constexpr std::string_view prefix = "heddle: ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

int info(const Options& options) {
  const Facts facts = gather_facts();
  const std::string text = options.json ? facts_json(facts) : facts_text(facts, use_colour(stdout));
  print_out(text);
  return Exit::done;
}

int env() {
  const std::string text = settings_text(settings(), use_colour(stdout));
  print_out(text);
  return Exit::done;
}

int cache(CacheAction action, const Options& options) {
  const CacheReport report =
      run_cache_action(action, options.cache_bytes ? &*options.cache_bytes : nullptr, options.json,
                       use_colour(stdout));
  print_out(report.text);
  return report.ok ? Exit::done : Exit::failed;
}

/// Calls use() with the requested backend.
template <class Use>
int with_backend(const Options& options, const Use& use) {
  std::optional<Backend> backend;
  try {
    backend = options.backend.empty() ? Backend::open() : Backend::open(options.backend);
  } catch (const Error& error) {
    return complain(Exit::no_device, without_prefix(error.what()));
  }
  use(*backend);
  return Exit::done;
}

int demo_digits(const Options& options) {
  return with_backend(
      options, [&](const Backend& backend) { demo::run_digits_demo(backend, options.digits); });
}

int measure_machine(const Options& options) {
  const TuneReport report = tune_machine(options.json, use_colour(stdout));
  print_out(report.text);
  return report.ok ? Exit::done : Exit::failed;
}

int tune(const Options& options) {
  if (options.machine) return measure_machine(options);
  if (options.program.empty())
    return complain(Exit::misuse, "what is to be tuned? There are: FILE, --machine");
  if (!std::isfinite(options.budget))
    return complain(Exit::misuse, "--budget is no number of seconds");
  const std::string file = contents_of(options.program);
  const std::optional<Graph> graph = parse_graph(options.program, file);
  const Program program = graph ? graph->program().program : parse_program(options.program, file);
  TuneProgramOptions asked = options.tune;
  asked.json = options.json;
  asked.tune.budget =
      std::chrono::ceil<std::chrono::nanoseconds>(std::chrono::duration<double>(options.budget));
  bool ok = false;
  const int code = with_backend(options, [&](const Backend& backend) {
    const TuneReport report = tune_program(backend, program, asked, use_colour(stdout));
    print_out(report.text);
    ok = report.ok;
  });
  return code == Exit::done && !ok ? static_cast<int>(Exit::failed) : code;
}

int explain_program(const Options& options) {
  const std::string file = contents_of(options.program);
  const std::optional<Graph> graph = parse_graph(options.program, file);
  const Program program = graph ? Program() : parse_program(options.program, file);
  return with_backend(options, [&](const Backend& backend) {
    const std::string text = graph ? explain(backend, *graph, options.explain)
                                   : explain(backend, program, options.explain);
    print_out(text);
  });
}

std::atomic<bool> interrupted{false};

void say(std::string_view line) {
  print_out(fmt::format("{}\n", line));
  std::fflush(stdout);
}

/// One requested seed.
stress::GraphReport simulate_one(bool runtime, SimulationOptions options) {
  return runtime ? stress::simulate_runtime(std::move(options))
                 : stress::simulate_graph(std::move(options));
}
SimulationOptions simulation_options(bool runtime, std::uint64_t seed) {
  return runtime ? stress::runtime_options(seed) : stress::graph_options(seed);
}

/// Random graphs in simulations, seed after seed.
int simulate(const Options& options) {
  stress::SimulateOptions simulated;
  simulated.one = [runtime = options.runtime](std::uint64_t seed) {
    return simulate_one(runtime, simulation_options(runtime, seed));
  };
  simulated.seed = options.seed ? *options.seed : std::random_device{}();
  simulated.seeds = *options.sims;
  simulated.stop = &interrupted;
  simulated.progress = say;
  say(fmt::format("seed {}", simulated.seed));
  std::signal(SIGINT, [](int) { interrupted.store(true); });
  const stress::SimulateResult result = stress::simulate(simulated);
  std::signal(SIGINT, SIG_DFL);
  say(result.to_string());
  if (result.broken.ok()) return Exit::done;
  return complain(Exit::failed,
                  fmt::format("{}\nsee how: heddle stress --replay {}{}", result.broken.to_string(),
                              result.last_seed, options.runtime ? " --runtime" : ""));
}

/// One simulation, step by step.
int replay(std::uint64_t seed, bool runtime) {
  SimulationOptions options = simulation_options(runtime, seed);
  options.on_step = [](const std::string& step) { print_out(step + "\n"); };
  const SimulationReport report = simulate_one(runtime, std::move(options));
  say(fmt::format("seed {}: {} steps, hash {:016x}", seed, report.steps, report.hash));
  return report.status.ok() ? Exit::done : complain(Exit::failed, report.status.to_string());
}

/// Random work for the tensor runtime, by threads, until the time is over, Ctrl-C, or a broken
/// invariant.
int stress_runtime(const Options& options) {
  if (!options.trace.empty())
    return complain(Exit::misuse, "--trace is for tasks alone: leave --runtime or --trace out");
  stress::ThreadedOptions threaded;
  threaded.seed = options.seed ? *options.seed : std::random_device{}();
  threaded.hosts = options.hosts;
  threaded.devices = options.devices;
  threaded.works_max = options.works;
  if (options.seconds > 0) threaded.length = std::chrono::seconds(options.seconds);
  threaded.stop = &interrupted;
  threaded.progress = say;
  stress::ThreadedResult result;
  const int code = with_backend(options, [&](const Backend& backend) {
    say(fmt::format("seed {}, backend {}", threaded.seed, backend.name()));
    std::signal(SIGINT, [](int) { interrupted.store(true); });
    result = stress::run_threaded(backend, threaded);
    std::signal(SIGINT, SIG_DFL);
  });
  if (code != Exit::done) return code;
  say(result.to_string());
  if (result.broken.empty()) return Exit::done;
  std::string again = fmt::format("heddle stress --runtime --seed {}", result.last_seed);
  if (!options.backend.empty()) again += " --backend " + options.backend;
  if (options.hosts) again += fmt::format(" --hosts {}", *options.hosts);
  if (options.devices) again += fmt::format(" --devices {}", *options.devices);
  complain(Exit::failed, fmt::format("{}\nbroken with seed {}, at some timing: {}", result.broken,
                                     result.last_seed, again));
  std::fflush(nullptr);
  if (result.stuck) std::_Exit(Exit::failed);  // stuck threads cannot be joined
  return Exit::failed;
}

/// Kernels in parts, while processors come and go.
int stress_wide(const Options& options) {
  if (!options.trace.empty())
    return complain(Exit::misuse, "--trace is for tasks alone: leave --runtime or --trace out");
  stress::WideOptions wide;
  wide.seed = options.seed ? *options.seed : std::random_device{}();
  wide.works_max = options.works;
  if (options.seconds > 0) wide.length = std::chrono::seconds(options.seconds);
  wide.stop = &interrupted;
  wide.progress = say;
  stress::WideResult result;
  const int code = with_backend(options, [&](const Backend& backend) {
    wide.backend = backend.name();
    say(fmt::format("seed {}, backend {}", wide.seed, backend.name()));
    std::signal(SIGINT, [](int) { interrupted.store(true); });
    result = stress::run_wide(wide);
    std::signal(SIGINT, SIG_DFL);
  });
  if (code != Exit::done) return code;
  say(result.to_string());
  if (result.broken.empty()) return Exit::done;
  complain(Exit::failed,
           fmt::format("{}\nbroken with seed {}, at some timing: heddle stress --runtime --wide "
                       "--seed {} --backend {}",
                       result.broken, result.last_seed, result.last_seed, wide.backend));
  std::fflush(nullptr);
  if (result.stuck) std::_Exit(Exit::failed);  // stuck threads cannot be joined
  return Exit::failed;
}

/// Random graphs of tasks until the time is over, Ctrl-C, or a broken invariant.
int stress_scheduler(const Options& options) {
  if (options.runtime) set_log_level(LogLevel::off);  // failures are expected
  if (options.replay) return replay(*options.replay, options.runtime);
  if (options.sims) return simulate(options);
  if (options.runtime) return options.wide ? stress_wide(options) : stress_runtime(options);
  stress::SoakOptions soak;
  soak.seed = options.seed ? *options.seed : std::random_device{}();
  if (options.seconds > 0) soak.length = std::chrono::seconds(options.seconds);
  soak.trace = !options.trace.empty();
  if (soak.trace && !std::ofstream(options.trace))
    return complain(Exit::misuse, fmt::format("--trace: '{}' cannot be written", options.trace));
  soak.stop = &interrupted;
  soak.progress = say;
  say(fmt::format("seed {}", soak.seed));
  set_log_level(LogLevel::off);  // failures are expected
  std::signal(SIGINT, [](int) { interrupted.store(true); });
  const stress::SoakResult result = stress::soak(soak);
  std::signal(SIGINT, SIG_DFL);
  say(result.to_string());
  if (result.trace) result.trace->write_chrome_json(options.trace);
  for (const std::string& broken : result.broken) complain(Exit::failed, broken);
  if (!result.broken.empty()) {
    complain(Exit::failed,
             fmt::format("broken with seed {0}: heddle stress --seed {0}", result.last_seed));
  }
  std::fflush(nullptr);
  if (result.stuck) std::_Exit(Exit::failed);  // stuck threads cannot be joined
  return result.broken.empty() ? Exit::done : Exit::failed;
}

/// Checks the settings first: a malformed variable is misuse, whatever the command.
template <class Command>
int guarded(const Command& command) {
  try {
    static_cast<void>(settings());
  } catch (const Error& error) {
    return complain(Exit::misuse, without_prefix(error.what()));
  }
  try {
    return command();
  } catch (const Error& error) {
    return complain(Exit::failed, without_prefix(error.what()));
  } catch (const std::bad_alloc&) {
    return complain(Exit::failed, "out of memory");
  } catch (const std::exception& error) {
    return complain(Exit::failed, error.what());
  }
}
/// Runs the requested cache command; exits with misuse when none was given.
int run_cache(const CLI::App& cache_app, const Options& options) {
  for (const CacheCommand& command : cache_commands) {
    if (*cache_app.get_subcommand(command.name))
      return guarded([&] { return cache(command.action, options); });
  }
  return complain(Exit::misuse, "what about the cache? There are: list, verify, prune, clear");
}

int run(int argc, char** argv) {
  CLI::App app{
      "heddle: describe array computations, compile them just in time, run them on devices"};
  app.name("heddle");
  app.set_version_flag("--version", "heddle " HEDDLE_VERSION);
  app.require_subcommand(0, 1);
  Options options;

  CLI::App* info_command =
      app.add_subcommand("info", "Backends, or why not; devices, toolchains, settings in force");
  info_command->add_flag("--json", options.json, "As JSON, for programs");
  CLI::App* env_command =
      app.add_subcommand("env", "The environment variables that heddle reads, and their values");
  CLI::App* cache_command =
      app.add_subcommand("cache", "The compiled kernels that are kept on disk");
  describe_cache(*cache_command, options);
  CLI::App* explain_command = app.add_subcommand(
      "explain", "What becomes of a program, stage by stage, and how far from its limits it runs");
  describe_explain(*explain_command, options);
  CLI::App* tune_command =
      app.add_subcommand("tune", "Measure a program's schedules, or what the machine takes");
  describe_tune(*tune_command, options);
  CLI::App* demo_command = app.add_subcommand("demo", "Train something");
  demo_command->require_subcommand(0, 1);
  CLI::App* digits_command = demo_command->add_subcommand(
      "digits", "A perceptron on handwritten digits, data-parallel over virtual devices");
  describe_demo(*digits_command, options);
  CLI::App* stress_command = app.add_subcommand(
      "stress", "Random graphs of tasks, with faults, on real threads; checks what must hold");
  describe_stress(*stress_command, options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return complain(Exit::misuse, fmt::format("{}; see heddle --help", error.what()));
  }
  if (*info_command) return guarded([&] { return info(options); });
  if (*env_command) return guarded([] { return env(); });
  if (*cache_command) return run_cache(*cache_command, options);
  if (*tune_command) return guarded([&] { return tune(options); });
  if (*explain_command) return guarded([&] { return explain_program(options); });
  if (*digits_command) return guarded([&] { return demo_digits(options); });
  if (*stress_command) return guarded([&] { return stress_scheduler(options); });
  if (*demo_command) return complain(Exit::misuse, "which demo? There is: digits");
  return complain(
      Exit::misuse,
      "which command? info, env, explain, cache, tune, demo or stress; see heddle --help");
}

/// Opens closed standard streams on /dev/null: later files must not receive their numbers. Writing
/// there fails as on a closed stream.
void fill_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

/// `code`, unless the output could not be written.
int after_writing(int code) {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0 && std::cout) return code;
  return std::max(code,
                  complain(Exit::failed, fmt::format("standard output could not be written: {}",
                                                     error != 0 ? files::errno_text(error)
                                                                : "an earlier write failed")));
}

}  // namespace
}  // namespace heddle::tools

int main(int argc, char** argv) {
  try {
    heddle::tools::fill_standard_streams();
    return heddle::tools::after_writing(heddle::tools::run(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heddle: %s\n", error.what());
    return 1;
  }
}
