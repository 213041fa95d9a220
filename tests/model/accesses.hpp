// Makes a mutant of every access of the shipped templates, for tests/model/mutate.py.
//
// HEDDLE_MODEL_ACCESSES=FILE makes a model test write down each access of its scenarios, and how
// often the thread's next access came from the same function.
// HEDDLE_MODEL_MUTANT=NAME:LINE:COLUMN:MUTATION plants one mutant at that access. With either
// variable, tests skip the mutants that they name themselves. One thread runs the scenarios.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <string>

namespace heddle::model {

using Where = std::source_location;

/// The guarantee that a mutant removes from shipped code: a model that notices no mutant is
/// worthless. `symmetric` is no mutant: barriers have no effect, and the protocols know it.
enum class Mutation {
  none,
  symmetric,
  no_light,
  no_heavy,
  no_release,
  no_acquire,
  no_seq_cst,   ///< release and acquire instead
  relaxed,      ///< no order
  no_exchange,  ///< a load and a store instead
  no_lower,     ///< flags are not lowered: stores of false are left out
  clears,       ///< masking clears the whole word
  swapped,      ///< the second of two release stores comes first
  drop,         ///< the store is left out
  late          ///< the store comes after the thread's next access
};
constexpr std::array mutation_names = {
    "none",    "symmetric",   "no_light", "no_heavy", "no_release", "no_acquire", "no_seq_cst",
    "relaxed", "no_exchange", "no_lower", "clears",   "swapped",    "drop",       "late"};

/// "lane.hpp" for a path to that template; null: the path is no template but a scenario's own code.
inline const char* template_name(const char* path) {
  static constexpr char folder[] = "scheduler/protocol/";
  constexpr std::ptrdiff_t length = sizeof folder - 1;
  const char* const slash = std::strrchr(path, '/');
  if (slash == nullptr || slash + 1 - path < length) return nullptr;
  return std::strncmp(slash + 1 - length, folder, length) == 0 ? slash + 1 : nullptr;
}

/// The mutant requested by the environment.
struct PlantedAccess {
  std::string file;
  unsigned line = 0, column = 0;
  Mutation mutation = Mutation::none;

  /// Read once; a malformed value ends the process with a message.
  static const PlantedAccess& get() {
    static const PlantedAccess planted = read();
    return planted;
  }
  [[nodiscard]] bool is_at(const Where& at) const {
    if (mutation == Mutation::none || at.line() != line || at.column() != column) return false;
    const char* const name = template_name(at.file_name());
    return name != nullptr && file == name;
  }

 private:
  static PlantedAccess read() {
    const char* const text = std::getenv("HEDDLE_MODEL_MUTANT");
    if (text == nullptr) return {};
    PlantedAccess result;
    std::array<char, 64> file{}, mutation{};
    if (std::sscanf(text, "%63[^:]:%u:%u:%63s", file.data(), &result.line, &result.column,
                    mutation.data()) == 4) {
      result.file = file.data();
      for (std::size_t k = 0; k < mutation_names.size(); ++k)
        if (std::strcmp(mutation.data(), mutation_names[k]) == 0)
          result.mutation = static_cast<Mutation>(k);
    }
    if (result.mutation != Mutation::none) return result;
    std::fprintf(stderr, "HEDDLE_MODEL_MUTANT=%s (expected NAME:LINE:COLUMN:MUTATION)\n", text);
    std::exit(2);
  }
};

/// The accesses that scenarios make in the templates, recorded on request.
class AccessLog {
 public:
  static AccessLog& get() {
    static AccessLog log(std::getenv("HEDDLE_MODEL_ACCESSES"));
    return log;
  }
  [[nodiscard]] bool on() const { return path_ != nullptr; }

  /// `kind`: load, store, both or a barrier; `order`: as std::memory_order.
  void note(const Where& at, const char* kind, int order, unsigned thread) {
    if (!on()) return;
    Entry* const before = last_[thread % last_.size()];
    if (before != nullptr && before->function == at.function_name()) before->followed = true;
    const char* const file = template_name(at.file_name());
    last_[thread % last_.size()] = file == nullptr ? nullptr : find(file, at, kind, order);
  }
  /// A schedule begins: the next access of a thread does not follow its last recorded access.
  void begin() { last_.fill(nullptr); }

  ~AccessLog() {
    if (!on()) return;
    std::FILE* const out = std::fopen(path_, "w");
    if (out == nullptr) return;
    for (std::size_t k = 0; k < count_; ++k) {
      const Entry& e = entries_[k];
      std::fprintf(out, "%s:%u:%u %s %d %d\n", e.file, e.line, e.column, e.kind, e.order,
                   e.followed ? 1 : 0);
    }
    std::fclose(out);
  }

 private:
  struct Entry {
    const char* file;
    const char* function;
    const char* kind;
    unsigned line, column;
    int order;
    bool followed;
  };

  explicit AccessLog(const char* path) : path_(path) {}

  Entry* find(const char* file, const Where& at, const char* kind, int order) {
    for (std::size_t k = 0; k < count_; ++k) {
      Entry& e = entries_[k];
      if (e.line == at.line() && e.column == at.column() && std::strcmp(e.file, file) == 0)
        return &e;
    }
    if (count_ == entries_.size()) std::abort();
    entries_[count_] = {file, at.function_name(), kind, at.line(), at.column(), order, false};
    return &entries_[count_++];
  }

  const char* path_;
  std::array<Entry, 1024> entries_{};  // does not grow: Relacy replaces operator new
  std::size_t count_ = 0;
  std::array<Entry*, 16> last_{};
};

/// True if this run is about a single access: tests then skip the mutants that they name
/// themselves.
inline bool one_by_one() {
  return PlantedAccess::get().mutation != Mutation::none || AccessLog::get().on();
}

/// Stores that mutants delay, one per thread.
class LateStores {
 public:
  struct Waiting {
    void* atomic = nullptr;
    std::uint64_t value = 0;
    int order = 0;
    void (*store)(const Waiting&) = nullptr;
  };

  static LateStores& get() {
    static LateStores stores;
    return stores;
  }
  void put_off(unsigned thread, const Waiting& store) {
    waiting_[thread % waiting_.size()] = store;
  }
  /// The thread made another access: makes the delayed store.
  void make_up(unsigned thread) {
    Waiting& waiting = waiting_[thread % waiting_.size()];
    if (waiting.store == nullptr) return;
    const Waiting now = waiting;
    waiting = {};
    now.store(now);
  }
  void begin() { waiting_.fill({}); }

 private:
  std::array<Waiting, 16> waiting_{};
};

}  // namespace heddle::model
