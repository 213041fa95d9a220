// The names of kernels, for gdb: by its JIT interface (gdb's manual, "JIT Compilation Interface"),
// so that it shows them whenever it looks. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/kernel.h"

namespace heddle::dev {

/// A function of a loaded library, and what people call it.
struct NamedFunction {
  heddle_kernel_function function;
  std::size_t bytes;
  std::string name;
};

/// What gdb reads: layout and names are its own.
struct GdbEntry {
  GdbEntry* next = nullptr;
  GdbEntry* previous = nullptr;
  const char* object = nullptr;  // an ELF file in memory
  std::uint64_t bytes = 0;
};
struct GdbDescriptor {
  std::uint32_t version;
  std::uint32_t action;  // 0: none, 1: `relevant` was added, 2: it goes
  GdbEntry* relevant;
  GdbEntry* first;
};

/// gdb knows these functions by these names until it is destroyed. They lie in `library`.
class DebugNames {
 public:
  DebugNames(const std::vector<NamedFunction>& functions, std::span<const std::byte> library);
  ~DebugNames();
  DebugNames(const DebugNames&) = delete;
  DebugNames& operator=(const DebugNames&) = delete;

 private:
  struct Entry;
  std::unique_ptr<Entry> entry_;
};

}  // namespace heddle::dev

// Protected: other libraries of the process have theirs, which are none of ours.
extern "C" [[gnu::visibility("protected")]] heddle::dev::GdbDescriptor __jit_debug_descriptor;
