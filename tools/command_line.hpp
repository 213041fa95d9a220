// The heddle command line: options and their descriptions.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/cache.hpp"
#include "tools/demo/digits_demo.hpp"
#include "tools/explain/explain.hpp"
#include "tools/tune_program.hpp"

namespace heddle::tools {

struct Options {
  bool json = false;
  bool machine = false;
  double budget = 10;
  TuneProgramOptions tune;
  std::string backend;
  demo::DigitsDemoOptions digits;
  long seconds = 10;
  std::optional<std::uint64_t> seed;
  std::string trace;
  std::optional<std::uint64_t> sims, replay;
  bool runtime = false, wide = false;
  std::optional<std::uint64_t> hosts, devices;
  std::uint64_t works = 0;
  std::optional<std::uint64_t> cache_bytes;
  std::string program;
  ExplainOptions explain;
};

struct CacheCommand {
  const char* name;
  CacheAction action;
  const char* meaning;
};
inline constexpr CacheCommand cache_commands[] = {
    {"list", CacheAction::list, "Entries, most recently used first"},
    {"verify", CacheAction::verify, "Check every entry; remove what is damaged, and exit with 1"},
    {"prune", CacheAction::prune, "Remove what was not used for longest, down to a size"},
    {"clear", CacheAction::clear, "Remove all entries"},
};

// Each function adds the options of a command; parsing fills them in, and CLI11 reports refused
// values.
void describe_demo(CLI::App& digits, Options& options);
void describe_explain(CLI::App& explain, Options& options);
void describe_stress(CLI::App& stress, Options& options);
void describe_cache(CLI::App& cache, Options& options);
void describe_tune(CLI::App& tune, Options& options);

}  // namespace heddle::tools
