// DebugNames: the names of kernels for gdb, through gdb's JIT interface (gdb's manual, "JIT
// Compilation Interface"), which gdb reads whenever it looks. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/kernel.h"

namespace heddle::dev {

/// A function of a loaded library, and its name for people.
struct NamedFunction {
  heddle_kernel_function function;
  std::size_t bytes;
  std::string name;
};

/// Read by gdb, which defines the layout and the names.
struct GdbEntry {
  GdbEntry* next = nullptr;
  GdbEntry* previous = nullptr;
  const char* object = nullptr;  // an ELF file in memory
  std::uint64_t bytes = 0;
};
struct GdbDescriptor {
  std::uint32_t version;
  std::uint32_t action;  // 0: none, 1: `relevant` was added, 2: `relevant` is being removed
  GdbEntry* relevant;
  GdbEntry* first;
};

/// Registers the names of functions in `library` with gdb; the destructor removes them.
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

// Protected: other libraries of the process have their own descriptors, separate from heddle's.
extern "C" [[gnu::visibility("protected")]] heddle::dev::GdbDescriptor __jit_debug_descriptor;
