// See command_line.hpp.
#include "tools/command_line.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace heddle::tools {
namespace {

/// Parses numbers without the command line library, which lets numbers wrap or be cut off, and
/// prints limits with six decimals.
template <class Number>
CLI::Validator number(Number least, Number most, const std::string& expected, const char* type) {
  const auto check = [=](const std::string& text) -> std::string {
    Number found{};
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, found);
    if (error == std::errc() && at == end && found >= least && found <= most) return {};
    return fmt::format("'{}' (expected {})", text, expected);
  };
  return {check, type};
}

CLI::Validator whole(std::uint64_t least) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  return number(least, most, fmt::format("a whole number from {} to {}", least, most), "UINT");
}

CLI::Validator seconds() {
  return number(1e-9, 1e6, "a number of seconds from 1e-9 to 1e6", "SECONDS");
}

}  // namespace

void describe_demo(CLI::App& digits, Options& options) {
  demo::DigitsDemoOptions& demo = options.digits;
  digits.add_option("--devices", demo.devices, "Virtual devices (default: one per core)")
      ->check(CLI::Range(1, 256));
  digits.add_option("--epochs", demo.epochs, "Passes over the training images")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  digits
      .add_option("--batch", demo.batch,
                  "Images per update, over all devices; rounded up to a multiple of their number")
      ->check(CLI::Range(1, 1437))
      ->capture_default_str();
  digits.add_option("--seed", demo.seed, "Decides starting weights and the order of the images")
      ->check(whole(0))
      ->capture_default_str();
  digits.add_option(
      "--backend", options.backend,
      "cc, gccjit, sync_cc, pooled_cc, ... (default: HEDDLE_BACKEND, else the best one here)");
  digits.add_option("--out", demo.out, "Draw loss and accuracy into this SVG file")
      ->take_last();  // ./dev demo passes a value; the user's value overrides it
  digits.add_flag("--quiet", demo.quiet, "No progress, only the result");
}

void describe_explain(CLI::App& explain, Options& options) {
  explain
      .add_option("program", options.program,
                  "A file of declarations and statements (- is standard input), such as\n"
                  "  tensor a f32[64, 128]\n  tensor b f32[128, 32]\n  tensor c f32[64, 32]\n"
                  "  c(i, j) += a(i, k) * b(k, j)\n"
                  "or the text of a graph, as Graph::to_string() gives it")
      ->required();
  explain.add_option("--backend", options.backend,
                     "cc, gccjit, ... (default: HEDDLE_BACKEND, else the best one here)");
  explain.add_flag("--source", options.explain.source, "Also what goes to the compiler");
  explain.add_flag("--fast-math", options.explain.fast_math, "Allow what changes bits");
}

void describe_stress(CLI::App& stress, Options& options) {
  CLI::Option* const seconds =
      stress.add_option("--seconds", options.seconds, "How long; 0: until Ctrl-C")
          ->check(CLI::Range(0L, 10'000'000L))
          ->capture_default_str();
  CLI::Option* const seed =
      stress.add_option("--seed", options.seed, "The first one (default: drawn, and printed)")
          ->check(whole(0));
  const auto named = [](const std::string& path) -> std::string {
    return path.empty() ? "'' (expected the path of a file)" : "";
  };
  CLI::Option* const trace =
      stress
          .add_option("--trace", options.trace,
                      "Write a trace of the last round there, for ui.perfetto.dev")
          ->check(CLI::Validator(named, "PATH"));
  CLI::Option* const sims = stress
                                .add_option("--sim", options.sims,
                                            "Simulate so many seeds instead: one thread, where the "
                                            "seed decides interleavings, time and faults")
                                ->check(whole(1))
                                ->excludes(seconds)
                                ->excludes(trace);
  CLI::Option* const runtime = stress.add_flag(
      "--runtime", options.runtime, "Work for the tensor runtime, rather than tasks alone");
  CLI::Option* const replayed =
      stress.add_option("--replay", options.replay, "Simulate this one seed, and print each step")
          ->check(whole(0))
          ->excludes(seconds)
          ->excludes(seed)
          ->excludes(trace)
          ->excludes(sims);
  const auto threads = [&](CLI::Option* option) {
    option->needs(runtime)->excludes(sims)->excludes(replayed);
  };
  threads(stress.add_option(
      "--backend", options.backend,
      "With --runtime: whose devices (default: HEDDLE_BACKEND, else the best one here)"));
  CLI::Option* const hosts =
      stress.add_option("--hosts", options.hosts, "Threads that ask for work (default: drawn)")
          ->check(CLI::Range(1, 64));
  CLI::Option* const devices =
      stress.add_option("--devices", options.devices, "Virtual devices (default: drawn)")
          ->check(CLI::Range(1, 64));
  threads(hosts);
  threads(devices);
  threads(stress
              .add_flag("--wide", options.wide,
                        "With --runtime: kernels in parts, on devices of any width and mode, while "
                        "processors are taken away and given back")
              ->excludes(hosts)
              ->excludes(devices));
  threads(stress
              .add_option("--works", options.works,
                          "End once so many schedules and transfers were accepted; 0: any number")
              ->check(whole(0)));
}

void describe_cache(CLI::App& cache, Options& options) {
  cache.require_subcommand(0, 1);
  for (const CacheCommand& command : cache_commands) {
    CLI::App* const action = cache.add_subcommand(command.name, command.meaning);
    action->add_flag("--json", options.json, "As JSON, for programs");
    if (command.action == CacheAction::prune) {
      action
          ->add_option("--bytes", options.cache_bytes,
                       "That may stay (default: HEDDLE_CACHE_BYTES_MAX)")
          ->check(whole(0));
    }
  }
}

void describe_tune(CLI::App& tune, Options& options) {
  CLI::Option* const machine = tune.add_flag(
      "--machine", options.machine,
      "Measure caches, memory and processors, within 5 s, and keep what they take; exit with 1, "
      "and keep nothing, when repetitions differ by more than 20 %");
  CLI::Option* const program =
      tune.add_option("program", options.program,
                      "A file as `heddle explain` takes it: measure the schedules that the cost "
                      "model finds near its own, and keep the best for this program and machine")
          ->excludes(machine);
  const auto of_program = [program](CLI::Option* option) { return option->needs(program); };
  of_program(tune.add_option("--budget", options.budget,
                             "Seconds that all may take; exit with 1, and keep nothing, when no "
                             "candidate could be measured in that time")
                 ->check(seconds())
                 ->capture_default_str());
  of_program(tune.add_flag("--reassociate", options.tune.tune.reassociate,
                           "Also schedules that take float sums in another order, for compiles "
                           "that allow it (TuneOptions::reassociate)"));
  of_program(tune.add_flag("--exhaustive", options.tune.tune.exhaustive,
                           "All that there are, as often as the best, whatever their estimates"));
  of_program(tune.add_flag("--fast-math", options.tune.fast_math, "Allow what changes bits"));
  of_program(tune.add_option("--backend", options.backend,
                             "cc, gccjit, ... (default: HEDDLE_BACKEND, else the best one here)"));
  tune.add_flag("--json", options.json, "As JSON, for programs");
}

}  // namespace heddle::tools
