// `heddle info` and `heddle env`: the abilities of this build on this machine, and the settings in
// force. One thread.
#pragma once

#include <string>
#include <vector>

#include "heddle/backend.hpp"
#include "jit/machine/profile_file.hpp"

namespace heddle::tools {

struct BackendFacts {
  BackendInfo info{};
  std::vector<std::string> devices{};  ///< names of its physical devices; empty when unavailable
  int width = 1;                       ///< Backend::width()
};

struct Facts {
  std::string version;
  std::string cpu;                    ///< model name; empty where the system does not say
  std::vector<std::string> features;  ///< instruction sets that matter to generated code
  unsigned processors = 0;            ///< usable by this process
  std::string default_backend;        ///< the backend of Backend::open(); empty when it refuses
  std::string default_refusal;        ///< the reason of the refusal
  std::vector<BackendFacts> backends;
  std::vector<Setting> settings;
  KernelCacheInfo cache;
  jit::KnownMachine machine;
};

/// Opens each available backend for a moment. Throws Error for malformed settings.
[[nodiscard]] Facts gather_facts();
[[nodiscard]] std::string facts_text(const Facts& facts, bool colour);
/// The same as JSON, keys as in Facts.
[[nodiscard]] std::string facts_json(const Facts& facts);
/// One line per HEDDLE_ variable: name, value, origin, meaning.
[[nodiscard]] std::string settings_text(const std::vector<Setting>& settings, bool colour);

}  // namespace heddle::tools
