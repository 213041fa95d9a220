// What compilers made of a kernel: its instructions.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "heddle/kernel.h"
#include "jit/system/process.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {

#if defined(__x86_64__)
/// The instructions of a function, by objdump.
inline std::string disassembly(heddle_kernel_function function) {
  Dl_info where{};
  const ElfW(Sym)* symbol = nullptr;
  if (dladdr1(reinterpret_cast<void*>(function), &where,
              reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr) {
    return {};
  }
  const Scratch scratch;
  const auto path = scratch.path() / "code";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(function),
             static_cast<std::streamsize>(symbol->st_size));
  const auto text = scratch.path() / "text";
  const std::string command = "objdump -D -b binary -mi386:x86-64 " + path.string() + " > ";
  const RunResult result =
      run_command({{"/bin/sh", "-c", command + text.string()}, {}}, std::chrono::minutes(1));
  return result.exit.success() ? read_text(text) : std::string();
}
#endif

}  // namespace heddle::jit::testing
